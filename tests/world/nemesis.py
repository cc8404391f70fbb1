"""The nemesis: by one seed it starts runs, breaks what drives them, and presses every button.

Then it heals the world: everything that was stopped goes on, the store is back, the kill switch
released, and a person answers what is asked, until every run has ended. What was seen and said
meanwhile is the evidence. The seed decides what is done; the machine decides what comes of it.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec

from pullcord import RunState
from pullcord.core.states import TERMINAL
from pullcord.errors import PullcordError
from tests import nursery
from tests.world.effects import now
from tests.world.judge import Asked, Evidence, Pull
from tests.world.lives import KINDS, LEASE_S, Given, Op
from tests.world.provider import LONG
from tests.world.stage import Actor, World, world

CAST: Final = {
    "ann": {"killable": True},
    "bob": {"killable": False},
    "srv": {"role": "server"},
}
TICKS: Final = (2, 4, 6, 10, 60)
LENGTHS: Final = ("", "", f" {LONG}")  # of what a model is asked to say
SETTLE_S: Final = 40.0
_LINGER_S: Final = 0.4
_CALL_S: Final = 20.0
_LONG_S: Final = 5 * LEASE_S
Fault = Callable[[], Awaitable[None]]


class Hand:
    """A person's hand on every surface: the Python API, the command line and HTTP."""

    def __init__(self, world: World, seed: random.Random) -> None:
        self._world, self._seed = world, seed
        self.asked: list[Asked] = []
        self.resumed: dict[str, list[float]] = {}
        self.pulls: list[Pull] = []
        self._is_pulled: tuple[str, float, list[str]] | None = None
        self._ways = {"api": self._by_api, "http": self._by_http, "command": self._by_command}

    async def press(
        self, run: str, verb: str, value: Any = None, *, now_: bool = False, way: str = ""
    ) -> None:
        """Press one button. What is not answered leaves the caller in doubt, and that is all."""
        way = way or self._seed.choice(("api",) * 5 + ("http",) * 3 + ("command",))
        sent_at = now()
        if verb == "resume":
            self.resumed.setdefault(run, []).append(sent_at)
        with contextlib.suppress(PullcordError, OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_CALL_S):
                ack = await self._ways[way](run, verb, value, now_)
            if ack.get("verdict") == "applied":
                self.asked.append(Asked(run, verb, sent_at, ack["seq"]))

    async def _by_api(self, run: str, verb: str, value: Any, now_: bool) -> dict[str, Any]:
        handle = await self._world.runtime.get(run)
        given: list[Any] = [*value] if isinstance(value, tuple) else [value] if value else []
        more = {"now": True} if now_ else {}
        return msgspec.to_builtins(await getattr(handle, verb)(*given, **more, by="ana"))

    async def _by_command(self, run: str, verb: str, value: Any, now_: bool) -> dict[str, Any]:
        parts: list[Any] = [*value] if isinstance(value, tuple) else [value] if value else []
        words = [part if isinstance(part, str) else json.dumps(part) for part in parts]
        return (await self._command(verb, run, *words, *(["--now"] if now_ else [])))[1]

    async def _by_http(self, run: str, verb: str, value: Any, now_: bool) -> dict[str, Any]:
        server = self._world.actors.get("srv")
        if server is None or not server.url or not server.is_alive or server.is_stopped:
            return await self._by_api(run, verb, value, now_)
        body: dict[str, Any] = {"now": True} if now_ else {}
        if isinstance(value, tuple):
            body |= {"question": value[0], "value": value[1]}
        elif value:
            body["instruction"] = value
        request = urllib.request.Request(
            f"{server.url}/runs/{run}/{verb}",
            data=json.dumps(body).encode(),
            headers={
                "content-type": "application/json",
                "x-pullcord": "1",
                "authorization": f"Bearer {server.token}",
            },
        )

        def send() -> dict[str, Any]:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.load(answer)

        return await asyncio.to_thread(send)

    async def _command(self, *words: str) -> tuple[int, dict[str, Any]]:
        store = self._world.place.address()
        with nursery.start(
            *("pullcord", *words, "--store", store, "--json", "--by", "ana"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                said, _ = await asyncio.to_thread(process.communicate)
            except asyncio.CancelledError:
                process.kill()
                raise
        return process.returncode, json.loads(said)

    async def engage(self, agent: str = "") -> None:
        scope = ["--agent", agent] if agent else []
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(_CALL_S * 2):
                _, said = await self._command("kill-switch", "engage", *scope, "--reason", "storm")
            named = [f"{one['what']}: {one['why']}" for one in said["not_stopped"]]
            if said["engaged"]:
                self._is_pulled = (agent, now(), named)

    async def release(self, agent: str = "") -> None:
        released_at = now()
        scope = ["--agent", agent] if agent else []
        if self._is_pulled:
            self.pulls.append(
                Pull(self._is_pulled[0], self._is_pulled[1], released_at, self._is_pulled[2])
            )
            self._is_pulled = None
        for _ in range(5):
            with contextlib.suppress(OSError, ValueError, TimeoutError):
                async with asyncio.timeout(_CALL_S):
                    status, _said = await self._command("kill-switch", "release", *scope)
                if status == 0:
                    return


class Nemesis:
    def __init__(self, world: World, seed: str, *, runs: int, storm_s: float) -> None:
        self._world, self._runs, self._storm_s = world, runs, storm_s
        self._name, self._seed = seed, random.Random(seed)
        self._hand = Hand(world, self._seed)
        self._wanted: dict[str, dict[str, Any]] = {}  # run → how it is started
        self._again: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ends_at = 0.0
        self._offset_s = now() - time.time()

    def _notes(self, what: str) -> None:
        if os.environ.get("WORLD_TRACE"):
            sys.stderr.write(f"{now() - self._ends_at + self._storm_s:7.2f} {what}\n")

    async def rages(self) -> Evidence:
        for name, how in CAST.items():
            await self._world.enters(name, **how)
        self._ends_at = now() + self._storm_s
        async with asyncio.TaskGroup() as storm:
            for work in (self._starts(), self._breaks(), self._presses(), self._pulls()):
                storm.create_task(work)
        self._notes("the storm is over")
        await self._heals()
        self._notes("healed")
        tale = "" if await self._settles() else await self._world.tells()
        self._notes("settled")
        await asyncio.sleep(_LINGER_S)  # what still acts is seen to
        # The wall clock of a machine may be set while a world is played: a record is no later.
        offset_s = min(self._offset_s, now() - time.time())
        evidence = await gathered(self._world, self._hand, self._name, offset_s)
        evidence.tale = tale
        return evidence

    # --- the storm ---

    def _is_on(self) -> bool:
        return now() < self._ends_at

    async def _starts(self) -> None:
        for number in range(self._runs):
            await asyncio.sleep(self._seed.uniform(0, 1.2 * self._storm_s / self._runs))
            self._start(f"r{number}")

    def _start(self, run: str) -> None:
        """Have somebody start it. Whoever it was may die, or not reach the store."""
        if run not in self._wanted:
            is_desk = self._seed.random() < 0.2
            prompt = f"Please see to tok-{run}{self._seed.choice(LENGTHS)}"
            given = prompt if is_desk else msgspec.to_builtins(self._given(run))
            self._wanted[run] = {"agent": "desk" if is_desk else "worker", "given": given}
        if actor := self._healthy():
            actor.tell(do="start", run=run, **self._wanted[run])

    def _given(self, run: str) -> Given:
        def ops(prefix: str, count: int) -> list[Op]:
            return [
                Op(kind, f"tok-{run}-{prefix}{n}", 40 if kind == "too_slow" else ticks)
                for n in range(count)
                for kind, ticks in [(self._seed.choice(KINDS), self._seed.choice(TICKS))]
            ]

        child = ops("c", 2) if self._seed.random() < 0.15 else []
        return Given(ops("o", self._seed.randint(1, 3)), child)

    def _healthy(self) -> Actor | None:
        fit = [
            a for a in self._world.actors.values() if a.is_alive and not a.is_stopped and a.writer
        ]
        return self._seed.choice(fit) if fit else None

    def _working(self) -> list[str]:
        living = [r for r, run in self._world.looks.items() if run.state not in TERMINAL]
        return [r for r in living if self._world.owner(r) is not None]

    async def _breaks(self) -> None:
        faults: list[Fault] = [
            self._kills, self._stops, self._stops, self._stops, self._terminates,
            self._kills_the_warden, self._cuts_off, self._cuts_off, self._steps_the_clock,
        ]  # fmt: skip
        while self._is_on():
            await asyncio.sleep(self._seed.uniform(0.2, 0.9))
            fault = self._seed.choice(faults)
            self._notes(getattr(fault, "__name__", ""))
            await fault()

    def _victim(self) -> tuple[str, Actor] | None:
        """A run under way and the actor that drives it, unless nobody else would be left."""
        fit = [a for a in self._world.actors.values() if a.is_alive and not a.is_stopped]
        working = self._working()
        if len(fit) < 2 or not working:
            return None
        run = self._seed.choice(working)
        actor = self._world.owner(run)
        return (run, actor) if actor and actor in fit else None

    async def _kills(self) -> None:
        if found := self._victim():
            found[1].signal(signal.SIGKILL)
            self._later(self._returns(found[1]))

    async def _terminates(self) -> None:
        if found := self._victim():
            found[1].signal(signal.SIGTERM)
            self._later(self._returns(found[1]))

    async def _returns(self, actor: Actor) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(8):
                await actor.gone()
        actor.signal(signal.SIGKILL)
        await asyncio.sleep(self._seed.uniform(0, 0.5))
        await self._world.enters(actor.name, **CAST[actor.name])

    async def _stops(self) -> None:
        """Stand an owner still, often with a stop pressed and until people are told that it holds;
        then let it go on."""
        if found := self._victim():
            run, actor = found
            await actor.stands_still()
            if is_pressed := self._seed.random() < 0.7:
                verb = self._seed.choice(("cancel", "cancel", "pause"))
                self._later(self._hand.press(run, verb, now_=self._seed.random() < 0.3))
            self._later(
                self._goes_on(run, actor, self._seed.choice((0.3, 1.0, _LONG_S)), is_pressed)
            )

    async def _goes_on(self, run: str, actor: Actor, within_s: float, is_pressed: bool) -> None:
        await self._is_over(run, within_s if is_pressed else min(within_s, 2 * LEASE_S))
        actor.signal(signal.SIGCONT)

    async def _is_over(self, run: str, within_s: float) -> None:
        """Wait until people are told that a stop of this run holds, and a moment longer."""
        with contextlib.suppress(TimeoutError):
            at_rest = (*TERMINAL, RunState.PAUSED)
            await self._world.until(lambda: self._world.looks[run].state in at_rest, within_s)
            await asyncio.sleep(0.3)

    async def _kills_the_warden(self) -> None:
        if (found := self._victim()) and (wardens := found[1].wardens()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._seed.choice(wardens), signal.SIGKILL)

    async def _cuts_off(self) -> None:
        """The store is away: for one actor (PostgreSQL) or for all who write (a file)."""
        if (found := self._victim()) is None:
            return
        run, actor = found
        how = self._seed.choice(("stalled", "cut"))
        within_s = self._seed.choice((0.3, 1.0, _LONG_S))
        if self._world.place.kind == "sqlite":
            within_s = min(within_s, LEASE_S * 1.5)
            await asyncio.to_thread(self._world.place.away, 0, how)
        else:
            self._world.place.away(actor.number, how)
        if self._seed.random() < 0.6:
            self._later(self._hand.press(run, self._seed.choice(("cancel", "pause"))))
        await self._is_over(run, within_s)
        self._world.place.back()

    async def _steps_the_clock(self) -> None:
        if found := self._victim():
            ahead = self._seed.choice((-3_600_000, -5_000, 5_000, 3_600_000))
            found[1].tell(do="clock", ahead_ms=ahead)

    async def _presses(self) -> None:
        verbs = ("pause", "pause", "redirect", "redirect", "resume", "cancel", "cancel")
        while self._is_on():
            await asyncio.sleep(self._seed.uniform(0.05, 0.5))
            living = [r for r, run in self._world.looks.items() if run.state not in TERMINAL]
            if living:
                run, verb = self._seed.choice(living), self._seed.choice(verbs)
                value = "Do it another way." if verb == "redirect" else None
                is_now = verb in ("pause", "cancel") and self._seed.random() < 0.3
                self._later(self._hand.press(run, verb, value, now_=is_now))
            await self._tends(eager=False)

    async def _pulls(self) -> None:
        """Pull the kill switch once in most storms, for everything or for one agent."""
        await asyncio.sleep(self._seed.uniform(0.4, 0.8) * self._storm_s)
        if self._seed.random() < 0.7:
            agent = self._seed.choice(("", "", "worker"))
            await self._hand.engage(agent)
            await asyncio.sleep(self._seed.uniform(0.2, 1.0))
            await self._hand.release(agent)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- and after it ---

    async def _heals(self) -> None:
        for actor in self._world.everybody:
            actor.signal(signal.SIGCONT)
        self._world.place.back()
        while self._tasks:
            await asyncio.gather(*self._tasks)
        self._world.place.back()
        for name, how in CAST.items():
            if not self._world.actors[name].is_alive:
                await self._world.enters(name, **how)

    async def _settles(self) -> bool:
        """A person answers what is asked and presses resume, until every run has ended. False: some
        have not."""
        until = now() + SETTLE_S
        while now() < until:
            await self._tends(eager=True)
            missing = [run for run in self._wanted if run not in self._world.told]
            runs = [self._world.looks.get(run) for run in self._world.told]
            if not missing and all(run and run.state in TERMINAL for run in runs):
                return True
            for run in missing:
                self._start(run)
            await asyncio.sleep(0.1)
            for name, how in CAST.items():
                if not self._world.actors[name].is_alive:
                    await self._world.enters(name, **how)
        return False

    async def _tends(self, *, eager: bool) -> None:
        """Answer what is asked, resume what is paused, try again what has failed."""
        for run_id, run in list(self._world.looks.items()):
            if not eager and self._seed.random() < 0.7:
                continue
            if run.state is RunState.WAITING:
                for question in run.open_questions():
                    said = self._seed.choice(("run", "skip", {"happened": "as far as I can see"}))
                    await self._hand.press(run_id, "answer", (question, said))
            elif run.state is RunState.PAUSED and eager:
                verb = self._seed.choice(("resume", "resume", "cancel"))
                await self._hand.press(run_id, verb)
            elif run.state is RunState.FAILED and run_id not in self._again:
                self._again.add(run_id)
                is_first = run_id not in self._world.roots
                if is_first and self._seed.random() < 0.7:
                    await self._tries_again(run_id)

    async def _tries_again(self, run: str) -> None:
        if actor := self._healthy():
            actor.tell(do="again", run=run)
            forks = self._world.roots
            with contextlib.suppress(TimeoutError):
                await self._world.until(lambda: run in forks.values() or not actor.is_alive, 5)


async def gathered(world: World, hand: Hand, seed: str, offset_s: float) -> Evidence:
    """All that is known of a world now."""
    runtime = world.runtime
    records = {run: await runtime.journal.read(run) for run in list(world.told)}
    states: dict[str, str] = {}
    receipts: dict[str, dict[str, Any]] = {}
    for run in records:
        handle = await runtime.get(run)
        look = await handle.snapshot()
        states[run] = look.state.value
        if look.ended:
            with contextlib.suppress(TimeoutError):  # it is being undone, and nobody does it
                async with asyncio.timeout(_CALL_S):
                    receipts[run] = msgspec.to_builtins(await handle.receipt())
    return Evidence(
        seed=seed,
        effects=world.effects(),
        told=world.told,
        records=records,
        states=states,
        receipts=receipts,
        pulls=hand.pulls,
        asked=hand.asked,
        resumed=hand.resumed,
        shut_down={f"{a.name}:{a.pid}": a.shut_down_at for a in world.everybody if a.shut_down_at},
        wall_to_boot_s=offset_s,
    )


async def played(kind: str, seed: str, *, runs: int, storm_s: float, plant: str = "") -> Evidence:
    """Play one world by its seed, and return all that is known of it."""
    async with world(kind, plant=plant) as made:
        return await Nemesis(made, seed, runs=runs, storm_s=storm_s).rages()
