"""Promise: a run stops by itself at its limits, says which, keeps everything, lands as asked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import messages as m

import pullcord
from pullcord import AgentConfig, Context, NotDone, Run, RunHandle, RunState, Runtime
from pullcord.core.events import (
    Created,
    Event,
    LimitReached,
    PauseRequested,
    StepFailed,
    StepFinished,
    StepStarted,
    Stopped,
    TextEnded,
)
from pullcord.core.limits import Limits
from pullcord.errors import ImpossibleEvent, InvalidInput, RunStopped
from pullcord.guard import Phrase
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Appended
from pullcord.limits import (
    CalledTool,
    Deadline,
    External,
    MaxSteps,
    MaxToolCalls,
    Never,
    NoOpenTools,
    Price,
    Said,
    Spent,
    Tokens,
    WorkingTime,
)
from pullcord.testing import ManualClock
from pullcord.testing.scripted import Call, Delay, Say, ScriptedModel
from tests.agents.scripted_agents import plain, said_on
from tests.runs.observed_runs import (
    HASTY,
    UNHURRIED,
    OutsideWorld,
    children,
    happened,
    question,
    runtime_with,
    seen,
    settles,
)


def counting(world: OutsideWorld, n: int = 10) -> Any:
    async def agent(ctx: Context) -> list[int]:
        return [await ctx.step("count", world.do, number) for number in range(n)]

    return agent


@pullcord.tool(effect="none")
async def look(n: int) -> str:
    return f"thing {n}"


async def looking(ctx: Context) -> list[str]:
    return [await ctx.tool(look, n=n) for n in range(5)]


async def talking(ctx: Context) -> None:
    for words in ("not yet", "nearly", "DONE, I think", "still here"):
        await ctx.say(words)
        await ctx.step("go on", OutsideWorld().do, words)


async def spending(ctx: Context) -> None:
    for number in range(10):
        await ctx.step("work", OutsideWorld().do, number)
        await ctx.spent(usd=0.25, tokens_in=100, tokens_out=20)


def enough(run: Run) -> bool:
    """A condition of somebody's own."""
    return run.begun >= 2


def broken(_run: Run) -> bool:
    raise ValueError("no idea")


async def stopped(runtime: Runtime, agent: str, limits: Any) -> tuple[RunHandle, Stopped]:
    run = await runtime.start(agent, limits=limits, on_exhausted="stop")
    await run.wait_for(RunState.STOPPED)
    [end] = await happened(runtime, run.id, Stopped)
    return run, end


@pytest.mark.parametrize(
    ("agent", "limits", "leaves", "steps"),
    [
        ("counts", MaxSteps(3), ["MaxSteps(3)"], 3),
        ("counts", MaxSteps(0), ["MaxSteps(0)"], 0),
        ("looks", MaxToolCalls(2), ["MaxToolCalls(2)"], 2),
        ("spends", Spent(usd=0.5), ["Spent(usd=0.5)"], 2),
        ("spends", Tokens(250), ["Tokens(250)"], 3),
        ("talks", Said("DONE"), ["Said('DONE')"], 2),
        ("looks", CalledTool("look"), ["CalledTool('look')"], 1),
        ("looks", MaxSteps(2) & NoOpenTools(), ["MaxSteps(2)", "NoOpenTools()"], 2),
        ("counts", enough, ["When(enough)"], 2),
        ("counts", broken, ["When(broken)"], 0),
        ("counts", MaxSteps(4) & ~External("more"), ["MaxSteps(4)", "~External('more')"], 4),
        ("spends", (MaxSteps(1) | Spent(usd=1)) & Tokens(120), ["MaxSteps(1)", "Tokens(120)"], 1),
    ],
)
async def test_each_condition_stops_where_it_says(
    agent: str, limits: Any, leaves: list[str], steps: int
) -> None:
    agents: dict[str, Any] = {
        "counts": counting(OutsideWorld()),
        "looks": looking,
        "talks": talking,
        "spends": spending,
    }
    async with runtime_with(**agents) as runtime:
        run, end = await stopped(runtime, agent, limits)
        assert list(end.leaves) == leaves
        assert len(await happened(runtime, run.id, StepFinished)) == steps
        assert (await run.snapshot()).error == ""
        with pytest.raises(RunStopped, match=leaves[0].partition("(")[0]):
            await run.result()
        receipt = await run.receipt()
        assert (receipt.by, receipt.source, receipt.limits) == ("limits", "limit", tuple(leaves))


async def test_working_time_is_work_and_a_deadline_is_a_moment() -> None:
    world, clock = OutsideWorld(), ManualClock()

    async def agent(ctx: Context) -> None:
        await ctx.step("first", world.slow, 1)
        await ctx.step("second", world.do, 2)

    async with runtime_with(clock=clock, agent=agent) as runtime:
        worker = await runtime.start("agent", limits=WorkingTime(20), on_exhausted="stop")
        late = await runtime.start("agent", limits=Deadline(in_s=20), on_exhausted="stop")
        for run in (worker, late):
            await seen(run, StepStarted)
        await worker.pause()
        await late.pause()
        clock.advance(25)  # pausing is still work: the step is under way
        world.go_on.set()
        for run, leaf in ((worker, "WorkingTime(20)"), (late, "Deadline(in_s=20)")):
            await run.wait_for(RunState.PAUSED)
            await run.resume()
            await run.wait_for(RunState.STOPPED)
            [end] = await happened(runtime, run.id, Stopped)
            assert end.leaves == (leaf,)
    assert 2 not in world.did


async def test_time_in_a_pause_is_not_work() -> None:
    world, clock = OutsideWorld(), ManualClock()

    async def agent(ctx: Context) -> str:
        await ctx.step("first", world.slow, 1)
        await ctx.step("second", world.do, 2)
        return "through"

    async with runtime_with(clock=clock, agent=agent) as runtime:
        run = await runtime.start("agent", limits=WorkingTime(20), on_exhausted="stop")
        await seen(run, StepStarted)
        await run.pause()
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        clock.advance(3600)
        await run.resume()
        assert await run.result() == "through"


async def test_somebody_outside_says_that_it_is_enough() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await ctx.step("first", world.slow, 1)
        await ctx.step("second", world.do, 2)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", limits=External("enough"), on_exhausted="stop")
        await seen(run, StepStarted)
        refused = await run.signal("enuogh", by="ana")
        assert (refused.verdict, refused.reason) == ("rejected", "unknown_limit")
        assert (await run.signal("enough", by="ana")).verdict == "applied"
        assert (await run.signal("enough", by="ben")).verdict == "already"
        world.go_on.set()
        await run.wait_for(RunState.STOPPED)
    assert world.did == [1]


async def test_pause_and_ask_waits_until_somebody_raises_the_cap() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=counting(world)) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(3))  # what happens by itself
        paused = await run.wait_for(RunState.PAUSED)
        assert paused.pause is not None
        assert (paused.pause.source, paused.pause.limits) == ("limit", ("MaxSteps(3)",))
        assert "3 of 3 steps" in paused.pause.reason
        assert world.did == [0, 1, 2]
        wrong = await run.raise_limits({"usd": 9}, by="ana")
        assert (wrong.verdict, wrong.reason) == ("rejected", "unknown_limit")
        assert (await run.raise_limits({"steps": 5}, by="ana")).holds  # and it goes on by itself
        await seen(run, PauseRequested, nth=2)
        await run.wait_for(RunState.PAUSED)
        assert world.did == [0, 1, 2, 3, 4]
        assert (await run.raise_limits({"steps": 50}, by="ana")).holds
        assert await run.result() == list(range(10))
    assert world.did == list(range(10))


async def test_resuming_without_raising_pauses_again_and_begins_nothing() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=counting(world)) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(3))
        await run.wait_for(RunState.PAUSED)
        await run.resume(by="ana")
        await seen(run, PauseRequested, nth=2)
        await run.wait_for(RunState.PAUSED)
        assert world.did == [0, 1, 2]


async def test_a_function_agent_that_wraps_up_is_told_and_returns_what_it_has() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> list[int]:
        found: list[int] = []
        try:
            for number in range(10):
                found.append(await ctx.step("count", world.do, number))
        except NotDone as told:
            await ctx.say(f"{told.outcome}: {told.why}")
        return found

    async with runtime_with(agent=agent, stubborn=counting(world)) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(3), on_exhausted="wrap_up")
        assert await run.result() == [0, 1, 2]
        assert (await run.snapshot()).state is RunState.STOPPED
        [said] = await happened(runtime, run.id, TextEnded)
        assert said.text == "not_started: a limit of the run is reached: MaxSteps(3)"
        other = await runtime.start("stubborn", limits=MaxSteps(3), on_exhausted="wrap_up")
        with pytest.raises(RunStopped):  # it had nothing to give: that is no error either
            await other.result()
        assert (await other.snapshot()).error == ""


def searching(script: list[Any], **more: Any) -> tuple[ScriptedModel, PydanticAgent[None, str]]:
    model = ScriptedModel(script)
    agent: PydanticAgent[None, str] = PydanticAgent(model, name="agent", **more)

    @agent.tool_plain
    async def search(q: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return f"nothing about {q}"

    return model, agent


FOREVER: list[Any] = [[Call("search", {"q": f"try {n}"})] for n in range(60)]


async def test_a_language_model_wraps_up_with_exactly_one_request_without_tools() -> None:
    script = [*FOREVER[:2], [Say("I found nothing.")], [Say("never asked")]]
    model, agent = searching(script)
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", "find it", limits=MaxSteps(4), on_exhausted="wrap_up")
        assert await run.result() == "I found nothing."
        assert (await run.snapshot()).state is RunState.STOPPED
        assert len(model.requests) == 3
        assert model.offered[0] == ["search"]
        assert model.offered[-1] == []
        last = model.requests[-1][-1].parts[-1]
        assert isinstance(last, m.UserPromptPart)
        assert "MaxSteps(4)" in str(last.content)
        told = plain(await said_on(runtime, run.id))
        assert ("return", "nothing about try 1") in told
        assert ("text", "I found nothing.") in told
        assert (await run.used()).steps == 5  # the last word is counted, and allowed


async def test_a_last_answer_that_calls_tools_all_the_same_is_the_last_all_the_same() -> None:
    model, agent = searching(FOREVER)
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", "find it", limits=MaxSteps(4), on_exhausted="wrap_up")
        await run.wait_for(RunState.STOPPED)
        assert len(model.requests) == 3
        assert len(await happened(runtime, run.id, StepStarted)) == 5


async def test_calls_of_the_same_answer_that_do_not_fit_are_told_as_not_started() -> None:
    script = [
        [Call("search", {"q": "a"}, id="a"), Call("search", {"q": "b"}, id="b")],
        [Say("Only one.")],
    ]
    _, agent = searching(script)
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", "find it", limits=MaxSteps(2), on_exhausted="wrap_up")
        assert await run.result() == "Only one."
        returns = [text for kind, text in plain(await said_on(runtime, run.id)) if kind == "return"]
        assert sorted(str(text).partition(":")[0] for text in returns) == [
            "not_started",
            "nothing about a",
        ]


async def test_the_next_run_on_the_thread_knows_what_was_found_and_why_it_ended() -> None:
    model, agent = searching([*FOREVER[:2], "I know now."])
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start(
            "agent", "find it", thread="t", limits=MaxSteps(4), on_exhausted="stop"
        )
        await run.wait_for(RunState.STOPPED)
        after = await runtime.start("agent", "and now?", thread="t")
        assert await after.result() == "I know now."
        sent = plain(model.requests[-1])
    assert ("return", "nothing about try 1") in sent
    assert any("MaxSteps(4)" in str(text) for kind, text in sent if kind == "user")


@pytest.mark.parametrize("then", ["stop", "wrap_up", "pause_and_ask"])
async def test_a_crash_forgets_neither_what_was_used_nor_what_was_met(
    then: Any, tmp_path: Path
) -> None:
    """The state of a condition is the run's: another process counts on from it."""
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        await ctx.say("DONE")
        for number in range(3):
            await ctx.step("count", world.do, number)
        await ctx.ask("go on?")
        for number in range(3, 9):
            await ctx.step("count", world.do, number)
        return "through"

    limits = MaxSteps(5) & Said("DONE")
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", limits=limits, on_exhausted=then)
        name = await question(run)
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get(run.id)
        await run.answer(name)
        seen_in = await run.wait_for(
            RunState.PAUSED if then == "pause_and_ask" else RunState.STOPPED
        )
        leaves = (
            seen_in.pause.limits if seen_in.pause else seen_in.reached and seen_in.reached.leaves
        )
        assert leaves == ("MaxSteps(5)", "Said('DONE')")
    assert world.did == [0, 1, 2, 3, 4]


async def test_a_last_word_that_a_crash_cut_off_is_said_in_the_next_life(tmp_path: Path) -> None:
    def made(last: Any) -> tuple[ScriptedModel, PydanticAgent[None, str]]:
        return searching([*FOREVER[:2], last])

    model, agent = made([Say("I fou"), Delay(None)])
    limits = MaxSteps(4)
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        run = await runtime.start("agent", "find it", limits=limits, on_exhausted="wrap_up")
        await seen(run, LimitReached)
        await model.stalled.wait()
    again = ScriptedModel(lambda _: [Say("I found nothing.")])
    agent.model = again
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get(run.id)
        assert await run.result() == "I found nothing."
        assert len(again.requests) == 1
        assert (await run.snapshot()).state is RunState.STOPPED


async def test_somebody_who_cancels_beats_a_limit_that_is_being_wound_up() -> None:
    model, agent = searching([*FOREVER[:1], [Say("I fou"), Delay(None)]])
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", "find it", limits=MaxSteps(2), on_exhausted="wrap_up")
        await model.stalled.wait()
        for refused in (await run.pause(), await run.redirect("no"), await run.resume()):
            assert (refused.verdict, refused.reason) == ("too_late", "stopping")
        assert (await run.cancel(by="ana")).verdict == "applied"
        assert (await run.wait_for(RunState.CANCELLED)).state is RunState.CANCELLED
        assert (await run.receipt()).by == "ana"


async def test_every_run_has_a_cap_and_says_so() -> None:
    _, agent = searching(FOREVER)
    async with runtime_with(agent=agent, plain=counting(OutsideWorld())) as runtime:
        run = await runtime.start("plain")
        assert (await run.result()) == list(range(10))
        assert (await run.receipt()).used == ("10 of 1,000 steps",)
        lost = await runtime.start("agent", "find it")
        paused = await lost.wait_for(RunState.PAUSED)
        assert paused.pause is not None
        assert paused.pause.limits == ("MaxSteps(100)",)
        assert (await lost.receipt()).used[0] == "100 of 100 steps"
        without = await runtime.start("plain", limits=Never())
        await without.result()
        assert (await without.receipt()).used == ()


async def test_an_agent_brings_its_own_limits_and_a_start_has_the_last_word() -> None:
    careful = AgentConfig(counting(OutsideWorld()), limits=MaxSteps(2), on_exhausted="stop")
    async with runtime_with(agent=careful) as runtime:
        run = await runtime.start("agent")
        assert (await run.wait_for(RunState.STOPPED)).begun == 2
        longer = await runtime.start("agent", limits=MaxSteps(4))
        assert (await longer.wait_for(RunState.STOPPED)).begun == 4


async def test_a_budget_in_money_needs_a_price() -> None:
    _, agent = searching(FOREVER)
    async with runtime_with(agent=agent) as runtime:
        with pytest.raises(InvalidInput, match="nobody knows what the model of agent costs"):
            await runtime.start("agent", "find it", limits=Spent(usd=2))
        assert await runtime.list() == []
        known = Spent(usd=0.001, price=Price(per_million_in=10, per_million_out=20))
        run = await runtime.start("agent", "find it", limits=known, on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        assert (await run.used()).usd_micros >= 1000
        assert (await run.used()).unpriced == 0


async def test_an_agent_that_says_its_price_says_it_for_caps_that_others_give() -> None:
    _, agent = searching(FOREVER)
    priced = AgentConfig(
        agent, limits=Spent(usd=50, price=Price(per_million_in=10, per_million_out=20))
    )
    async with runtime_with(agent=priced) as runtime:
        low = Spent(usd=0.001)
        run = await runtime.start("agent", "find it", limits=low, on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        assert (await run.used()).usd_micros >= 1000
        with pytest.raises(InvalidInput, match="nobody knows what the model of agent costs"):
            await runtime.start("agent", "find it", limits=low, model="test")  # not its price


async def test_a_fork_goes_on_with_what_was_used_and_needs_more() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=counting(world)) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(3), on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        same = await run.fork()
        assert (await same.wait_for(RunState.STOPPED)).begun == 0
        more = await run.fork(limits=MaxSteps(20))
        assert await more.result() == list(range(10))
    assert world.did == list(range(10))


async def test_a_limit_that_nobody_finds_again_is_refused() -> None:
    async with runtime_with(agent=counting(OutsideWorld())) as runtime:
        with pytest.raises(InvalidInput, match="at the top of a module"):
            await runtime.start("agent", limits=lambda _: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        with pytest.raises(InvalidInput, match="stop, wrap_up or pause_and_ask"):
            await runtime.start("agent", limits=MaxSteps(1), on_exhausted="explode")  # pyright: ignore[reportArgumentType]
        assert await runtime.list() == []


async def test_what_the_stop_found_under_way_is_finished_first() -> None:
    """Parallel steps: the one that does not fit is not started, the other one is kept."""
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        slow = asyncio.ensure_future(ctx.step("slow", world.slow, "slow"))
        await world.begun.wait()
        await ctx.step("quick", world.do, "quick")
        await slow

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(1), on_exhausted="stop")
        await seen(run, LimitReached)
        world.go_on.set()
        await run.wait_for(RunState.STOPPED)
        assert (await run.receipt()).done == ("slow",)
    assert world.did == ["slow"]


async def test_a_step_that_waits_for_an_answer_is_not_kept_waiting_by_a_limit() -> None:
    clock = ManualClock()

    async def agent(ctx: Context) -> None:
        await ctx.step("one", OutsideWorld().do, 1)
        await ctx.ask("more?")
        await ctx.step("two", OutsideWorld().do, 2)

    async with runtime_with(clock=clock, timing=UNHURRIED, agent=agent) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(1), on_exhausted="stop")
        name = await question(run)
        await settles(run, clock, RunState.WAITING)
        await run.answer(name)
        await run.wait_for(RunState.STOPPED)


async def test_a_guard_that_would_pause_a_last_word_ends_the_run_instead() -> None:
    """Nobody could resume it: it would be asked for the same for ever."""
    model, agent = searching([*FOREVER[:2], [Say("the password is swordfish-77")]])
    guarded = AgentConfig(agent, guards=[Phrase("swordfish-77", on_hit="pause")])
    async with runtime_with(agent=guarded) as runtime:
        run = await runtime.start("agent", "find it", limits=MaxSteps(4), on_exhausted="wrap_up")
        ended = await run.wait_for(RunState.CANCELLED)
        assert ended.cancel is not None
        assert (ended.cancel.source, ended.cancel.quarantine) == ("guard", True)
        assert len(model.requests) == 3


async def test_the_journal_lets_one_last_request_begin_and_nothing_else() -> None:
    async with Journal.open(":memory:") as journal:
        born = Created(agent="a", thread="t", limits=Limits(MaxSteps(0), "wrap_up"))
        await journal.append(Append(run_id="r1", events=[born], expected_seq=0))
        claim = await journal.acquire("r1", owner="w", ttl_s=30)
        assert claim is not None

        async def record(*events: Event) -> bool:
            head = await journal.head("r1")
            change = Append(run_id="r1", events=events, expected_seq=head.seq, epoch=1)
            [done] = await journal.append(change)
            return isinstance(done, Appended) and not done.is_refused

        assert not await record(StepStarted(step="s1", name="s"))
        assert (await journal.load("r1")).state is RunState.STOPPING
        with pytest.raises(ImpossibleEvent, match="one last request"):
            await record(StepStarted(step="s1", name="s"))
        assert await record(StepStarted(step="w1", name="model", wraps_up=True))
        assert await record(StepFailed(step="w1", error="busy"))
        assert await record(StepStarted(step="w1", name="model", attempt=2, wraps_up=True))
        assert await record(StepFinished(step="w1"))
        with pytest.raises(ImpossibleEvent, match="one last request"):
            await record(StepStarted(step="w2", name="model", wraps_up=True))


async def test_a_pause_that_nobody_asked_for_is_said_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with runtime_with(agent=counting(OutsideWorld())) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(3))
        await run.wait_for(RunState.PAUSED)
    said = [record.getMessage() for record in caplog.records if record.name == "pullcord.runtime"]
    assert said == [f"Run {run.id} is paused by limits: MaxSteps(3) reached (3 of 3 steps)"]


async def test_a_run_out_of_budget_can_still_be_asked_about() -> None:
    _, agent = searching([*FOREVER[:1], "It found nothing yet."])
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", "find it", limits=MaxSteps(2))
        await run.wait_for(RunState.PAUSED)
        aside = await run.ask_aside("What have you found?")
        assert await aside.result() == "It found nothing yet."
        assert (await run.snapshot()).state is RunState.PAUSED


async def test_a_fork_of_a_child_has_a_cap_of_its_own() -> None:
    async def lead(ctx: Context) -> Any:
        return await (await ctx.spawn("kid")).result()

    async with runtime_with(lead=lead, kid=counting(OutsideWorld())) as runtime:
        run = await runtime.start("lead")
        await run.result()
        [kid] = await children(runtime, run)
        assert (await (await kid.fork()).snapshot()).limits is not None
        tight = await kid.fork(limits=MaxSteps(3), on_exhausted="stop")
        assert (await tight.snapshot()).limits == Limits(MaxSteps(3), "stop")
