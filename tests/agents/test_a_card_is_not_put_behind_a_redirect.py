"""A redirect that comes after the model has asked for a call and before its card is put: nobody is
asked about a call that cannot begin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import ExternalToolset

from pullcord import RunHandle, Runtime
from pullcord import RunState as S
from pullcord.core.events import CallRefused, QuestionAsked, StepStarted
from pullcord.testing.scripted import Call, ScriptedModel
from tests import nursery
from tests.agents.frameworks import EACH, At, Framework, at_provider
from tests.agents.provider.reply import call, say
from tests.agents.scripted_agents import Ledger, assert_valid, plain, runtime_of
from tests.runs.observed_runs import happened, question, runtime_with

pytestmark = [
    pytest.mark.timeout(120),
    # What the provider's client leaves of a stream that was cut is the garbage collector's.
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(params=EACH, ids=str)
def framework(request: pytest.FixtureRequest) -> Framework:
    return request.param


def commanded(store: Path, *words: str) -> None:
    """A control of another process, durable before this one takes another turn of its loop."""
    done = nursery.run("pullcord", *words, "--store", str(store))
    assert done.returncode == 0, done.stderr


def asked_for_after(control: Callable[[], None]) -> dict[str, Any]:
    """A policy: `note` needs an approval. While the policy decides so, the control comes."""

    def approve(_call: object) -> bool:
        control()
        return True

    return {"note": {"approve": approve}}


async def was_overtaken(runtime: Runtime, run: RunHandle, at: At, ledger: Ledger) -> None:
    """Nobody was asked, nothing was done, and the model was told so."""
    await run.wait_for(S.WAITING, S.COMPLETED)
    assert await happened(runtime, run.id, QuestionAsked) == []
    assert await run.result() == "ok"
    [refused] = await happened(runtime, run.id, CallRefused)
    assert (refused.name, refused.outcome, refused.why) == ("note", "not_started", "redirected")
    assert "never called" not in str((await run.receipt()).attention)
    (_, returned), said = at.sent()[-2:]
    assert "not_started: redirected" in returned
    assert said == ("user", "not that!")
    told = (await run.snapshot()).instructions.values()
    assert [one.status for one in told] == ["delivered"]
    assert ledger.did == []


async def test_a_call_that_a_redirect_overtakes_is_not_asked_about(
    framework: Framework, tmp_path: Path
) -> None:
    ledger, store = Ledger(), tmp_path / "runs.db"
    policies = asked_for_after(lambda: commanded(store, "redirect", "r1", "not that!"))
    script = [call("note", {"what": "a"}), say("ok")]
    async with (
        at_provider(framework, *script, tools=[ledger.note]) as at,
        runtime_with(store, tools=policies, talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go", run_id="r1")
        await was_overtaken(runtime, run, at, ledger)


async def test_nor_one_that_was_held_by_a_pause_and_resumed_with_a_word(
    framework: Framework, tmp_path: Path
) -> None:
    ledger, store = Ledger(), tmp_path / "runs.db"
    policies = asked_for_after(lambda: commanded(store, "pause", "r1"))
    script = [call("note", {"what": "a"}), say("ok")]
    async with (
        at_provider(framework, *script, tools=[ledger.note]) as at,
        runtime_with(store, tools=policies, talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go", run_id="r1")
        await run.wait_for(S.PAUSED)
        await run.resume("not that!")
        await was_overtaken(runtime, run, at, ledger)


async def test_a_pause_alone_only_holds_the_card(framework: Framework, tmp_path: Path) -> None:
    ledger, store = Ledger(), tmp_path / "runs.db"
    policies = asked_for_after(lambda: commanded(store, "pause", "r1"))
    script = [call("note", {"what": "a"}), say("ok")]
    async with (
        at_provider(framework, *script, tools=[ledger.note]) as at,
        runtime_with(store, tools=policies, talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go", run_id="r1")
        await run.wait_for(S.PAUSED)
        assert await happened(runtime, run.id, QuestionAsked) == []
        await run.resume()
        await run.approve(await question(run, kind="approval"))
        assert await run.result() == "ok"
    assert ledger.did == ["a"]


async def test_a_cancel_leaves_no_card(framework: Framework, tmp_path: Path) -> None:
    ledger, store = Ledger(), tmp_path / "runs.db"
    policies = asked_for_after(lambda: commanded(store, "cancel", "r1"))
    script = [call("note", {"what": "a"})]
    async with (
        at_provider(framework, *script, tools=[ledger.note]) as at,
        runtime_with(store, tools=policies, talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go", run_id="r1")
        receipt = await run.receipt()
        assert receipt.state is S.CANCELLED
        assert "never called" not in str(receipt.attention)
        assert await happened(runtime, run.id, QuestionAsked) == []
    assert ledger.did == []


# --- carried out elsewhere ---


class Overtaken(AbstractCapability[Any]):
    """A redirect comes when the model has answered, and nothing of the answer is done yet."""

    def __init__(self, store: Path) -> None:
        self._store = store

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        if response.tool_calls:
            commanded(self._store, "redirect", "r1", "hang up!")
        return response


async def test_what_somebody_else_would_do_is_not_asked_for(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"who": {"type": "string"}}}
    external = ExternalToolset([ToolDefinition(name="call_up", parameters_json_schema=schema)])
    model = ScriptedModel([[Call("call_up", {"who": "Ana"})], "Done."])
    store = tmp_path / "runs.db"
    capabilities = [Overtaken(store)]
    agent: Agent[Any, Any] = Agent(
        model, toolsets=[external], capabilities=capabilities, name="desk"
    )
    async with runtime_of(agent, store) as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        await run.wait_for(S.WAITING, S.COMPLETED)
        assert await happened(runtime, run.id, QuestionAsked) == []
        assert await run.result() == "Done."
        assert all(not one.tool for one in await happened(runtime, run.id, StepStarted))
    said = plain(model.requests[1])
    assert said[-2][1].startswith("not_started:")
    assert said[-1] == ("user", "hang up!")
    assert_valid(model)
