"""An agent as a tool of another: a run of its own, which shares the fate of the one that called."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.toolsets import FunctionToolset

from pullcord import RunFailed, RunHandle, RunState, Runtime
from pullcord.agents.pydantic_ai import subagent
from pullcord.core.events import Cancelled, ChildBorn, StepStarted
from pullcord.testing.scripted import Call, ScriptedModel
from tests.agents.scripted_agents import Ledger, assert_valid, plain
from tests.runs.observed_runs import HASTY, children, happened, runtime_with, seen

pytestmark = pytest.mark.timeout(60)


class Pair:
    """A chief whose tool is a helper, whose tool is slow."""

    def __init__(self, *chiefs: Any, helps: Any = (), prefix: str = "") -> None:
        self.ledger = Ledger()
        self.slow = ScriptedModel(helps or ([Call("slow", {"what": "x"})], "It is found."))
        self.helper: Agent[Any, Any] = Agent(
            self.slow, tools=[self.ledger.slow, self.ledger.note], name="helper"
        )
        ask = Call(f"{prefix}_helper" if prefix else "helper", {"prompt": "find it"}, id="ask")
        self.model = ScriptedModel(chiefs or ([ask], "Done.", "Next turn."))
        toolset: Any = FunctionToolset([subagent(self.helper)])
        if prefix:
            toolset = toolset.prefixed(prefix)
        self.chief: Agent[Any, Any] = Agent(
            self.model, tools=[self.ledger.note], toolsets=[toolset], name="chief"
        )

    def opened(self, path: Path | str = ":memory:", **more: Any) -> Any:
        return runtime_with(path, chief=self.chief, helper=self.helper, **more)

    def returns(self) -> list[Any]:
        return [said[1] for said in plain(self.model.requests[-1]) if said[0] == "return"]


async def child_of(runtime: Runtime, run: RunHandle) -> RunHandle:
    await seen(run, ChildBorn)
    [child] = await children(runtime, run)
    return child


@pytest.mark.parametrize("prefix", ["", "my"])
async def test_its_result_is_the_result_of_the_call(prefix: str) -> None:
    pair = Pair(prefix=prefix)
    async with pair.opened() as runtime:
        run = await runtime.start(pair.chief, "go")
        child = await child_of(runtime, run)
        pair.ledger.go_on.set()
        assert await run.result() == "Done."
        assert await child.result() == "It is found."
        assert (await child.snapshot()).parent == run.id
        assert (await child.snapshot()).agent == "helper"
    assert plain(pair.slow.requests[0]) == [("user", "find it")]
    assert pair.returns() == ["It is found."]
    assert pair.ledger.did == ["x"]
    assert_valid(pair.model)
    assert_valid(pair.slow)


async def test_two_calls_are_two_runs() -> None:
    calls = [Call("helper", {"prompt": "same"}, id="a"), Call("helper", {"prompt": "same"}, id="b")]
    pair = Pair(calls, "Done.", helps=["one", "two"])
    async with pair.opened() as runtime:
        run = await runtime.start(pair.chief, "go")
        assert await run.result() == "Done."
        assert len(await children(runtime, run)) == 2
    assert sorted(pair.returns()) == ["one", "two"]


async def test_a_pause_holds_both_and_resume_lets_both_go_on() -> None:
    pair = Pair(
        helps=([Call("slow", {"what": "x"})], [Call("note", {"what": "y"})], "It is found.")
    )
    async with pair.opened() as runtime:
        run = await runtime.start(pair.chief, "go")
        child = await child_of(runtime, run)
        await pair.ledger.begun.wait()
        await run.pause()
        pair.ledger.go_on.set()
        await run.wait_for(RunState.PAUSED)
        await child.wait_for(RunState.PAUSED)
        assert pair.ledger.did == ["x"]
        assert len(pair.slow.requests) == 1
        await run.resume()
        assert await run.result() == "Done."
    assert pair.ledger.did == ["x", "y"]
    assert pair.returns() == ["It is found."]


async def test_a_cancel_stops_the_child_first_and_the_next_turn_is_told() -> None:
    pair = Pair()
    async with pair.opened(timing=HASTY) as runtime:
        run = await runtime.start(pair.chief, "go", thread="t1")
        child = await child_of(runtime, run)
        await pair.ledger.begun.wait()
        await run.cancel(by="ana")
        await run.receipt()
        assert (await child.snapshot()).state is RunState.CANCELLED
        ends = [(await runtime.journal.read(r.id))[-1] for r in (child, run)]
        assert all(isinstance(end.event, Cancelled) for end in ends)
        assert ends[0].at_ms <= ends[1].at_ms
        [cut] = [s.name for s in (await child.receipt()).steps if s.heading == "interrupted"]
        assert cut == "slow"
        assert await (await runtime.start(pair.chief, "and?", thread="t1")).result() == "Done."
    assert pair.ledger.did == []
    assert pair.returns()[0].startswith("interrupted:")
    assert_valid(pair.model)


async def test_a_child_that_was_cancelled_alone_is_told_to_the_model() -> None:
    pair = Pair()
    async with pair.opened(timing=HASTY) as runtime:
        run = await runtime.start(pair.chief, "go")
        child = await child_of(runtime, run)
        await pair.ledger.begun.wait()
        await child.cancel(by="ana", reason="not that")
        assert await run.result() == "Done."
    assert pair.returns()[0].startswith("interrupted:")
    assert_valid(pair.model)


async def test_the_failure_of_a_child_is_told_to_the_model() -> None:
    pair = Pair(helps=([Call("explode")],))

    async def explode() -> str:
        """Break."""
        raise ValueError("boom")

    pair.helper.tool_plain(explode)
    async with pair.opened() as runtime:
        run = await runtime.start(pair.chief, "go")
        child = await child_of(runtime, run)
        assert await run.result() == "Done."
        assert (await child.snapshot()).state is RunState.FAILED
    assert pair.returns()[0].startswith("failed:")
    assert "boom" in pair.returns()[0]
    assert_valid(pair.model)


async def test_a_restart_goes_on_with_the_same_child(tmp_path: Path) -> None:
    pair = Pair()
    policies = {"slow": {"effect": "idempotent"}}
    store = tmp_path / "runs.db"
    async with pair.opened(store, timing=HASTY, tools=policies) as runtime:
        run = await runtime.start(pair.chief, "go", run_id="r1")
        child = await child_of(runtime, run)
        await pair.ledger.begun.wait()
    pair.ledger.go_on.set()
    async with pair.opened(store, tools=policies) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "Done."
        assert [one.id for one in await children(runtime, run)] == [child.id]
        asked = [s for s in await happened(runtime, child.id, StepStarted) if s.model]
    assert pair.ledger.did == ["x"]
    assert len(asked) == len(pair.slow.requests) == 2
    assert len(pair.model.requests) == 2
    assert pair.returns() == ["It is found."]


async def test_a_child_that_has_begun_is_not_forgotten_when_somebody_says_something_new(
    tmp_path: Path,
) -> None:
    """Also if that was said while nobody was there to hear it."""
    pair = Pair()
    policies = {"slow": {"effect": "idempotent"}}
    store = tmp_path / "runs.db"
    async with pair.opened(store, timing=HASTY, tools=policies) as runtime:
        run = await runtime.start(pair.chief, "go", run_id="r1")
        await child_of(runtime, run)
        await pair.ledger.begun.wait()
        await run.redirect("and hurry")
    pair.ledger.go_on.set()
    async with pair.opened(store, tools=policies) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "Done."
    assert pair.returns() == ["It is found."]
    assert plain(pair.model.requests[-1])[-1] == ("user", "and hurry")
    assert_valid(pair.model)


async def test_an_agent_that_the_runtime_does_not_know_is_refused_by_name() -> None:
    pair = Pair()
    async with runtime_with(chief=pair.chief) as runtime:
        run = await runtime.start(pair.chief, "go")
        with pytest.raises(RunFailed, match="helper"):
            await run.result()
        assert (await run.snapshot()).children == {}
    assert pair.slow.requests == []


async def test_without_a_runtime_it_says_where_it_runs() -> None:
    pair = Pair()
    with pytest.raises(RuntimeError, match="runs only under a Pullcord runtime"):
        await pair.chief.run("go")
