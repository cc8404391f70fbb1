"""Whole runs that a process is killed in, and the agents they are runs of.

Every effect and every acknowledgement is told to the witness, outside the process, before
anything else happens: what the dead process really did is known to the letter.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from pullcord import Ack, AgentConfig, Context, Retry, Run, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import Effect
from pullcord.journal.journal import Journal
from pullcord.testing import ManualClock
from pullcord.testing.crashing import Witness

CHUNKS: Final = ("The ", "customers ", "who ", "left")
BOUND_S: Final = 60


class WitnessedWorld:
    """What the agents do outside, and what a scenario holds up to have something in flight."""

    def __init__(self, tell: Witness, *, held: Iterable[str] = (), broken: bool = False) -> None:
        self.tell = tell
        self.broken = broken
        self.begun: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._held = {name: asyncio.Event() for name in held}

    def go_on(self, name: str) -> None:
        self._held[name].set()

    async def step(
        self, ctx: Context, name: str, *args: object, effect: Effect = "once", retry: int = 1
    ) -> Any:
        async def happen(*_: object) -> str:
            self.tell(f"effect {ctx.run_id} {name}")
            self.begun[name].set()
            if name in self._held:
                await self._held[name].wait()
            if self.broken and name == "breaks":
                raise ConnectionError("declined")
            return name

        again = Retry(attempts=retry, wait_s=0.001)
        return await ctx.step(name, happen, *args, effect=effect, retry=again)

    def release(self, ctx: Context, name: str) -> Callable[[], Any]:
        async def let_go() -> None:
            self.tell(f"release {ctx.run_id} {name}")

        let_go.__name__ = name
        return let_go

    async def chunks(self, ctx: Context) -> AsyncIterator[str]:
        """Each chunk is asked for only when the one before has been shown."""
        shown = 0
        for chunk in CHUNKS:
            yield chunk
            shown += len(chunk)
            self.tell(f"shown {ctx.run_id} {shown}")
            self.begun[chunk].set()
            if chunk in self._held:
                await self._held[chunk].wait()


def agents(world: WitnessedWorld, *, version: str = "1") -> dict[str, AgentConfig]:
    """The agents of version 1 of this program; version 2 has learnt a step in between."""

    async def letters(ctx: Context) -> list[Any]:
        done = [await world.step(ctx, "a")]
        if version != "1":
            await world.step(ctx, "new")
        return [*done, await world.step(ctx, "b"), await world.step(ctx, "c")]

    async def planner(ctx: Context) -> list[Any]:
        done: list[Any] = []
        async for item in ctx.plan(["fetch", "sort", "send"]):
            await world.step(ctx, item.title, item.instruction)
            done.append(item.instruction)
        return done

    async def listener(ctx: Context) -> list[Any]:
        told: list[Any] = []
        for name in ("a", "b", "c"):
            await world.step(ctx, name)
            told += await ctx.instructions()
        return told

    async def asker(ctx: Context) -> list[Any]:
        return [
            await world.step(ctx, "a"),
            await ctx.ask("Go on?"),
            await world.step(ctx, "b"),
        ]

    async def tree(ctx: Context) -> list[Any]:
        left = await ctx.spawn("letters", key="left")
        done = await world.step(ctx, "own")
        right = await ctx.spawn("letters", key="right")
        return [done, await left.result(), await right.result()]

    async def parallel(ctx: Context) -> list[Any]:
        async def one(name: str) -> list[Any]:
            mine = ctx.branch(name)
            fetched = await world.step(mine, f"fetch-{name}", effect="idempotent")
            return [fetched, await world.step(mine, f"store-{name}")]

        return await asyncio.gather(*(one(name) for name in ("x", "y", "z")))

    async def sleeper(ctx: Context) -> list[Any]:
        before = await world.step(ctx, "a")
        await ctx.sleep(0.05)
        return [before, await world.step(ctx, "b")]

    async def holder(ctx: Context) -> list[Any]:
        await ctx.defer(world.release(ctx, "lock"))
        first = await world.step(ctx, "a")
        await ctx.defer(world.release(ctx, "session"))
        return [first, await world.step(ctx, "b")]

    async def talker(ctx: Context) -> list[Any]:
        said = [await ctx.say("Here they are: "), await ctx.say(world.chunks(ctx))]
        return [*said, await world.step(ctx, "a")]

    async def breaking(ctx: Context) -> list[Any]:
        first = await world.step(ctx, "a")
        return [first, await world.step(ctx, "breaks", effect="idempotent", retry=2)]

    async def dicing(ctx: Context) -> list[Any]:
        first = await world.step(ctx, "a", await ctx.uuid(), await ctx.now())
        return [first, await world.step(ctx, "b", await ctx.random(), await ctx.uuid())]

    known = (letters, planner, listener, asker, tree, parallel, sleeper, holder, talker)
    return {
        agent.__name__: AgentConfig(agent, version=version) for agent in (*known, breaking, dicing)
    }


class DoomedRuntime:
    """A runtime on the journal that is going to die, and somebody who pulls the cord."""

    def __init__(self, runtime: Runtime, world: WitnessedWorld) -> None:
        self.runtime, self.world = runtime, world

    async def start(self, agent: str, run_id: str = "r1", **how: Any) -> RunHandle:
        run = await self.runtime.start(agent, run_id=run_id, **how)
        self.world.tell(f"ack start {run.id} 1")
        return run

    def heard(self, verb: str, run: RunHandle, ack: Ack) -> None:
        assert ack.holds, ack
        self.world.tell(f"ack {verb} {run.id} {ack.seq}")


@asynccontextmanager
async def doomed_runtime(
    journal: Journal,
    witness: Witness,
    *,
    held: Iterable[str] = (),
    broken: bool = False,
    park_after_s: float = 60,
    shutdown_grace_s: float = 5,
    lease_s: float = 600,  # nobody who takes over may have to wait for it
) -> AsyncGenerator[DoomedRuntime]:
    world = WitnessedWorld(witness, held=held, broken=broken)
    timing = Timing(
        park_after_s=park_after_s,
        lease_s=lease_s,
        stop_grace_s=0.1,
        shutdown_grace_s=shutdown_grace_s,
        quiet_s=0.005,
    )
    async with asyncio.timeout(BOUND_S):
        async with Runtime(journal, agents=agents(world), timing=timing) as runtime:
            yield DoomedRuntime(runtime, world)


async def seen(run: RunHandle, holds: Callable[[Run], bool]) -> Run:
    """Return the run as soon as somebody who looks sees that of it."""
    async with aclosing(run.events()) as events:
        async for _ in events:
            if holds(now := await run.snapshot()):
                return now
    raise AssertionError(f"{run.id} has ended, and it never held")


# --- the scenarios ------------------------------------------------------------------------------


async def a_pause(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        run = await on.start("letters")
        await on.world.begun["b"].wait()
        on.heard("pause", run, await run.pause(by="ana"))
        on.world.go_on("b")
        await run.wait_for(RunState.PAUSED)


async def a_pause_and_a_resume(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        run = await on.start("letters")
        await on.world.begun["b"].wait()
        on.heard("pause", run, await run.pause(by="ana"))
        on.world.go_on("b")
        await run.wait_for(RunState.PAUSED)
        on.heard("resume", run, await run.resume(by="ana"))
        await run.result()


async def a_parked_run_that_is_resumed(journal: Journal, witness: Witness) -> None:
    """Paused, out of memory, and entered anew: twice."""
    async with doomed_runtime(journal, witness, held=["a", "b"], park_after_s=0) as on:
        run = await on.start("listener")
        for name in ("a", "b"):
            await on.world.begun[name].wait()
            on.heard("pause", run, await run.pause(by="ana"))
            on.world.go_on(name)
            await run.wait_for(RunState.PAUSED)
            on.heard("redirect", run, await run.resume(f"after {name}", by="ana"))
        await run.result()


async def a_redirected_plan(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["fetch", "sort"]) as on:
        run = await on.start("planner")
        await on.world.begun["fetch"].wait()
        on.heard("redirect", run, await run.redirect("sort by age", by="ana"))
        on.world.go_on("fetch")
        await on.world.begun["sort"].wait()
        on.heard("redirect", run, await run.redirect("send to Bo", by="ana"))
        on.heard("redirect", run, await run.redirect("send to Cy", by="ana"))
        on.world.go_on("sort")
        await run.result()


async def instructions_that_are_drained(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["a", "b", "c"]) as on:
        run = await on.start("listener")
        for name in ("a", "b", "c"):
            await on.world.begun[name].wait()
            for who in ("ana", "bo"):
                told = await run.redirect(f"{name} says {who}", by=who)
                on.heard("redirect", run, told)
            on.world.go_on(name)
        await run.result()


async def an_instruction_nobody_reads(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        run = await on.start("letters")
        await on.world.begun["b"].wait()
        on.heard("redirect", run, await run.redirect("the other way", by="ana"))
        on.world.go_on("b")
        await run.result()


async def a_cancel(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        run = await on.start("letters")
        await on.world.begun["b"].wait()
        on.heard("redirect", run, await run.redirect("too late to be read", by="ana"))
        on.heard("cancel", run, await run.cancel(by="ana", reason="wrong path"))
        await run.wait_for(RunState.CANCELLED)


async def a_cancel_that_releases(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        run = await on.start("holder")
        await on.world.begun["b"].wait()
        on.heard("cancel", run, await run.cancel(by="ana"))
        await run.wait_for(RunState.CANCELLED)


async def an_end_that_releases(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness) as on:
        await (await on.start("holder")).result()


async def a_quarantine(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["who "]) as on:
        run = await on.start("talker")
        await on.world.begun["who "].wait()
        on.heard("cancel", run, await run.cancel(by="ana", quarantine=True))
        await run.wait_for(RunState.CANCELLED)


async def a_tree(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness) as on:
        await (await on.start("tree")).result()


async def a_tree_that_is_paused(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        run = await on.start("tree")
        await on.world.begun["b"].wait()
        on.heard("pause", run, await run.pause(by="ana"))
        on.world.go_on("b")
        await run.wait_for(RunState.PAUSED)
        on.heard("resume", run, await run.resume(by="ana"))
        await run.result()


async def a_tree_that_is_cancelled(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        run = await on.start("tree")
        await on.world.begun["b"].wait()
        on.heard("cancel", run, await run.cancel(by="ana"))
        await run.wait_for(RunState.CANCELLED)


async def a_question(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, park_after_s=0) as on:
        run = await on.start("asker")
        asked = await run.wait_for(RunState.WAITING)
        [question] = asked.open_questions()
        on.heard("answer", run, await run.answer(question, "yes", by="ana"))
        await run.result()


async def a_question_taken_back(journal: Journal, witness: Witness) -> None:
    """A redirect withdraws the card; the agent asks again."""
    async with doomed_runtime(journal, witness) as on:
        run = await on.start("asker")
        await run.wait_for(RunState.WAITING)
        on.heard("redirect", run, await run.redirect("ask in English", by="ana"))
        asked = await seen(run, lambda now: len(now.questions) == 2)
        [question] = asked.open_questions()
        on.heard("answer", run, await run.answer(question, "yes", by="ana"))
        await run.result()


async def parallel_steps(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["fetch-x", "store-y"]) as on:
        run = await on.start("parallel")
        await on.world.begun["store-y"].wait()
        on.world.go_on("fetch-x")
        on.heard("pause", run, await run.pause(by="ana"))
        on.world.go_on("store-y")
        await run.wait_for(RunState.PAUSED)
        on.heard("resume", run, await run.resume(by="ana"))
        await run.result()


async def a_sleep(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, park_after_s=0) as on:
        await (await on.start("sleeper")).result()


async def streamed_text(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness) as on:
        await (await on.start("talker")).result()


async def streamed_text_that_is_cut(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["customers "]) as on:
        run = await on.start("talker")
        await on.world.begun["customers "].wait()
        on.heard("cancel", run, await run.cancel(by="ana"))
        await run.wait_for(RunState.CANCELLED)


async def a_fork(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["c"]) as on:
        run = await on.start("listener")
        await on.world.begun["c"].wait()
        on.heard("cancel", run, await run.cancel(by="ana"))
        ended = await run.wait_for(RunState.CANCELLED)
        started = next(step.started_seq for step in ended.steps.values() if step.name == "c")
        on.world.go_on("c")
        fork = await run.fork(at=started - 1, instruction="the other way", by="ana")
        on.world.tell(f"ack start {fork.id} 1")
        await fork.result()


async def a_failure_tried_again(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, broken=True) as on:
        run = await on.start("breaking")
        await run.wait_for(RunState.FAILED)
        on.world.broken = False
        again = await run.try_again(by="ana")
        on.world.tell(f"ack start {again.id} 1")
        await again.result()


async def remembered_values(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["a"], park_after_s=0) as on:
        run = await on.start("dicing")
        await on.world.begun["a"].wait()
        on.heard("pause", run, await run.pause(by="ana"))
        on.world.go_on("a")
        await run.wait_for(RunState.PAUSED)
        on.heard("resume", run, await run.resume(by="ana"))
        await run.result()


async def a_queue_on_one_thread(journal: Journal, witness: Witness) -> None:
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        first = await on.start("letters", "r1", thread="t1")
        await on.world.begun["b"].wait()
        second = await on.start("asker", "r2", thread="t1", if_busy="queue")
        on.world.go_on("b")
        await first.result()
        asked = await second.wait_for(RunState.WAITING)
        on.heard("answer", second, await second.answer(asked.open_questions()[0], "yes", by="bo"))
        await second.result()


async def a_shutdown(journal: Journal, witness: Witness) -> None:
    """What is under way finishes within the grace; the rest is for the next process."""
    async with doomed_runtime(journal, witness, held=["b"]) as on:
        await on.start("letters")
        await on.world.begun["b"].wait()
        on.world.go_on("b")


async def a_shutdown_without_grace(journal: Journal, witness: Witness) -> None:
    """The step under way is cut, and what became of it is for a person to say."""
    async with doomed_runtime(journal, witness, held=["b"], shutdown_grace_s=0) as on:
        await on.start("letters")
        await on.world.begun["b"].wait()


async def a_takeover(journal: Journal, witness: Witness) -> None:
    """The first owner's alarms never ring, so its lease lapses in the middle of a step."""
    asleep = WitnessedWorld(witness, held=["b"])
    quick = Timing(lease_s=0.05, quiet_s=0.005)
    async with (
        asyncio.timeout(BOUND_S),
        Runtime(journal, agents=agents(asleep), clock=ManualClock(), timing=quick) as first,
    ):
        run = await DoomedRuntime(first, asleep).start("letters")
        await asleep.begun["b"].wait()
        async with doomed_runtime(journal, witness, lease_s=0.5) as on:
            taken = await on.runtime.get(run.id)
            [doubt] = (await seen(taken, lambda now: bool(now.questions))).questions
            on.heard("answer", taken, await taken.answer(doubt, "happened", by="ana"))
            asleep.go_on("b")  # the first one wakes: too late for it to say anything
            await taken.result()


SCENARIOS: Final = (
    a_pause,
    a_pause_and_a_resume,
    a_parked_run_that_is_resumed,
    a_redirected_plan,
    instructions_that_are_drained,
    an_instruction_nobody_reads,
    a_cancel,
    a_cancel_that_releases,
    an_end_that_releases,
    a_quarantine,
    a_tree,
    a_tree_that_is_paused,
    a_tree_that_is_cancelled,
    a_question,
    a_question_taken_back,
    parallel_steps,
    a_sleep,
    streamed_text,
    streamed_text_that_is_cut,
    a_fork,
    a_failure_tried_again,
    remembered_values,
    a_queue_on_one_thread,
    a_shutdown,
    a_shutdown_without_grace,
    a_takeover,
)
DEPLOYED: Final = (a_pause_and_a_resume, a_cancel, a_tree_that_is_paused, a_shutdown_without_grace)
