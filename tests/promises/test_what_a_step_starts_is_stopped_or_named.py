"""P26. Work that an async step or tool has started is stopped with it. What cannot be stopped is
named in the receipt as still running: no receipt says "interrupted" of what it can see running."""

import asyncio
import multiprocessing
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import AttentionRaised, QuestionAsked, StepFailed, StepInterrupted
from pullcord.journal.journal import Journal
from pullcord.killswitch import mark
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import Scope, new_note
from pullcord.runtime.runtime import worker_of
from tests.cli.terminal import Terminal
from tests.declaring import declared_as
from tests.promises.children import Child, child
from tests.promises.starters import NAMED, STOPPED, Way, Witness, forever, ticks, ticks_in_loop
from tests.runs.observed_runs import happened, runtime_with, seen
from tests.tools.census import rid

# A busy machine may take long to fork. That its loop stood still is not what is tested here.
HASTY = Timing(stop_grace_s=0.1, shutdown_grace_s=0.1, blocked_after_s=0)


@pytest.fixture
async def witness(tmp_path: Path) -> AsyncGenerator[Witness]:
    made = Witness(tmp_path)
    yield made
    made.end()


def starts(way: Way, witness: Witness, *, as_tool: bool = False, **declared: Any) -> Any:
    async def work() -> None:
        await way(witness)

    work.__name__ = "work"
    tool = declared_as(**declared)(work)

    async def agent(ctx: Context) -> None:
        await (ctx.tool(tool) if as_tool else ctx.step("work", work))

    return agent


async def under_way(runtime: Runtime, witness: Witness) -> RunHandle:
    run = await runtime.start("agent", run_id="r1")
    await witness.acts()
    return run


@pytest.mark.parametrize("as_tool", [False, True], ids=["step", "tool"])
@pytest.mark.parametrize("way", STOPPED, ids=lambda way: way.__name__)
async def test_what_is_the_steps_alone_is_stopped_with_it(
    witness: Witness, way: Way, as_tool: bool
) -> None:
    async with runtime_with(agent=starts(way, witness, as_tool=as_tool), timing=HASTY) as runtime:
        run = await under_way(runtime, witness)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        assert await witness.is_quiet(), "it acts although the receipt says that it is over"
        assert (receipt.interrupted, receipt.still_running) == (("work",), ())
        assert receipt.attention == ()


@pytest.mark.parametrize(("way", "said"), NAMED, ids=lambda value: getattr(value, "__name__", ""))
async def test_what_cannot_be_stopped_is_named_as_still_running(
    witness: Witness, way: Way, said: str
) -> None:
    async with runtime_with(agent=starts(way, witness), timing=HASTY) as runtime:
        run = await under_way(runtime, witness)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        await witness.acts()
        assert (receipt.still_running, receipt.interrupted) == (("work",), ())
        [line] = receipt.steps
        assert line.still_running == (said,)
        [text] = receipt.attention
        assert said in text
        [interrupted] = await happened(runtime, run.id, StepInterrupted)
        assert (interrupted.still_running, interrupted.rung) == ((said,), "abandoned")


async def cancelled(runtime: Runtime, run: RunHandle) -> pullcord.Receipt:
    await run.cancel(by="ana")
    return await run.receipt()


async def test_a_thread_that_ends_within_the_grace_is_not_named() -> None:
    go_on, begun, cut = threading.Event(), asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait()

    async def in_thread() -> None:
        try:
            await asyncio.to_thread(work)
        finally:
            cut.set()

    async def agent(ctx: Context) -> None:
        await ctx.step("work", in_thread)

    async with runtime_with(agent=agent, timing=Timing(stop_grace_s=10**6)) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await begun.wait()
        await run.cancel(by="ana")
        await cut.wait()  # else its end could come first, and count
        assert (await run.snapshot()).state is RunState.CANCELLING, (
            "it is over while a thread of it acts"
        )
        go_on.set()
        receipt = await run.receipt()
    assert (receipt.interrupted, receipt.still_running) == (("work",), ())
    assert receipt.attention == ()


async def test_what_it_has_handed_to_a_pool_and_has_not_begun_does_not_begin(
    witness: Witness,
) -> None:
    did: list[str] = []

    async def work() -> None:
        pool = ThreadPoolExecutor(1)
        witness.pools.append(pool)
        pool.submit(ticks, witness.file, witness.stop)
        pool.submit(did.append, "the next thing")
        await forever()

    async def agent(ctx: Context) -> None:
        await ctx.step("work", work)

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await under_way(runtime, witness)
        receipt = await cancelled(runtime, run)
        assert receipt.still_running == ("work",)
        witness.end()
    assert did == []


@pytest.mark.parametrize("is_awaited", [True, False], ids=["in a group", "left behind"])
async def test_a_task_that_cleans_up_is_not_disturbed_while_it_does(is_awaited: bool) -> None:
    """Its own step has cancelled it already: a second cancellation would cut the cleanup."""
    begun, did = asyncio.Event(), list[str]()

    async def child() -> None:
        try:
            begun.set()
            await forever()
        finally:
            await asyncio.sleep(0.02)
            did.append("cleaned up")

    async def work() -> None:
        if is_awaited:
            async with asyncio.TaskGroup() as group:
                group.create_task(child())
        left = asyncio.create_task(child())
        try:
            await forever()
        finally:
            left.cancel()

    async def agent(ctx: Context) -> None:
        await ctx.step("work", work)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await begun.wait()
        receipt = await cancelled(runtime, run)
    assert did == ["cleaned up"]
    assert receipt.interrupted == ("work",)


async def test_what_is_declared_shared_is_neither_stopped_nor_named(witness: Witness) -> None:
    kept: list[asyncio.Task[None]] = []

    async def work() -> None:
        with pullcord.shared():
            await witness.start_child()
            kept.append(asyncio.create_task(forever()))
            threading.Thread(target=witness.wait_for_stop).start()
        await forever()

    async def agent(ctx: Context) -> None:
        await ctx.step("work", work)

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await under_way(runtime, witness)
        receipt = await cancelled(runtime, run)
        await witness.acts()
        assert not kept[0].done()
        kept[0].cancel()
    assert (receipt.interrupted, receipt.attention) == (("work",), ())


async def test_an_idle_pool_that_was_made_in_it_stays_and_is_not_named(witness: Witness) -> None:
    others: list[Any] = []

    async def work() -> None:
        fork = multiprocessing.get_context("fork")
        witness.pools += [ThreadPoolExecutor(1), ProcessPoolExecutor(1, fork)]
        others.append(fork.Pool(1))
        loop = asyncio.get_running_loop()
        for pool in witness.pools:
            await loop.run_in_executor(pool, abs, -1)
        await asyncio.to_thread(abs, -1)
        await ticks_in_loop(witness.file)

    async def agent(ctx: Context) -> None:
        await ctx.step("work", work)

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await under_way(runtime, witness)
        receipt = await cancelled(runtime, run)
        assert (receipt.interrupted, receipt.attention) == (("work",), ())
        assert [pool.submit(abs, -2).result() for pool in witness.pools] == [2, 2]
        with others[0] as pool:
            assert pool.apply_async(abs, (-3,)).get(5) == 3
        pool.join()


def of_a_library() -> Callable[[str], Coroutine[Any, Any, None]]:
    """Acts, and was written by somebody whose package is installed."""
    source = (
        "async def monitor(file):\n    import asyncio\n    while True:\n"
        "        with open(file, 'a') as witness:\n            witness.write('tick\\n')\n"
        "        await asyncio.sleep(0.005)\n"
    )
    library: dict[str, Any] = {}
    exec(compile(source, "/usr/lib/python3/site-packages/somedb/client.py", "exec"), library)
    return library["monitor"]


async def test_a_task_that_a_library_runs_for_itself_is_named_and_not_stopped(
    witness: Witness,
) -> None:
    """A client that is made when it is first needed may serve other steps too."""
    made: list[asyncio.Task[None]] = []
    begun = asyncio.Event()

    async def work() -> None:
        made.append(asyncio.create_task(of_a_library()(witness.file)))
        begun.set()
        await forever()

    async def agent(ctx: Context) -> None:
        await ctx.step("work", work)

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await begun.wait()
        receipt = await cancelled(runtime, run)
        assert receipt.steps[0].still_running == ("task monitor",)
        assert not made[0].cancelling()
        made[0].cancel()


async def test_a_task_of_the_step_in_another_loop_is_stopped_there(witness: Witness) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:

        async def work() -> None:
            asyncio.run_coroutine_threadsafe(ticks_in_loop(witness.file), loop)
            await forever()

        async def agent(ctx: Context) -> None:
            await ctx.step("work", work)

        async with runtime_with(agent=agent, timing=HASTY) as runtime:
            run = await under_way(runtime, witness)
            receipt = await cancelled(runtime, run)
            assert await witness.is_quiet()
        assert (receipt.interrupted, receipt.attention) == (("work",), ())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def test_a_step_beside_it_keeps_what_it_has_started(witness: Witness) -> None:
    async def work() -> None:
        await asyncio.shield(ticks_in_loop(witness.file))

    async def slow() -> None:
        await asyncio.shield(forever())

    async def beside(ctx: Context) -> None:
        await ctx.step("work", work)

    async def agent(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(beside(ctx))
            with pytest.raises(pullcord.StepError):
                await ctx.step("slow", slow, timeout_s=0.05)
            await ctx.ask("is it still there?")

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        [failed] = [await seen(run, StepFailed)]
        assert "took longer" in failed.error
        await witness.acts()
        await run.cancel(by="ana")
        assert (await run.receipt()).interrupted == ("work",)
        assert await witness.is_quiet()


async def test_a_step_that_takes_too_long_is_stopped_with_what_it_has_started(
    witness: Witness,
) -> None:
    async def work() -> None:
        await witness.thread()

    async def agent(ctx: Context) -> str:
        with pytest.raises(pullcord.StepError):
            await ctx.step("work", work, timeout_s=0.1)
        return "went on"

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "went on"
        [failed] = await happened(runtime, run.id, StepFailed)
        assert failed.still_running == ("thread ticker",)
        [raised] = await happened(runtime, run.id, AttentionRaised)
        assert "thread ticker" in raised.text


async def test_nothing_is_looked_at_if_that_is_switched_off(witness: Witness) -> None:
    timing = Timing(stop_grace_s=0.1, watch_starts=False)
    async with runtime_with(agent=starts(Witness.thread, witness), timing=timing) as runtime:
        run = await under_way(runtime, witness)
        receipt = await cancelled(runtime, run)
        assert (receipt.interrupted, receipt.attention) == (("work",), ())


@pytest.mark.parametrize("way", ["child", "task", "thread"])
async def test_what_a_finished_step_has_left_running_is_named_when_its_run_is_cancelled(
    witness: Witness, way: str
) -> None:
    kept: list[asyncio.Task[None]] = []

    async def work() -> None:
        if way == "child":
            await witness.start_child()
        elif way == "thread":
            threading.Thread(target=ticks, args=(witness.file, witness.stop)).start()
        else:
            kept.append(asyncio.create_task(ticks_in_loop(witness.file)))

    async def agent(ctx: Context) -> None:
        await ctx.step("work", work)
        await ctx.ask("and now?")

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await under_way(runtime, witness)
        await seen(run, QuestionAsked)
        receipt = await cancelled(runtime, run)
        await witness.acts()
        assert receipt.done == ("work",)
        [line] = receipt.steps
        assert len(line.still_running) == 1
        assert line.still_running[0] in receipt.attention[0]
        for task in kept:
            task.cancel()


class Leaves:
    """Agents whose steps leave a task behind that acts, and the ways to stop them."""

    def __init__(self, witness: Witness, *, library: bool = False) -> None:
        self._acts = of_a_library() if library else ticks_in_loop
        self._witness, self._kept = witness, list[asyncio.Task[None]]()
        self.said = f"task {self._acts.__name__}"

    async def _leaves(self) -> None:
        self._kept.append(asyncio.create_task(self._acts(self._witness.file)))

    async def _fails(self) -> None:
        await self._leaves()
        raise ValueError("it did not work")

    async def finished(self, ctx: Context) -> None:
        await ctx.step("work", self._leaves)
        await ctx.ask("and now?")

    async def failed(self, ctx: Context) -> None:
        with pytest.raises(pullcord.StepError):
            await ctx.step("work", self._fails)
        await ctx.ask("and now?")

    async def child(self, ctx: Context) -> None:
        await ctx.step("work", self._leaves)

    async def parent(self, ctx: Context) -> None:
        await (await ctx.spawn("child")).result()
        await ctx.ask("and now?")

    @property
    def agents(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("finished", "failed", "child", "parent")}

    async def end(self) -> None:
        for task in self._kept:
            task.cancel()
        await asyncio.gather(*self._kept, return_exceptions=True)


async def pulled(runtime: Runtime) -> str:
    """What the kill switch says that it could not stop."""
    note = new_note(by="ana", reason="it went wild", via="test")
    flags, side = runtime.journal.kill_switch.flags, runtime.journal.side
    return str((await asyncio.to_thread(pull, flags, side, Scope(), note)).left)


async def stopped(runtime: Runtime, run: RunHandle, how: str) -> str:
    """What is said about what could not be stopped, when the run is stopped like this."""
    if how == "switch":
        return await pulled(runtime)
    await (run.pause(by="ana") if how == "pause" else run.cancel(by="ana"))
    return "".join((await run.receipt()).attention)


@pytest.mark.parametrize("how", ["pause", "cancel", "switch"])
@pytest.mark.parametrize("agent", ["finished", "failed", "parent", "library"])
async def test_what_a_step_has_left_running_is_named_however_it_ended_and_its_run_is_stopped(
    tmp_path: Path, witness: Witness, agent: str, how: str
) -> None:
    """Also of a child that has completed, and also what an installed library runs."""
    left = Leaves(witness, library=agent == "library")
    name = agent.replace("library", "finished")
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, **left.agents) as runtime:
        run = await runtime.start(name)
        await seen(run, QuestionAsked)
        said = await stopped(runtime, run, how)
        await witness.acts()
        assert left.said in said, "it acts, and nobody is told"
        await left.end()


@pytest.mark.parametrize("how", ["pause", "cancel", "switch"])
@pytest.mark.parametrize("is_reopened", [False, True], ids=["parked", "opened again"])
async def test_what_goes_on_of_a_run_that_is_no_longer_in_memory_is_named(
    tmp_path: Path, witness: Witness, is_reopened: bool, how: str
) -> None:
    left, path = Leaves(witness), tmp_path / "runs.db"
    timing = Timing(park_after_s=60 if is_reopened else 0, stop_grace_s=0.1)
    async with runtime_with(path, timing=timing, **left.agents) as runtime:
        run = await runtime.start("finished", run_id="r1")
        await seen(run, QuestionAsked)
        if not is_reopened:
            await worker_of(runtime).let_go(run.id)
            assert left.said in await stopped(runtime, run, how)
    if is_reopened:
        async with runtime_with(path, timing=timing, **left.agents) as runtime:
            assert left.said in await stopped(runtime, await runtime.get("r1"), how)
    await witness.acts()
    await left.end()


async def test_what_goes_on_of_a_parked_run_is_named_when_another_process_stops_it(
    tmp_path: Path, witness: Witness
) -> None:
    left, path = Leaves(witness), tmp_path / "runs.db"
    async with runtime_with(path, timing=Timing(park_after_s=0), **left.agents) as runtime:
        run = await runtime.start("finished", run_id="r1")
        await seen(run, QuestionAsked)
        await worker_of(runtime).let_go(run.id)
        command = [sys.executable, "-m", "pullcord", "pause", "r1", "--store", str(path)]
        other = await asyncio.create_subprocess_exec(*command)
        assert await other.wait() == 0
        assert left.said in (await seen(run, AttentionRaised)).text
        await left.end()


class About:
    """A run with a call about which its tool or agent is asked: the undo, the release, the probe
    of it start something in this way. No step stands for that."""

    def __init__(self, way: Way, witness: Witness, which: str) -> None:
        self._way, self._witness, self.times = way, witness, 0
        self.which, self.timing = which, Timing(stop_grace_s=0.1, shutdown_grace_s=0.1)

    def hasty(self) -> "About":
        self.timing = Timing(stop_grace_s=0.1, shutdown_grace_s=0.1, release_s=0.3)
        return self

    async def agent(self, ctx: Context) -> None:
        async def starts(*_: Any) -> None:
            self.times += 1
            await self._way(self._witness)

        async def drafts() -> str:
            return "drafted"

        async def pays() -> None:
            await forever()

        if self.which == "release":
            await ctx.defer(starts)
        elif self.which == "undo":
            await ctx.tool(pullcord.tool(undo=starts, undo_timeout_s=0.3, undo_retry=3)(drafts))
        else:
            await ctx.tool(pullcord.tool(probe=starts, timeout_s=0.05)(pays))
        await ctx.ask("and now?")

    async def begins(self, runtime: Runtime) -> RunHandle:
        """Return when it acts. A probe is asked when its call has taken too long."""
        run = await runtime.start("agent", run_id="r1")
        if self.which != "probe":
            await seen(run, QuestionAsked)
            await run.cancel(by="ana")
        await self._witness.acts()
        return run


WHICH = ["undo", "release", "probe"]


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("way", [Witness.subprocess_of_asyncio, Witness.forked, Witness.task])
async def test_what_an_undo_a_release_or_a_look_starts_is_stopped_with_it(
    witness: Witness, way: Way, which: str
) -> None:
    """It takes too long, or its run is cancelled."""
    about = About(way, witness, which).hasty()
    async with runtime_with(agent=about.agent, timing=about.timing) as runtime:
        run = await about.begins(runtime)
        await run.cancel(by="ana")
        await run.receipt()
        assert await witness.is_quiet(), "it acts although the receipt says that it is over"


@pytest.mark.parametrize("which", WHICH)
async def test_what_an_undo_a_release_or_a_look_leaves_running_is_named(
    witness: Witness, which: str
) -> None:
    """And no second attempt at an undo is begun beside the first."""
    about = About(Witness.thread, witness, which).hasty()
    async with runtime_with(agent=about.agent, timing=about.timing) as runtime:
        run = await about.begins(runtime)
        receipt = await cancelled(runtime, run)
        await witness.acts()
        assert "thread ticker" in "".join(receipt.attention)
        assert about.times == 1


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("way", [Witness.subprocess_of_asyncio, Witness.task, Witness.thread])
async def test_the_kill_switch_stops_or_names_what_an_undo_a_release_or_a_look_has_started(
    tmp_path: Path, witness: Witness, way: Way, which: str
) -> None:
    about = About(way, witness, which)
    async with runtime_with(
        tmp_path / "runs.db", agent=about.agent, timing=about.timing
    ) as runtime:
        await about.begins(runtime)
        left = await pulled(runtime)
        is_named = way is Witness.thread
        assert (await witness.is_quiet(), "of run r1" in left) == (not is_named, is_named), left


async def test_what_is_asked_whether_a_call_needs_approval_is_named_with_what_it_starts(
    witness: Witness,
) -> None:
    def approve(_call: pullcord.Call) -> bool:
        threading.Thread(target=ticks, args=(witness.file, witness.stop), name="asker").start()
        return False

    @pullcord.tool(approve=approve)
    async def pay() -> None: ...

    async def agent(ctx: Context) -> None:
        await ctx.tool(pay)
        await ctx.ask("and now?")

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await under_way(runtime, witness)
        await seen(run, QuestionAsked)
        assert "thread asker" in "".join((await cancelled(runtime, run)).attention)


@pytest.mark.parametrize("is_held", [False, True], ids=["loop free", "loop held"])
async def test_the_kill_switch_ends_the_child_processes_of_a_step(
    tmp_path: Path, witness: Witness, is_held: bool
) -> None:
    """Also while the event loop is held: its own thread kills them."""
    acts, go_on = threading.Event(), threading.Event()

    async def work() -> None:
        await witness.start_child()
        await witness.acts()
        acts.set()
        if is_held:
            go_on.wait()
        await forever()

    async def agent(ctx: Context) -> None:
        await ctx.step("work", work)

    def pulls(runtime: Runtime) -> bool:
        acts.wait()
        note = new_note(by="ana", reason="it went wild", via="test")
        pull(runtime.journal.kill_switch.flags, runtime.journal.side, Scope(), note)
        assert witness.child is not None
        witness.child.wait(10)
        go_on.set()
        return True

    async with runtime_with(tmp_path / "runs.db", agent=agent, timing=HASTY) as runtime:
        pulling = asyncio.create_task(asyncio.to_thread(pulls, runtime))  # a held loop starts none
        await asyncio.sleep(0)
        run = await under_way(runtime, witness)
        assert await pulling
        await run.wait_for(RunState.PAUSED)
        assert await witness.is_quiet()


async def test_the_kill_switch_names_the_thread_of_a_step(tmp_path: Path, witness: Witness) -> None:
    async with runtime_with(
        tmp_path / "runs.db", agent=starts(Witness.thread, witness), timing=HASTY
    ) as runtime:
        await under_way(runtime, witness)
        assert "step 'work' of run r1" in await pulled(runtime)


# --- its process was killed: whoever takes its run over ends what it had started ---

LIVES = "tests.promises.starting_lives"


async def killed(owner: Child) -> None:
    assert await owner.says() == "acting"
    await owner.kill()


@pytest.mark.parametrize("what", ["awaited", "stubborn", "forked", "left"])
@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_a_stop_of_a_run_whose_process_died_ends_what_its_steps_had_started(
    tmp_path: Path, witness: Witness, verb: str, what: str
) -> None:
    terminal = Terminal(tmp_path)
    async with child(LIVES, str(terminal.store), witness.file, what) as owner:
        await killed(owner)
        await witness.acts()
        said = await asyncio.to_thread(terminal, verb, "r1")
        assert said.status == 0, said.err
        assert await witness.is_quiet(), "it acts although it was said to be over"


@pytest.mark.parametrize("what", ["awaited", "stubborn", "forked", "left"])
async def test_so_does_any_process_that_hears_of_the_kill_switch_before_it_says_paused(
    tmp_path: Path, witness: Witness, what: str
) -> None:
    """Whoever pulls the switch may still be asking others, or have died since."""
    path = tmp_path / "runs.db"
    async with child(LIVES, str(path), witness.file, what) as owner:
        await killed(owner)
        await witness.acts()
        async with Journal.open(path) as journal:
            journal.kill_switch.flags.raise_it(Scope(), new_note(by="ana", reason="", via="test"))
            assert await journal.kill_switch.hold() == ["r1"]
            assert (await journal.head("r1")).state is RunState.PAUSED
        assert await witness.is_quiet(), "it acts although its run is said to be paused"


@pytest.mark.parametrize("what", ["awaited", "left"])
async def test_so_does_who_goes_on_with_it(tmp_path: Path, witness: Witness, what: str) -> None:
    async def agent(ctx: Context, given: list[str]) -> None:
        await ctx.step("work", work, *given, effect="none")
        await ctx.ask("and now?")

    async def work(*_: str) -> None:
        pass

    path = tmp_path / "runs.db"
    async with child(LIVES, str(path), witness.file, what) as owner:
        await killed(owner)
        async with pullcord.open(path, agents={"agent": agent}) as runtime:
            run = await runtime.get("r1")
            if what == "left":
                [question] = (await run.snapshot()).open_questions()
                await run.answer(question, "go on", by="ana")
                await run.result()
            else:
                await run.wait_for(RunState.WAITING)
                await run.cancel(by="ana")
            assert await witness.is_quiet()
            assert (await run.receipt()).still_running == ()


async def test_what_is_declared_shared_outlives_its_process(
    tmp_path: Path, witness: Witness
) -> None:
    terminal = Terminal(tmp_path)
    async with child(LIVES, str(terminal.store), witness.file, "shared") as owner:
        await killed(owner)
        assert (await asyncio.to_thread(terminal, "cancel", "r1")).status == 0
        await witness.acts()
        rid(witness.file)


async def test_what_does_not_end_then_is_named(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_vain(*_: object) -> int:
        return -1

    path = tmp_path / "runs.db"
    async with child(LIVES, str(path), witness.file, "awaited") as owner:
        await killed(owner)
        monkeypatch.setattr(mark, "_signalled", in_vain)
        monkeypatch.setattr(mark, "_END_S", 0.2)
        monkeypatch.setattr(mark, "_GRACE_S", 0.05)
        async with pullcord.open(path) as runtime:
            run = await runtime.get("r1")
            await run.cancel(by="ana")
            receipt = await run.receipt()
        [line] = receipt.steps
        assert line.name == "work"
        assert line.still_running[0].startswith("process ")
        assert line.still_running[0] in receipt.attention[0]
        rid(witness.file)
