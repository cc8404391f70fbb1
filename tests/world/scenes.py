"""Scenes: small worlds in which one thing is done on purpose, for calibration and planted bugs."""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from pullcord import RunState
from pullcord.core.states import TERMINAL
from tests.world.effects import now
from tests.world.judge import Evidence, Violation, judge
from tests.world.lives import Op
from tests.world.nemesis import Hand, gathered
from tests.world.places import State
from tests.world.stage import Actor, World, world

AT_REST: Final = (*TERMINAL, RunState.PAUSED)
_LINGER_S: Final = 0.5
_SCENE_S: Final = 60.0


class Scene:
    """One run in a world with two actors, and a hand on its buttons."""

    def __init__(self, made: World) -> None:
        self.world = made
        self.hand = Hand(made, random.Random("scene"))
        self.offset_s = now() - time.time()
        self.owner: Actor
        self.other: Actor

    async def opens(self, **how: Any) -> None:
        self.owner = await self.world.enters("ann", **how)
        assert self.owner.is_ready.is_set(), (self.world.folder / "ann.log").read_text()

    async def second_enters(self, **how: Any) -> None:
        self.other = await self.world.enters("bob", **how)

    async def starts(self, *ops: tuple[str, int], run: str = "r1", wait: bool = True) -> None:
        """Start a run whose calls are these; returns when the first of them acts."""
        given = [Op(kind, f"tok-{run}-{n}", ticks) for n, (kind, ticks) in enumerate(ops)]
        self.owner.tell(
            do="start", agent="worker", run=run, given={"ops": msgspec.to_builtins(given)}
        )
        if wait:
            await self.acts(f"tok-{run}-0")

    async def acts(self, token: str, times: int = 1) -> None:
        """Wait until this call has ticked so often since now."""
        before = self._ticks(token)
        await self.world.until(lambda: self._ticks(token) >= before + times)

    def _ticks(self, token: str) -> int:
        return sum(one.token == token and one.what == "tick" for one in self.world.effects())

    async def reaches(self, *states: RunState, run: str = "r1", within_s: float = _SCENE_S) -> None:
        await self.world.until(
            lambda: run in self.world.looks and self.world.looks[run].state in states, within_s
        )

    async def press(self, verb: str, value: Any = None, run: str = "r1", **how: Any) -> None:
        await self.hand.press(run, verb, value, **how)

    async def over(self, run: str = "r1", within_s: float = 25) -> None:
        """People are told that it is over; what acts all the same is watched for a moment."""
        await self.reaches(*AT_REST, run=run, within_s=within_s)
        await asyncio.sleep(_LINGER_S)

    async def again(self, run: str = "r1") -> str:
        """Try it again, answer nothing, and return the fork when it asks or ends."""
        known = set(self.world.roots)
        self.owner.tell(do="again", run=run)
        await self.world.until(lambda: set(self.world.roots) - known)
        [fork] = set(self.world.roots) - known
        await self.reaches(*AT_REST, RunState.WAITING, run=fork)
        return fork


def frozen(kind: str, verb: str = "cancel") -> "Play":
    """A2: its owner stands still; somebody stops the run, and another process sees to it."""

    async def play(scene: Scene) -> None:
        await scene.opens()
        await scene.starts((kind, 200))
        await scene.second_enters()
        await scene.owner.stands_still()
        await scene.press(verb)
        await scene.over()
        scene.owner.signal(signal.SIGCONT)
        await asyncio.sleep(_LINGER_S)

    return play


async def frozen_model(scene: Scene) -> None:
    """A2: its owner stands still while a model answers it."""
    await scene.opens()
    scene.owner.tell(do="start", agent="desk", run="r1", given="Please see to tok-r1 at length")
    await scene.acts("tok-r1")
    await scene.second_enters()
    await scene.owner.stands_still()
    await scene.press("cancel")
    await scene.over()
    scene.owner.signal(signal.SIGCONT)
    await asyncio.sleep(_LINGER_S)


async def thawed_before_the_call(scene: Scene) -> None:
    """A2: it is stopped between the intent and the call, and goes on when its run has ended."""
    await scene.opens(plant="slow_to_begin")
    await scene.starts(("in_loop", 10), wait=False)
    await scene.world.until(lambda: "r1" in scene.world.looks and scene.world.looks["r1"].steps)
    await scene.owner.stands_still()
    await scene.second_enters(plant="")
    await scene.press("cancel")
    await scene.over()
    scene.owner.signal(signal.SIGCONT)
    await asyncio.sleep(2.0)


async def frozen_owner_idempotent(scene: Scene) -> None:
    """A2: what may be begun again is, while the first one still acts."""
    await scene.opens()
    await scene.starts(("in_process_again", 100))
    await scene.second_enters()
    await scene.owner.stands_still()
    await scene.acts("tok-r1-0", 50)
    scene.owner.signal(signal.SIGCONT)
    await scene.press("cancel")
    await scene.over()


def partitioned(kind: str, how: State) -> "Play":
    """A2: its owner does not reach the store (PostgreSQL); somebody cancels."""

    async def play(scene: Scene) -> None:
        await scene.opens()
        await scene.starts((kind, 200))
        await scene.second_enters()
        scene.world.place.away(scene.owner.number, how)
        await scene.press("cancel")
        await scene.over()
        scene.world.place.back()
        await asyncio.sleep(_LINGER_S)

    return play


def cancelled(kind: str, *, within_s: float = 25) -> "Play":
    """A call of this kind is cancelled while it acts."""

    async def play(scene: Scene) -> None:
        await scene.opens()
        await scene.starts((kind, 60))
        await scene.press("cancel")
        await scene.over(within_s=within_s)

    return play


def paused(kind: str) -> "Play":
    """A call of this kind is paused while it acts, and resumed."""

    async def play(scene: Scene) -> None:
        await scene.opens()
        await scene.starts((kind, 16), (kind, 4))
        await scene.press("pause")
        await scene.over()
        await scene.press("resume")
        await scene.reaches(*TERMINAL)

    return play


async def model_cancelled(scene: Scene) -> None:
    """An answer of a model is cancelled while it streams."""
    await scene.opens()
    scene.owner.tell(do="start", agent="desk", run="r1", given="Please see to tok-r1 at length")
    await scene.acts("tok-r1")
    await scene.press("cancel")
    await scene.over()


async def model_paused(scene: Scene) -> None:
    """An answer of a model is paused while it streams, longer than a pause waits for it."""
    await scene.opens()
    scene.owner.tell(do="start", agent="desk", run="r1", given="Please see to tok-r1 at length")
    await scene.acts("tok-r1")
    await scene.press("pause")
    await scene.over()


async def mcp_cancelled(scene: Scene) -> None:
    """A call of an MCP server's tool is cancelled while it acts."""
    await scene.opens()
    scene.owner.tell(do="start", agent="desk", run="r1", given="Please see to tok-r1")
    await scene.acts("tok-r1-mcp")
    await scene.press("cancel")
    await scene.over()


def tried_again(kind: str) -> "Play":
    """A4: a call that has failed, though it happened or may have, and somebody tries again."""

    async def play(scene: Scene) -> None:
        await scene.opens()
        scene.owner.tell(
            do="start",
            agent="worker",
            run="r1",
            given={"ops": [{"tool": kind, "token": "tok-r1-0", "ticks": 40}]},
        )
        await scene.reaches(*TERMINAL, RunState.WAITING)
        if scene.world.looks["r1"].state is RunState.FAILED:
            await scene.again()
            await asyncio.sleep(_LINGER_S)

    return play


async def tried_again_later(scene: Scene) -> None:
    """A run fails in its second call, and somebody tries again: the first had been finished."""
    await scene.opens()
    await scene.starts(("in_loop", 2), ("fails", 1))
    await scene.reaches(*TERMINAL)
    await scene.again()


def child_tried_again(kind: str) -> "Play":
    """A4: the same in a child, whose parent fails with it and is tried again."""

    async def play(scene: Scene) -> None:
        await scene.opens()
        child = [{"tool": kind, "token": "tok-r1-c0", "ticks": 40}]
        scene.owner.tell(do="start", agent="worker", run="r1", given={"ops": [], "child": child})
        await scene.reaches(*TERMINAL)
        await scene.again()
        await asyncio.sleep(_LINGER_S)

    return play


def killed(kind: str) -> "Play":
    """Its owner is killed while the call acts; the next asks, and nobody has answered yet."""

    async def play(scene: Scene) -> None:
        await scene.opens()
        await scene.starts((kind, 10), ("in_loop", 2))
        scene.owner.signal(signal.SIGKILL)
        await scene.second_enters()
        await scene.reaches(*AT_REST, RunState.WAITING)
        await asyncio.sleep(_LINGER_S)

    return play


def pulled(kind: str) -> "Play":
    """The kill switch is pulled while a call of this kind acts."""

    async def play(scene: Scene) -> None:
        await scene.opens(killable=False)
        await scene.starts((kind, 60))
        await scene.hand.engage()
        await asyncio.sleep(_LINGER_S)
        await scene.hand.release()

    return play


async def killed_later(scene: Scene) -> None:
    """Its owner is killed in the second call; the first was finished."""
    await scene.opens()
    await scene.starts(("in_loop", 2), ("in_loop_again", 40))
    await scene.acts("tok-r1-1")
    scene.owner.signal(signal.SIGKILL)
    await scene.second_enters()
    await scene.reaches(*AT_REST, RunState.WAITING)


async def completed(scene: Scene) -> None:
    """A run that nobody disturbs."""
    await scene.opens()
    await scene.starts(("in_loop", 2), ("in_process", 2), wait=False)
    await scene.reaches(*TERMINAL)


async def told_over_http(scene: Scene) -> None:
    """A run is paused, told something and resumed, by HTTP alone."""
    await scene.opens()
    scene.owner = await scene.world.enters("srv", role="server")
    await scene.starts(("in_loop", 20))
    for verb, value in (("redirect", "Do it another way."), ("pause", None), ("resume", None)):
        await scene.hand.press("r1", verb, value, way="http")
    await scene.reaches(*TERMINAL)


async def undone(scene: Scene) -> None:
    """A run is cancelled after something that can be undone."""
    await scene.opens()
    await scene.starts(("in_loop_undo", 2), ("in_loop", 60))
    await scene.acts("tok-r1-1")
    await scene.press("cancel")
    await scene.over()


Play = Callable[[Scene], Awaitable[None]]
SCENES: Final[dict[str, Play]] = {
    "frozen_owner": frozen("in_process"),
    "frozen_owner_paused": frozen("in_process", "pause"),
    "frozen_model": frozen_model,
    "thawed_before_the_call": thawed_before_the_call,
    **{f"frozen_{kind}": frozen(kind) for kind in ("in_loop", "to_thread", "subprocess", "exec")},
    "frozen_owner_idempotent": frozen_owner_idempotent,
    "partitioned_owner": partitioned("in_process", "stalled"),
    "partitioned_in_loop": partitioned("in_loop", "cut"),
    "partitioned_subprocess": partitioned("subprocess", "stalled"),
    "partitioned_to_thread": partitioned("to_thread", "cut"),
    "model_cancelled": model_cancelled,
    "model_paused": model_paused,
    "mcp_cancelled": mcp_cancelled,
    "undone": undone,
    "completed": completed,
    "killed_later": killed_later,
    "tried_again_later": tried_again_later,
    "told_over_http": told_over_http,
    **{
        f"cancelled_{kind}": cancelled(kind)
        for kind in ("in_loop", "to_thread", "subprocess", "in_process", "in_thread", "exec")
    },
    "cancelled_in_vain": cancelled("in_loop", within_s=5),  # only with a plant
    **{f"paused_{kind}": paused(kind) for kind in ("in_loop", "in_process", "exec", "to_thread")},
    **{f"tried_again_{kind}": tried_again(kind) for kind in ("too_slow", "unstorable", "fails")},
    **{f"child_tried_again_{kind}": child_tried_again(kind) for kind in ("too_slow", "unstorable")},
    **{f"killed_{kind}": killed(kind) for kind in ("in_loop", "in_process", "subprocess")},
    **{
        f"pulled_{kind}": pulled(kind)
        for kind in ("in_loop", "to_thread", "subprocess", "in_process", "exec")
    },
}
ONLY_POSTGRES: Final = {name for name in SCENES if name.startswith("partitioned_")}


async def played(kind: str, name: str, **how: Any) -> list[Violation]:
    """Play a scene and return what the judge finds."""
    return judge(await evidence(kind, name, **how))


async def evidence(kind: str, name: str, **how: Any) -> Evidence:
    async with world(kind, actors=2, **how) as made:
        scene = Scene(made)
        is_finished = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SCENE_S):
                await SCENES[name](scene)
                is_finished = True
        found = await gathered(made, scene.hand, name, scene.offset_s)
        found.is_finished = is_finished
        return found
