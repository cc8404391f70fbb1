"""A question to a person, or to the clock, is durable: the run needs no process meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pullcord import Context, Retry, RunState
from pullcord.core.commands import Redirect
from pullcord.core.events import Answered, Created, StepFailed, StepFinished, StepStarted
from pullcord.journal.rules.ledger import Append
from pullcord.testing import ManualClock
from tests.runs.observed_runs import (
    HASTY,
    PARKING,
    UNHURRIED,
    OutsideWorld,
    names,
    question,
    runtime_with,
    seen,
    settles,
    unowned,
)


def asker(world: OutsideWorld) -> Any:
    async def agent(ctx: Context) -> Any:
        world.entered += 1
        await ctx.step("before", world.do, "before")
        answer = await ctx.ask("Send it?", details={"to": "bo"})
        await ctx.step("after", world.do, "after")
        return answer

    return agent


async def test_an_answer_from_another_runtime_wakes_the_run(tmp_path: Path) -> None:
    world = OutsideWorld()
    async with runtime_with(tmp_path / "runs.db", agent=asker(world), timing=PARKING) as runtime:
        run = await runtime.start("agent")
        assert (await run.wait_for(RunState.WAITING)).open_questions() == [await question(run)]
        await unowned(runtime, run)
        async with runtime_with(tmp_path / "runs.db") as elsewhere:
            other = await elsewhere.get(run.id)
            ack = await other.answer(await question(other), {"send": True}, by="ana")
            assert (ack.verdict, ack.state) == ("applied", RunState.QUEUED)
        assert await run.result() == {"send": True}
    assert (world.did, world.entered) == (["before", "after"], 2)


async def test_a_question_is_found_behind_any_number_of_younger_runs() -> None:
    async with runtime_with(agent=asker(OutsideWorld()), timing=PARKING) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        made = Created(agent="elsewhere", thread="t", by="ana")
        for number in range(1100):
            name = f"younger-{number}"
            await runtime.journal.append(Append(run_id=name, events=[made], expected_seq=0))
            if number % 2:
                await runtime.journal.command(name, Redirect(by="ana", instruction="left"))
        [asked] = (await runtime.journal.for_people(lambda look: look.inbox())).questions
        assert (asked.run, asked.text) == (run.id, "Send it?")


async def test_as_many_questions_are_shown_as_somebody_could_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pullcord.journal.views.inbox.FOUND_MAX", 3)
    monkeypatch.setattr("pullcord.journal.views.inbox._PAGE", 2)
    async with runtime_with(agent=asker(OutsideWorld()), timing=PARKING) as runtime:
        runs = [await runtime.start("agent") for _ in range(5)]
        for run in runs:
            await run.wait_for(RunState.WAITING)
        found = (await runtime.journal.for_people(lambda look: look.inbox())).questions
        assert [one.run for one in found] == [run.id for run in reversed(runs[2:])]


async def test_an_answer_given_while_no_process_runs_is_found_by_the_next(tmp_path: Path) -> None:
    world = OutsideWorld()
    async with runtime_with(tmp_path / "runs.db", agent=asker(world)) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
    async with runtime_with(tmp_path / "runs.db") as elsewhere:
        other = await elsewhere.get(run.id)
        assert (await other.snapshot()).state is RunState.WAITING
        await other.answer(await question(other), "yes")
    async with runtime_with(tmp_path / "runs.db", agent=asker(world)) as runtime:
        assert await (await runtime.get(run.id)).result() == "yes"
    assert world.did == ["before", "after"]


async def test_while_paused_it_can_be_answered_and_nothing_runs_until_resume() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=asker(world)) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        await run.pause()
        ack = await run.answer(await question(run), "yes")
        assert (ack.verdict, ack.state) == ("applied", RunState.PAUSED)
        await run.resume()
        assert await run.result() == "yes"
        order = await names(runtime, run.id)
    assert "step_started" not in order[order.index("pause_requested") : order.index("resumed")]


async def test_a_redirect_withdraws_it_and_it_is_asked_again() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=asker(world)) as runtime:
        run = await runtime.start("agent")
        first = await question(run)
        await run.wait_for(RunState.WAITING)
        told = await run.redirect("mind the tone")
        second = await question(run, nth=2)
        assert second != first
        late = await run.answer(first, "yes")
        assert (late.verdict, late.seq) == ("too_late", told.seq)
        await run.answer(second, "no")
        assert await run.result() == "no"


async def test_of_two_answers_the_first_counts() -> None:
    async with runtime_with(agent=asker(OutsideWorld())) as runtime:
        run = await runtime.start("agent")
        name = await question(run)
        acks = await asyncio.gather(run.answer(name, "yes"), run.answer(name, "no"))
        applied = [ack for ack in acks if ack.verdict == "applied"]
        late = [ack for ack in acks if ack.verdict == "too_late"]
        assert [ack.seq for ack in late] == [ack.seq for ack in applied]
        assert await run.result() == ("yes" if acks[0].verdict == "applied" else "no")


async def test_an_answer_to_what_was_never_asked_is_rejected() -> None:
    async with runtime_with(agent=asker(OutsideWorld())) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        ack = await run.answer("something-else", "yes")
        assert (ack.verdict, ack.reason) == ("rejected", "unknown_question")
        assert (await run.snapshot()).state is RunState.WAITING


async def test_an_answer_after_a_cancel_is_too_late() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=asker(world)) as runtime:
        run = await runtime.start("agent")
        name = await question(run)
        await run.cancel()
        assert (await run.answer(name, "yes")).verdict == "too_late"
        await run.wait_for(RunState.CANCELLED)
    assert world.did == ["before"]


async def test_a_fork_does_not_ask_again_what_was_answered() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=asker(world)) as runtime:
        run = await runtime.start("agent")
        await run.answer(await question(run), "yes")
        await run.result()
        fork = await run.fork()
        assert await fork.result() == "yes"
        assert (await fork.snapshot()).questions == {}
    assert world.did == ["before", "after"]


async def test_a_parallel_branch_goes_on_while_a_question_is_open() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> Any:
        async def other() -> None:
            await world.go_on.wait()
            await ctx.step("other", world.do, "other")

        return await asyncio.gather(ctx.ask("Send it?"), other())

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        world.go_on.set()
        await seen(run, StepFinished)
        await run.answer(await question(run), "yes")
        assert await run.result() == ["yes", None]


async def test_a_step_is_tried_again_while_a_question_is_open() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        again = Retry(attempts=2, wait_s=0.1)
        fetch = ctx.step("fetch", world.fails, "down", effect="none", retry=again)
        await asyncio.gather(ctx.ask("Send it?"), fetch)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepFailed, nth=2)
    assert world.did == ["down", "down"]


# --- the clock ---


def sleeper(world: OutsideWorld) -> Any:
    async def agent(ctx: Context) -> None:
        world.entered += 1
        await ctx.sleep(3600)
        await ctx.step("wake", world.do, "awake")

    return agent


async def test_a_sleep_goes_on_across_a_restart_and_does_not_begin_anew(tmp_path: Path) -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(
        tmp_path / "r.db", clock=clock, timing=UNHURRIED, agent=sleeper(world)
    ) as rt:
        run = await rt.start("agent")
        await settles(run, clock, RunState.WAITING)
    clock.advance(3599)
    async with runtime_with(
        tmp_path / "r.db", clock=clock, timing=UNHURRIED, agent=sleeper(world)
    ) as rt:
        run = await rt.get(run.id)
        assert (await run.snapshot()).state is RunState.WAITING
        clock.advance(1)
        await settles(run, clock, RunState.COMPLETED)
    assert (world.did, world.entered) == (["awake"], 2)


async def test_a_sleep_that_ended_while_no_process_ran_is_over_at_once(tmp_path: Path) -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(
        tmp_path / "r.db", clock=clock, timing=UNHURRIED, agent=sleeper(world)
    ) as rt:
        run = await rt.start("agent")
        await settles(run, clock, RunState.WAITING)
    clock.advance(10_000)
    async with runtime_with(
        tmp_path / "r.db", clock=clock, timing=UNHURRIED, agent=sleeper(world)
    ) as rt:
        await (await rt.get(run.id)).result()
    assert world.did == ["awake"]


async def test_a_sleep_that_ends_while_paused_does_not_end_the_pause() -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(clock=clock, timing=UNHURRIED, agent=sleeper(world)) as runtime:
        run = await runtime.start("agent")
        await settles(run, clock, RunState.WAITING)
        await run.pause()
        clock.advance(10_000)
        await seen(run, Answered)
        assert (await run.snapshot()).state is RunState.PAUSED
        assert world.did == []
        await run.resume()
        await run.result()
    assert world.did == ["awake"]


# --- a step that nobody knows the outcome of ---


def payer(world: OutsideWorld) -> Any:
    async def agent(ctx: Context) -> Any:
        return {"paid": await ctx.step("pay", world.slow, "7 €")}

    return agent


async def cut(path: Path, world: OutsideWorld) -> str:
    """A shutdown cuts a `once` step in the middle. Returns the id of its run."""
    async with runtime_with(path, timing=HASTY, agent=payer(world)) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
    world.go_on.set()
    return run.id


@pytest.mark.parametrize(
    ("answer", "result", "did"),
    [
        ("happened", None, []),
        ({"happened": "7 €, receipt 12"}, "7 €, receipt 12", []),
        ("run", "7 €", ["7 €"]),
        ("skip", None, []),
    ],
)
async def test_a_person_says_what_became_of_a_step_cut_in_the_middle(
    tmp_path: Path, answer: object, result: object, did: list[str]
) -> None:
    world = OutsideWorld()
    run_id = await cut(tmp_path / "runs.db", world)
    async with runtime_with(tmp_path / "runs.db", agent=payer(world)) as runtime:
        run = await runtime.get(run_id)
        name = await question(run, kind="doubt")
        assert world.did == []
        [item] = (await run.snapshot()).attention.values()
        assert "'pay'" in item
        await run.answer(name, answer, by="ana")
        assert await run.result() == {"paid": result}
        assert (await run.snapshot()).attention == {}
        fork = await run.fork()  # what was said about it holds wherever it is remembered
        assert await fork.result() == {"paid": result}
    assert world.did == did


async def test_another_answer_about_a_step_in_doubt_is_rejected(tmp_path: Path) -> None:
    world = OutsideWorld()
    run_id = await cut(tmp_path / "runs.db", world)
    async with runtime_with(tmp_path / "runs.db", agent=payer(world)) as runtime:
        run = await runtime.get(run_id)
        name = await question(run, kind="doubt")
        ack = await run.answer(name, "perhaps")
        assert (ack.verdict, ack.reason) == ("rejected", "unknown_choice")
        assert (await run.snapshot()).open_questions() == [name]


async def test_a_step_in_doubt_that_is_run_and_cut_again_is_asked_about_again(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()
    run_id = await cut(tmp_path / "runs.db", world)
    world.go_on.clear()
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=payer(world)) as runtime:
        run = await runtime.get(run_id)
        await run.answer(await question(run, kind="doubt"), "run")
        await seen(run, StepStarted, nth=2)
    world.go_on.set()
    async with runtime_with(tmp_path / "runs.db", agent=payer(world)) as runtime:
        run = await runtime.get(run_id)
        await run.answer(await question(run, nth=2, kind="doubt"), "happened")
        assert await run.result() == {"paid": None}
    assert world.did == []


async def test_a_step_held_at_its_checkpoint_is_in_doubt_after_a_shutdown(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> Any:
        async def work() -> Any:
            await world.go_on.wait()
            await ctx.checkpoint()
            return await world.do("worked")

        return await ctx.step("work", work)

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.pause()
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get(run.id)
        assert (await run.snapshot()).state is RunState.PAUSED
        await run.resume()
        await run.answer(await question(run, kind="doubt"), "run")
        assert await run.result() == "worked"
    assert world.did == ["worked"]
