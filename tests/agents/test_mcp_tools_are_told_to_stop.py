"""A tool of an MCP server: told to stop by its request's id, settled here, never called stopped."""

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai import messages as m
from pydantic_ai.mcp import MCPToolset

from pullcord import RunHandle, RunState
from pullcord.core.events import StepFinished, StepInterrupted, StepStarted
from pullcord.testing.scripted import Call, ScriptedModel
from tests.agents.mcp_server import Server
from tests.agents.scripted_agents import assert_valid, plain, runtime_of
from tests.runs.observed_runs import HASTY, happened, seen

pytestmark = pytest.mark.timeout(60)

EVERYTHING = Path(__file__).parent / "mcp_servers" / "node_modules" / ".bin"


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture(autouse=True)
def _no_complaints(caplog: pytest.LogCaptureFixture) -> Any:
    """Nobody may complain about a scope that is left in another task, or a task that is lost."""
    with caplog.at_level(logging.WARNING):
        yield
    said = caplog.text
    assert "cancel scope" not in said
    assert "never retrieved" not in said
    assert "Task was destroyed" not in said


def client(server: Server, *script: Any, prefix: str = "") -> tuple[ScriptedModel, Agent[Any, Any]]:
    model = ScriptedModel(script)
    toolset: Any = server.toolset()
    if prefix:
        toolset = toolset.prefixed(prefix)
    return model, Agent(model, toolsets=[toolset], name="client")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def returns(model: ScriptedModel) -> list[Any]:
    return [said[1] for said in plain(model.requests[-1]) if said[0] == "return"]


async def begun(run: RunHandle, server: Server, name: str, what: str) -> None:
    await seen(run, StepStarted, name=name, run_in="remote")
    await server.until("begun", what)


# --- undisturbed ---


async def test_it_gives_what_it_gives_and_is_gone_with_the_run(server: Server) -> None:
    script = ([Call("quick", {"what": "a"})], [Call("broken", {"what": "b"})], "Done.")
    model, agent = client(server, *script)
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "go")
        assert await run.result() == "Done."
        started = [s for s in await happened(runtime, run.id, StepStarted) if not s.model]
        receipt = await run.receipt()
    assert [(s.name, s.run_in) for s in started] == [("quick", "remote"), ("broken", "remote")]
    assert (receipt.done, receipt.failed) == (("quick",), ("broken",))
    assert returns(model)[0] == "quick a"
    assert "broken" in str(returns(model)[1])
    assert server.cancelled() == []
    assert [pid for pid in server.pids() if is_alive(pid)] == []
    assert_valid(model)


# --- told to stop ---


@pytest.mark.parametrize("name", ["heedful", "stubborn"])
async def test_a_cancel_tells_the_server_which_request_to_stop(server: Server, name: str) -> None:
    calls = [Call("quick", {"what": "a"}), Call(name, {"what": "b"}), Call("quick", {"what": "c"})]
    model, agent = client(server, calls, [Call("quick", {"what": "d"})], "Done.")
    async with runtime_of(agent, timing=HASTY) as runtime:
        run = await runtime.start(agent, "go", thread="t1")
        await begun(run, server, name, "b")
        await seen(run, StepFinished, nth=3)  # the model's, and two quick ones
        await run.cancel(by="ana")
        receipt = await run.receipt()  # whether or not the server answers
        assert (receipt.state, receipt.rung) == (RunState.CANCELLED, "stop_requested")
        assert (receipt.interrupted, receipt.done) == ((name,), ("quick", "quick"))
        await server.until_cancelled()
        assert server.cancelled() == [server.calls()["b"]]
        [cut] = await happened(runtime, run.id, StepInterrupted)
        assert cut.rung == "stop_requested"
        again = await runtime.start(agent, "and?", thread="t1")
        assert await again.result() == "Done."
    if name == "heedful":
        assert server.said("stopped") == ["b"]
    else:
        assert server.said("done") == []
    told = returns(model)
    assert told[1].startswith("interrupted:")
    assert told[-1] == "quick d"
    assert len(server.cancelled()) == 1
    assert [pid for pid in server.pids() if is_alive(pid)] == []
    assert_valid(model)


@pytest.mark.parametrize("name", ["heedful", "stubborn"])
@pytest.mark.parametrize("prefix", ["", "far"])
async def test_a_redirect_stops_it_if_its_policy_says_so(
    server: Server, name: str, prefix: str
) -> None:
    called = f"{prefix}_{name}" if prefix else name
    quick = f"{prefix}_quick" if prefix else "quick"
    script = ([Call(called, {"what": "a"})], [Call(quick, {"what": "b"})], "Done.")
    model, agent = client(server, *script, prefix=prefix)
    policies = {called: {"on_redirect": "cancel"}}
    async with runtime_of(agent, timing=HASTY, tools=policies) as runtime:
        run = await runtime.start(agent, "go")
        await begun(run, server, called, "a")
        await run.redirect("something else!")
        assert await run.result() == "Done."
        [cut] = await happened(runtime, run.id, StepInterrupted)
        assert (cut.rung, cut.redirected) == ("stop_requested", True)
    assert server.cancelled() == [server.calls()["a"]]
    assert len(server.pids()) == 1  # the same session was good for the next call
    assert returns(model)[0].startswith("interrupted:")
    assert returns(model)[1] == "quick b"
    assert plain(model.requests[1])[-1] == ("user", "something else!")
    assert [pid for pid in server.pids() if is_alive(pid)] == []
    assert_valid(model)


async def test_of_two_at_once_only_the_one_is_told_whose_policy_says_so(server: Server) -> None:
    calls = [Call("heedful", {"what": "a"}), Call("stubborn", {"what": "b"})]
    model, agent = client(server, calls, "Done.")
    policies = {"heedful": {"on_redirect": "cancel"}}
    async with runtime_of(agent, timing=HASTY, tools=policies) as runtime:
        run = await runtime.start(agent, "go")
        await begun(run, server, "heedful", "a")
        await begun(run, server, "stubborn", "b")
        await run.redirect("hurry!")
        await server.until("stopped", "a")
        server.enough()
        assert await run.result() == "Done."
    assert server.cancelled() == [server.calls()["a"]]
    assert returns(model)[0].startswith("interrupted:")
    assert returns(model)[1] == "b"
    assert_valid(model)


async def test_a_pause_lets_it_finish(server: Server) -> None:
    model, agent = client(server, [Call("stubborn", {"what": "a"})], "Done.")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "go")
        await begun(run, server, "stubborn", "a")
        await run.pause()
        server.enough()
        await run.wait_for(RunState.PAUSED)
        assert server.cancelled() == []
        await run.resume()
        assert await run.result() == "Done."
    assert returns(model) == ["a"]


# --- sessions ---


async def test_two_runs_share_a_session_and_one_is_cancelled(server: Server) -> None:
    """Whoever opened it may go first: the other goes on with it."""
    turns = {"one": "heedful", "two": "stubborn"}

    def answer(messages: list[m.ModelMessage]) -> Any:
        said = plain(messages)
        if said[-1][0] == "return":
            return "Done."
        return [Call(turns[said[0][1]], {"what": said[0][1]})]

    model = ScriptedModel(answer)
    agent: Agent[Any, Any] = Agent(model, toolsets=[server.toolset()], name="client")
    async with runtime_of(agent, timing=HASTY) as runtime:
        first = await runtime.start(agent, "one")
        await begun(first, server, "heedful", "one")
        second = await runtime.start(agent, "two")
        await begun(second, server, "stubborn", "two")
        await first.cancel()
        await first.receipt()
        await server.until_cancelled()
        assert server.cancelled() == [server.calls()["one"]]
        server.enough()
        assert await second.result() == "Done."
        third = await runtime.start(agent, "two")
        assert await third.result() == "Done."
    assert [pid for pid in server.pids() if is_alive(pid)] == []


async def test_a_shutdown_in_the_middle_leaves_no_server_and_the_call_in_doubt(
    server: Server, tmp_path: Path
) -> None:
    model, agent = client(server, [Call("stubborn", {"what": "a"})], "Done.")
    store = tmp_path / "runs.db"
    async with runtime_of(agent, store, timing=HASTY) as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        await begun(run, server, "stubborn", "a")
    assert [pid for pid in server.pids() if is_alive(pid)] == []
    async with runtime_of(agent, store) as runtime:
        run = await runtime.get("r1")
        await run.wait_for(RunState.WAITING)
        [question] = (await run.snapshot()).open_questions()
        await run.answer(question, {"happened": "a, says the log"})
        assert await run.result() == "Done."
    assert returns(model) == ["a, says the log"]
    assert len(server.heard("tools/call")) == 1
    assert [pid for pid in server.pids() if is_alive(pid)] == []


# --- somebody else's server ---


async def test_a_server_of_others_that_ignores_it_is_let_go(tmp_path: Path) -> None:
    """`server-everything` goes on with its long operation whatever it is told."""
    node, program = shutil.which("node"), EVERYTHING / "mcp-server-everything"
    assert node, "node is missing"
    assert program.exists(), "run: make setup"
    pids = tmp_path / "pids"
    argv = ["-c", 'echo $$ > "$0"; exec "$@"', str(pids), node, str(program), "stdio"]
    transport = StdioTransport("sh", argv, keep_alive=False)
    long = Call("trigger-long-running-operation", {"duration": 30, "steps": 300})
    model = ScriptedModel([[long], [Call("echo", {"message": "hello"})], "Done."])
    agent: Agent[Any, Any] = Agent(
        model, toolsets=[MCPToolset(transport, id="all", init_timeout=60)], name="client"
    )
    policies = {"trigger-long-running-operation": {"on_redirect": "cancel"}}
    async with runtime_of(agent, timing=HASTY, tools=policies) as runtime:
        run = await runtime.start(agent, "go")
        await seen(run, StepStarted, name=long.tool, run_in="remote")
        await run.redirect("say hello")
        assert await run.result() == "Done."
        [cut] = await happened(runtime, run.id, StepInterrupted)
    assert cut.rung == "stop_requested"
    assert returns(model)[0].startswith("interrupted:")
    assert "hello" in str(returns(model)[1])
    assert not is_alive(int(pids.read_text()))
    assert_valid(model)
