"""What a model is sent and what is stored of it has references; the tools it calls get the values.
In the first life as after a restart."""

from pathlib import Path
from typing import Any

from pydantic_ai import Agent, ExternalToolset, ModelRetry, ToolDefinition
from pydantic_ai import messages as m
from pydantic_ai.models import ModelRequestParameters

from pullcord import RunState
from pullcord.core.events import TextEnded
from pullcord.testing.scripted import Call, Delay, Say, ScriptedModel, Think
from tests.agents.mcp_server import Server
from tests.agents.scripted_agents import assert_valid, until_stalled
from tests.runs.observed_runs import happened, question
from tests.secrets import doors
from tests.secrets.eyes import HIDDEN, Everything, vault
from tests.secrets.vault import ALL, LOOSE, SECRETS, files_of, found_in


def sent_to(model: ScriptedModel) -> bytes:
    """All that it was ever sent."""
    return b"".join(m.ModelMessagesTypeAdapter.dump_json(request) for request in model.requests)


class Watching(ScriptedModel):
    """Keeps also what it is told beside the messages."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.parameters: list[ModelRequestParameters] = []

    def request_stream(self, *args: Any, **more: Any) -> Any:
        self.parameters.append(args[2])
        return super().request_stream(*args, **more)


async def test_through_a_conversation(everything: Everything, tmp_path: Path) -> None:
    path, got = str(tmp_path / "received"), list[Any]()
    model = Watching(
        [
            [Think(LOOSE, chunk=5), Say(f"I use {LOOSE}", chunk=3), Call("charge", {"key": LOOSE})],
            [Call("charge", {"key": "{{secret:quotes}} {{secret:pem}}"}), Call("retry", {})],
            [Call("in_process", {"path": path, "given": "{{secret:account}}"})],
            [Call("charge", {"key": "{{secret:nobody_has}}"})],
            [Say(f"Done, {LOOSE}", chunk=2)],
        ]
    )
    agent: Agent[None, str] = Agent(model, name="agent", instructions=f"Your key is {LOOSE}.")

    @agent.system_prompt
    def known() -> str:  # pyright: ignore[reportUnusedFunction]
        return f"Remember {SECRETS['database']}"

    @agent.tool_plain
    async def charge(key: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        """Charge somebody."""
        got.append(key)
        return {"charged with": key, "all": ALL}

    @agent.tool_plain(retries=3)
    async def retry() -> str:  # pyright: ignore[reportUnusedFunction]
        if "retried" not in got:
            got.append("retried")
            raise ModelRetry(f"not with {LOOSE}")
        return "well"

    agent.tool_plain(doors.in_process)

    async with vault(everything.path, agents={"agent": agent}) as runtime:
        run = await runtime.start("agent", f"Charge with {LOOSE}")
        everything.listen(run)
        assert await run.result() == f"Done, {HIDDEN}"
        assert await everything.of(runtime, run) == []
        said = await happened(runtime, run.id, TextEnded)
        assert [text.text for text in said if text.complete][:2] == [HIDDEN, f"I use {HIDDEN}"]
    assert found_in(*files_of(everything.path), sent_to(model), model.parameters) == []
    assert got == [LOOSE, f"{SECRETS['quotes']} {SECRETS['pem']}", "retried"]
    assert doors.received(path) == {"process": [SECRETS["account"]]}
    assert "'nobody_has'" in sent_to(model).decode()  # it was told why that call was not made
    assert_valid(model)


async def test_after_a_restart_the_model_is_sent_the_same(
    everything: Everything, tmp_path: Path
) -> None:
    got: list[str] = []

    def agent(*script: Any) -> tuple[Agent[None, str], ScriptedModel]:
        model = ScriptedModel(script)
        made: Agent[None, str] = Agent(model, name="agent", instructions=LOOSE)

        @made.tool_plain
        async def charge(key: str) -> str:  # pyright: ignore[reportUnusedFunction]
            """Charge somebody."""
            got.append(key)
            return f"charged with {key}"

        return made, model

    first, before = agent([Call("charge", {"key": LOOSE})], [Say("Well, "), Delay()])
    async with vault(everything.path, agents={"agent": first}) as runtime:
        run = await runtime.start("agent", LOOSE, run_id="r1")
        await until_stalled(before)
        await run.pause(by="ana", now=True)
        await run.wait_for(RunState.PAUSED)
    assert found_in(*files_of(everything.path)) == []
    then, after = agent([Call("charge", {"key": "{{secret:jwt}}"})], "Done.")
    async with vault(everything.path, agents={"agent": then}) as runtime:
        run = await runtime.get("r1")
        everything.listen(run)
        await run.resume(f"and use {LOOSE}", by="ana")
        assert await run.result() == "Done."
        assert await everything.of(runtime, run) == []
    assert found_in(*files_of(everything.path), sent_to(before), sent_to(after)) == []
    assert got == [LOOSE, SECRETS["jwt"]]
    told = sent_to(after).decode()
    assert "charged with {{secret:least}}" in told
    assert "and use {{secret:least}}" in told
    assert_valid(after)


async def test_a_call_that_waits_for_approval_over_a_restart(everything: Everything) -> None:
    got: list[str] = []

    def agent(*script: Any) -> Agent[None, str]:
        made: Agent[None, str] = Agent(ScriptedModel(script), name="agent")

        @made.tool_plain
        async def charge(key: str) -> str:  # pyright: ignore[reportUnusedFunction]
            """Charge somebody."""
            got.append(key)
            return "charged"

        return made

    tools = {"charge": {"approve": "always"}}
    first = agent([Call("charge", {"key": LOOSE})])
    async with vault(everything.path, agents={"agent": first}, tools=tools) as runtime:
        await question(await runtime.start("agent", "go", run_id="r1"))
    assert found_in(*files_of(everything.path)) == []
    async with vault(everything.path, agents={"agent": agent("Done.")}, tools=tools) as runtime:
        run = await runtime.get("r1")
        everything.listen(run)
        await run.approve(await question(run), by="ana")
        assert await run.result() == "Done."
        assert await everything.of(runtime, run) == []
    assert got == [LOOSE]


async def test_an_mcp_server_gets_the_value_and_the_model_the_reference(
    everything: Everything, tmp_path: Path
) -> None:
    server = Server(tmp_path)
    model = ScriptedModel([[Call("quick", {"what": "{{secret:quotes}}"})], "Done."])
    agent: Agent[None, str] = Agent(model, name="agent", toolsets=[server.toolset()])
    async with vault(everything.path, agents={"agent": agent}) as runtime:
        run = await runtime.start("agent", "go")
        everything.listen(run)
        await run.result()
        assert await everything.of(runtime, run) == []
    assert found_in(sent_to(model), *files_of(everything.path)) == []
    assert server.said("begun") == [SECRETS["quotes"]]
    assert "quick {{secret:quotes}}" in sent_to(model).decode()


async def test_an_output_function_gets_the_value(everything: Everything) -> None:
    got: list[str] = []

    async def publish(key: str) -> str:
        """Publish it."""
        got.append(key)
        return f"published with {key}"

    model = ScriptedModel([[Call("final_result", {"key": "{{secret:pay_key}}"})]])
    agent: Agent[None, str] = Agent(model, name="agent", output_type=publish)
    async with vault(everything.path, agents={"agent": agent}) as runtime:
        run = await runtime.start("agent", "publish")
        everything.listen(run)
        assert await run.result() == "published with {{secret:pay_key}}"
        assert await everything.of(runtime, run) == []
    assert got == [SECRETS["pay_key"]]


async def test_a_call_that_is_carried_out_elsewhere(everything: Everything) -> None:
    model = ScriptedModel([[Call("elsewhere", {"key": LOOSE})], "Done."])
    external: Any = ExternalToolset([ToolDefinition(name="elsewhere")])
    agent: Agent[None, str] = Agent(model, name="agent", toolsets=[external])
    async with vault(everything.path, agents={"agent": agent}) as runtime:
        run = await runtime.start("agent", "go")
        everything.listen(run)
        await run.answer(await question(run), LOOSE)
        await run.result()
        assert await everything.of(runtime, run) == []
    assert found_in(sent_to(model)) == []
