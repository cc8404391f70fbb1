"""A question about a run is answered by another one, from a copy; the first does not notice."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from pullcord import Context, RunState
from pullcord.core.events import Created
from pullcord.errors import AgentUnknown, InvalidInput
from pullcord.journal.rules.ledger import Append
from pullcord.testing.scripted import Call, Delay, Say, ScriptedModel
from tests.agents.scripted_agents import Ledger, assert_valid, plain, runtime_of
from tests.runs.observed_runs import OutsideWorld, names, runtime_with, shown

pytestmark = pytest.mark.timeout(60)


async def test_a_paused_run_stays_as_it_is_and_goes_on_where_it_was() -> None:
    ledger = Ledger()
    script: list[Any] = [
        [Say("I note a."), Call("slow", {"what": "a"})],
        "You asked me to note a, and I am at it.",
        "Noted.",
    ]
    model = ScriptedModel(script)
    agent = Agent(model, tools=[ledger.slow], name="talker")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "note a", thread="t1")
        await ledger.begun.wait()
        await run.pause()
        ledger.go_on.set()
        await run.wait_for(RunState.PAUSED)
        before = await names(runtime, run.id)
        aside = await run.ask_aside("what are you doing?", by="ana")
        assert await aside.result() == "You asked me to note a, and I am at it."
        assert await names(runtime, run.id) == before
        await run.resume()
        assert await run.result() == "Noted."
    asked, went_on = model.requests[1:]
    assert ("return", "done a") in plain(asked)
    assert plain(asked)[-1][0] == "user"
    assert "what are you doing?" in str(plain(asked)[-1])
    assert "what are you doing?" not in str(plain(went_on))
    assert ledger.did == ["a"]
    assert_valid(model)


async def test_it_is_answered_while_the_run_still_speaks_and_without_tools() -> None:
    model = ScriptedModel([[Say("Once upon a time"), Delay()], "A tale."])
    ledger = Ledger()

    agent = Agent(model, tools=[ledger.note], name="talker")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "tell me something")
        await shown(run, "Once upon a time")
        assert await (await run.ask_aside("what is it going to be?")).result() == "A tale."
        asked = str(plain(model.requests[1])[-1])
        assert "a side question" in asked
        assert "paused" not in asked  # it is not: the run speaks on
        assert (await run.snapshot()).state is RunState.RUNNING
        await run.cancel()
        await run.receipt()
    assert ("text", "Once upon a time") in plain(model.requests[1])
    assert_valid(model)


async def test_a_function_is_not_asked_because_it_would_only_work_once_more(tmp_path: Path) -> None:
    """It has no model that could answer. A program that does not know the agent asks nothing."""
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        await ctx.step("post", world.do, "posted")
        return "done"

    path = tmp_path / "runs.db"
    async with runtime_with(path, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.result()
        with pytest.raises(InvalidInput, match="agent is a function, and has no model"):
            await run.ask_aside("Why?")
        assert len(await runtime.list()) == 1
        async with runtime_with(path) as elsewhere:
            with pytest.raises(AgentUnknown):
                await (await elsewhere.get("r1")).ask_aside("Why?")
        born = Created(agent="agent", thread="t", aside=True, forked_from="r1", forked_at=1)
        await runtime.journal.append(Append(run_id="r2", events=[born], expected_seq=0))
        ended = await (await runtime.get("r2")).wait_for(RunState.FAILED)  # whoever has started it
        assert "has no model that could answer" in ended.error
    assert world.did == ["posted"]
