"""An agent of Pydantic AI under the cord: pause, redirect, cancel, resume, in whatever it does."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from pullcord import RunState
from pullcord.core.events import Spent, StepFinished, StepStarted, TextEnded
from pullcord.testing import ManualClock
from pullcord.testing.scripted import Call, Delay, Say, ScriptedModel, Think
from tests.agents.scripted_agents import (
    QUICK,
    Ledger,
    assert_valid,
    plain,
    runtime_of,
    said_on,
    until_stalled,
)
from tests.runs.observed_runs import happened, names, seen, shown


def talker(*script: Any, tools: Any = ()) -> tuple[ScriptedModel, Agent[Any, Any]]:
    model = ScriptedModel(script)
    return model, Agent(model, tools=tools, name="talker")


# --- undisturbed ---


async def test_it_does_what_it_does_without_us(tmp_path: Path) -> None:
    ledger = Ledger()
    script = ([Think("let me see"), Say("I note it."), Call("note", {"what": "a"})], "Noted.")
    model, agent = talker(*script, tools=[ledger.note])
    async with runtime_of(agent, tmp_path / "runs.db") as runtime:
        run = await runtime.start(agent, "note a", thread="t1")
        assert await run.result() == "Noted."
        assert plain(await said_on(runtime, "t1")) == [
            ("user", "note a"),
            ("thinking", "let me see"),
            ("text", "I note it."),
            ("call", "note"),
            ("return", "noted a"),
            ("text", "Noted."),
        ]
        look = await run.snapshot()
        assert (await run.receipt()).done == ("note",)
    assert (look.cost.tokens_in, look.cost.unknown_calls) == (20, 2)
    assert ledger.did == ["a"]
    assert_valid(model)


async def test_a_thread_goes_on_where_it_was() -> None:
    model, agent = talker("first answer", "second answer")
    async with runtime_of(agent) as runtime:
        await (await runtime.start(agent, "one", thread="t1")).result()
        await (await runtime.start(agent, "two", thread="t1")).result()
        found = plain(await said_on(runtime, "t1"))
    assert found == [
        ("user", "one"),
        ("text", "first answer"),
        ("user", "two"),
        ("text", "second answer"),
    ]
    assert plain(model.requests[1]) == found[:3]


# --- while it speaks ---


async def test_a_cancel_keeps_what_was_shown_and_the_next_turn_knows() -> None:
    model, agent = talker([Think("h"), Say("The first half"), Delay(), Say(" and more")], "ok")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "write", thread="t1")
        await until_stalled(model)
        await shown(run, "The first half")
        await run.cancel(by="ana", reason="wrong path")
        receipt = await run.receipt()
        assert (receipt.state, receipt.rung) == (RunState.CANCELLED, "transport_closed")
        assert receipt.partial_text == ("The first half",)
        assert await (await runtime.start(agent, "go on", thread="t1")).result() == "ok"
        [spent] = await happened(runtime, run.id, Spent)
    assert plain(model.requests[-1]) == [
        ("user", "write"),
        ("text", "The first half"),
        (
            "user",
            "[The turn above was stopped by ana (wrong path). "
            "Do not go on with it unless you are asked to.]",
        ),
        ("user", "go on"),
    ]
    assert (spent.tokens_in, spent.estimated) == (10, True)
    assert spent.tokens_out
    assert_valid(model)


async def test_a_cancel_before_the_first_answer_does_not_lose_the_prompt() -> None:
    model, agent = talker([Delay()], "ok")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "write", thread="t1")
        await until_stalled(model)
        await run.cancel(by="ana")
        await run.receipt()
        await (await runtime.start(agent, "again", thread="t1")).result()
    assert plain(model.requests[-1])[0] == ("user", "write")
    assert_valid(model)


async def test_a_redirect_cuts_the_answer_and_is_in_the_next_request_once() -> None:
    model, agent = talker([Say("Tomatoes are"), Delay()], [Say("Potatoes are"), Delay()], "Fine.")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "write")
        for seen_text, word in (("Tomatoes are", "potatoes!"), ("Potatoes are", "carrots!")):
            await shown(run, seen_text)
            await run.redirect(word)
        assert await run.result() == "Fine."
        told = (await run.snapshot()).instructions.values()
        texts = await happened(runtime, run.id, TextEnded)
    assert [(one.text, one.status) for one in told] == [
        ("potatoes!", "delivered"),
        ("carrots!", "delivered"),
    ]
    assert [(text.text, text.complete) for text in texts] == [
        ("Tomatoes are", False),
        ("Potatoes are", False),
        ("Fine.", True),
    ]
    spoken = [said for said in plain(model.requests[-1]) if said[0] == "user"]
    assert [len([s for s in spoken if word in str(s)]) for word in ("potatoes!", "carrots!")] == [
        1,
        1,
    ]
    assert_valid(model)


async def test_a_redirect_before_the_first_request_is_in_it() -> None:
    model, agent = talker([Delay()], "ok")
    async with runtime_of(agent) as runtime:
        first = await runtime.start(agent, "one", thread="t1")
        run = await runtime.start(agent, "write", thread="t1", if_busy="queue")
        await run.redirect("in May")
        await until_stalled(model)
        await first.cancel()
        assert await run.result() == "ok"
    assert plain(model.requests[1])[-2:] == [("user", "write"), ("user", "in May")]


async def test_a_pause_lets_the_answer_finish_unseen_and_resume_shows_the_rest() -> None:
    script = [[Say("Shown."), Delay(1), Say(" Held."), Call("note", {"what": "a"})], "!"]
    its_time = ManualClock()
    model, ledger = ScriptedModel(script, alarms=its_time), Ledger()
    agent = Agent(model, tools=[ledger.note], name="talker")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "write")
        await until_stalled(model)
        await shown(run, "Shown.")
        await run.pause()
        its_time.advance(1)
        await run.wait_for(RunState.PAUSED)
        assert "step_finished" in await names(runtime, run.id)
        ended = [text.text for text in await happened(runtime, run.id, TextEnded)]
        assert ended in ([], ["Shown."]), "more than had been shown before the pause"
        assert ledger.did == []
        await run.resume()
        assert await run.result() == "!"
        texts = await happened(runtime, run.id, TextEnded)
    assert [text.text for text in texts] == ["Shown.", " Held.", "!"]
    assert len(model.requests) == 2


async def test_a_pause_that_may_not_hold_cuts_and_resume_goes_on_with_what_was_shown() -> None:
    model, agent = talker([Say("A first try"), Delay()], [Say("and the rest.")])
    async with runtime_of(agent, timing=QUICK) as runtime:
        run = await runtime.start(agent, "write")
        await until_stalled(model)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        await run.resume()
        result = await run.result()
        [cut, _] = await happened(runtime, run.id, TextEnded)
    assert result == f"{cut.text}and the rest."
    before = plain(model.requests[0])
    assert plain(model.requests[1])[: len(before) + 1] == [*before, ("text", cut.text)]


async def test_a_redirect_while_paused_is_carried_out_on_resume() -> None:
    model, agent = talker([Say("Tomatoes"), Delay()], "Potatoes.")
    async with runtime_of(agent, timing=QUICK) as runtime:
        run = await runtime.start(agent, "write")
        await shown(run, "Tomatoes")
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        await run.redirect("potatoes!")
        await run.resume()
        assert await run.result() == "Potatoes."
    assert ("text", "Tomatoes") in plain(model.requests[1])
    assert str(plain(model.requests[1])).count("potatoes!") == 1


async def test_said_after_the_last_answer_it_starts_another_turn() -> None:
    ledger = Ledger()
    model, agent = talker(
        [Call("slow", {"what": "a"})], "Answer.", "And so on.", tools=[ledger.slow]
    )
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "write")
        await ledger.begun.wait()
        await run.redirect("and in May?")
        ledger.go_on.set()
        assert await run.result() == "Answer."
    assert str(plain(model.requests[1])).count("and in May?") == 1


# --- while a tool runs ---


async def test_a_cancel_during_a_tool_tells_each_calls_fate() -> None:
    ledger = Ledger()
    script = ([Call("note", {"what": "a"}), Call("slow", {"what": "b"})], "ok")
    model, agent = talker(*script, tools=[ledger.note, ledger.slow])
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "both", thread="t1")
        await ledger.begun.wait()
        await seen(run, StepFinished, nth=2)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        assert (receipt.done, receipt.interrupted) == (("note",), ("slow",))
        await (await runtime.start(agent, "and?", thread="t1")).result()
    returns = [said for said in plain(model.requests[-1]) if said[0] == "return"]
    assert returns[0] == ("return", "noted a")
    assert returns[1][1].startswith("interrupted:")
    assert ledger.did == ["a"]
    assert_valid(model)


async def test_a_redirect_during_a_tool_lets_it_finish_and_starts_no_other() -> None:
    ledger = Ledger()
    script = ([Call("slow", {"what": "a"})], [Call("note", {"what": "b"})], "ok")
    model, agent = talker(*script, tools=[ledger.note, ledger.slow])
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "go")
        await ledger.begun.wait()
        await run.redirect("only a!")
        ledger.go_on.set()
        assert await run.result() == "ok"
    assert plain(model.requests[1])[-2:] == [("return", "done a"), ("user", "only a!")]
    assert_valid(model)


async def test_resume_after_a_crash_makes_only_the_calls_without_an_outcome(tmp_path: Path) -> None:
    ledger = Ledger()
    script = ([Call("note", {"what": "a"}), Call("slow", {"what": "b"})], "ok")
    model, agent = talker(*script, tools=[ledger.note, ledger.slow])
    async with runtime_of(agent, tmp_path / "runs.db") as runtime:
        run = await runtime.start(agent, "both", run_id="r1")
        await ledger.begun.wait()
        await seen(run, StepStarted, name="slow")
        await run.pause()
    # the runtime is closed while `slow` is under way: its effect is in doubt
    ledger.go_on.set()
    async with runtime_of(agent, tmp_path / "runs.db") as runtime:
        run = await runtime.get("r1")
        look = await run.snapshot()
        assert look.state is RunState.PAUSED
        await run.resume()
        [question] = await _asked(run)
        await run.answer(question, "run")
        assert await run.result() == "ok"
    assert ledger.did == ["a", "b"]
    assert len(model.requests) == 2
    assert_valid(model)


async def _asked(run: Any) -> list[str]:
    await run.wait_for(RunState.WAITING)
    return (await run.snapshot()).open_questions()


pytestmark = pytest.mark.timeout(60)


async def test_a_pause_during_a_tool_lets_it_finish_and_asks_nothing_more() -> None:
    ledger = Ledger()
    script = ([Call("note", {"what": "a"}), Call("slow", {"what": "b"})], "ok")
    model, agent = talker(*script, tools=[ledger.note, ledger.slow])
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "both")
        await ledger.begun.wait()
        await run.pause()
        ledger.go_on.set()
        await run.wait_for(RunState.PAUSED)
        assert len(model.requests) == 1
        await run.resume()
        assert await run.result() == "ok"
    assert ledger.did == ["a", "b"]
    assert len(model.requests) == 2
