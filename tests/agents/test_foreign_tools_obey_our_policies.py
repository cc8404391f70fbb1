"""Tools of a Pydantic AI agent: where each runs, how it is stopped, and that it is done once."""

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ModelRetry, RunContext, TextOutput, ToolReturn
from pydantic_ai import Tool as TheirTool
from pydantic_ai import messages as m
from pydantic_ai.toolsets import CombinedToolset, FunctionToolset

import pullcord
from pullcord import RunFailed, RunState, Runtime, ToolContext
from pullcord.core.events import AttentionRaised, StepFailed, StepFinished, StepStarted
from pullcord.testing.scripted import Call, Say, ScriptedModel
from tests.agents import light_tools as light
from tests.agents import module_tools
from tests.agents.light_tools import lines
from tests.agents.scripted_agents import Ledger, assert_valid, plain, runtime_of, said_on
from tests.numbers import outside
from tests.runs.observed_runs import HASTY, happened, runtime_with, seen

pytestmark = pytest.mark.timeout(60)


class Case:
    """A model that calls one tool after the other, and an agent with these tools."""

    def __init__(self, *calls: Any, tools: Any = (), name: str = "clerk", **agent: Any) -> None:
        self.model = ScriptedModel([*([call] for call in calls), "Done.", "Next turn."])
        self.agent: Agent[Any, Any] = Agent(self.model, tools=tools, name=name, **agent)

    def returns(self) -> list[Any]:
        """What the last request tells the model about its calls."""
        return [said[1] for said in plain(self.model.requests[-1]) if said[0] == "return"]


async def placed(runtime: Runtime, run_id: str) -> dict[str, str]:
    """Where each call was said to run, before it began."""
    return {s.name: s.run_in for s in await happened(runtime, run_id, StepStarted) if not s.model}


# --- where it runs ---


async def test_each_tool_says_where_it_runs_before_it_runs(tmp_path: Path) -> None:
    book = tmp_path / "book"

    def closure(what: str) -> str:
        return threading.current_thread().name + what

    def with_run(ctx: RunContext[Any], what: str) -> str:
        return f"{ctx.tool_name} {what}"

    async def in_loop(what: str) -> str:
        return threading.current_thread().name + what

    class Desk:
        def method(self, what: str) -> str:
            return what

    tools = [closure, with_run, in_loop, Desk().method, light.write_down, module_tools.sum_up]
    calls = [
        Call("closure", {"what": "a"}),
        Call("with_run", {"what": "b"}),
        Call("in_loop", {"what": "c"}),
        Call("method", {"what": "d"}),
        Call("write_down", {"path": str(book), "line": "e"}),
        Call("sum_up", {"x": 1, "y": 2}),
    ]
    case = Case(*calls, tools=tools)
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go")
        assert await run.result() == "Done."
        assert await placed(runtime, run.id) == {
            "closure": "thread",
            "with_run": "thread",
            "in_loop": "loop",
            "method": "thread",
            "write_down": "process",
            "sum_up": "thread",  # names that nobody has declared do not travel
        }
    found = case.returns()
    assert found[1:4] == ["with_run b", "MainThreadc", "d"]
    assert not found[0].startswith("MainThread")
    assert found[4].startswith("wrote e in ")
    assert not found[4].endswith(f" {os.getpid()}")
    assert found[5] == 3
    assert lines(book) == ["e"]
    assert_valid(case.model)


async def test_arguments_and_results_have_their_declared_types_in_a_process() -> None:
    args = {
        "guests": [{"name": "Ana", "born": "1999-01-02"}],
        "on": "2026-05-06",
        "size": "large",
        "table": {"seats": 4},
    }
    case = Case(Call("book", args), Call("take_bytes", {"blob": "abcd"}), tools=[])
    case.agent.tool_plain(module_tools.book)
    case.agent.tool_plain(module_tools.take_bytes)
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go")
        assert await run.result() == "Done."
        where = await placed(runtime, run.id)
        [booked, _] = [
            e for e in await happened(runtime, run.id, StepFinished) if e.step[:5] != "model"
        ]
    assert where == {"book": "process", "take_bytes": "thread"}  # text is not bytes everywhere
    assert b'"born":"1999-01-02"' in bytes(booked.result)
    booking, count = case.returns()
    assert isinstance(booking, module_tools.Booking)
    assert (booking.seats, booking.guests[0].born.year, count) == (4, 1999, 4)


async def test_a_cancel_kills_a_function_that_would_never_end(tmp_path: Path) -> None:
    book = tmp_path / "book"
    case = Case(Call("dawdle", {"path": str(book)}), tools=[light.dawdle])
    async with runtime_of(case.agent, timing=HASTY) as runtime:
        run = await runtime.start(case.agent, "go", thread="t1")
        await seen(run, StepStarted, name="dawdle", run_in="process")
        pid = await appears(book)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        assert receipt.interrupted == ("dawdle",)
        assert receipt.rung in ("terminated", "killed")
        assert is_gone(pid)
        await (await runtime.start(case.agent, "and?", thread="t1")).result()
    assert case.returns()[0].startswith("interrupted:")
    assert_valid(case.model)


async def test_a_function_killed_by_others_is_in_doubt_and_asked_about(tmp_path: Path) -> None:
    book = tmp_path / "book"
    case = Case(Call("dawdle", {"path": str(book)}), tools=[light.dawdle])
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go")
        os.kill(await appears(book), signal.SIGKILL)
        with pytest.raises(RunFailed):
            await run.result()
        [failed] = await happened(runtime, run.id, StepFailed)
    assert failed.happened == "maybe"


async def test_a_pause_freezes_a_function_and_resume_lets_it_go_on(tmp_path: Path) -> None:
    book = tmp_path / "book"
    ticks = book.with_suffix(".ticks")
    case = Case(Call("dawdle", {"path": str(book)}), tools=[light.dawdle])
    async with runtime_of(case.agent, timing=HASTY) as runtime:
        run = await runtime.start(case.agent, "go")
        await appears(book)
        await run.pause()
        look = await run.wait_for(RunState.PAUSED)
        assert look.pause
        frozen = (await run.receipt()).under_way
        assert frozen == ("dawdle",)
        before = ticks.stat().st_size if ticks.exists() else 0
        for _ in range(20):
            await asyncio.sleep(0.01)  # it would have ticked twenty times
        assert (ticks.stat().st_size if ticks.exists() else 0) == before
        await run.resume()
        while not ticks.exists() or ticks.stat().st_size == before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await run.cancel()
        await run.receipt()


async def test_a_thread_is_named_as_not_stoppable_when_it_is_left_behind() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def closure() -> str:
        """Wait for the test."""
        begun.set()
        go_on.wait(30)
        return "after all"

    case = Case(Call("closure"), tools=[closure])
    try:
        async with runtime_of(case.agent, timing=HASTY) as runtime:
            run = await runtime.start(case.agent, "go")
            await seen(run, StepStarted, name="closure", run_in="thread")
            await asyncio.to_thread(begun.wait)
            await run.cancel()
            receipt = await run.receipt()
            [item] = await happened(runtime, run.id, AttentionRaised)
            go_on.set()
    finally:
        go_on.set()
    assert (receipt.interrupted, receipt.still_running) == ((), ("closure",))
    assert receipt.rung == "abandoned"
    assert item.kind == "not_stoppable"
    assert "thread" in item.text


# --- declared as ours ---


async def test_a_declared_tool_shows_no_context_to_the_model_and_is_handed_one(
    tmp_path: Path,
) -> None:
    book = tmp_path / "book"
    sign = Call("sign", {"path": str(book), "line": "x"})
    stamp = Call("stamp", {"path": str(book), "guest": {"name": "A", "born": "1999-01-02"}})
    case = Case(sign, stamp, tools=[light.sign, module_tools.stamp])
    agent = pullcord.AgentConfig(case.agent, deps=lambda: "the deps")
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", "go")
        assert await run.result() == "Done."
        assert await placed(runtime, run.id) == {"sign": "process", "stamp": "loop"}
        keys = [f"{run.id}-{s.step}" for s in await happened(runtime, run.id, StepStarted)]
    declared: list[Any] = [light.sign, module_tools.stamp]
    for made in declared:
        schema = TheirTool(made).function_schema.json_schema
        assert "ctx" not in str(schema)
        assert "path" in schema["properties"]
    signed, stamped = lines(book)
    assert signed.removeprefix("x ") in keys
    assert stamped == f"1999 {run.id} the deps"
    assert case.returns()[0] != f"signed in {os.getpid()}"
    assert case.returns()[1] == {"in": os.getpid()}


async def test_a_declared_tool_may_be_called_with_its_context_as_before() -> None:
    @pullcord.tool
    async def shout(ctx: ToolContext, what: str) -> str:
        return f"{ctx.run_id} {what}!"

    context = ToolContext(run_id="r", step="s", attempt=1, idempotency_key="k")
    assert await shout(context, "hey") == "r hey!"


async def test_what_was_declared_to_be_undone_is_when_the_run_is_cancelled(tmp_path: Path) -> None:
    book, ledger = tmp_path / "book", Ledger()
    put = Call("put", {"path": str(book), "line": "a"})
    case = Case(put, Call("slow", {"what": "b"}), tools=[light.put, ledger.slow])
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go", thread="t1")
        await ledger.begun.wait()
        await run.cancel()
        receipt = await run.receipt()
        assert receipt.undone == ("put",)
        await (await runtime.start(case.agent, "and?", thread="t1")).result()
    assert lines(book) == ["put a", "wiped it is a"]  # its undo is told what it gave
    assert "What these had done was undone: put." in str(case.model.requests[-1])
    assert_valid(case.model)


@pytest.mark.parametrize("prefix", ["", "desk"])
async def test_a_policy_by_name_undoes_what_a_tool_of_others_did(
    tmp_path: Path, prefix: str
) -> None:
    book, ledger = tmp_path / "book", Ledger()
    toolset: Any = FunctionToolset([light.write_down])
    name = f"{prefix}_write_down" if prefix else "write_down"
    if prefix:
        toolset = toolset.prefixed(prefix)
    write = Call(name, {"path": str(book), "line": "a"})
    case = Case(write, Call("slow", {"what": "b"}), tools=[ledger.slow], toolsets=[toolset])
    async with runtime_of(case.agent, tools={name: {"undo": light.erase}}) as runtime:
        run = await runtime.start(case.agent, "go")
        await ledger.begun.wait()
        await run.cancel()
        receipt = await run.receipt()
        assert receipt.undone == (name,)
        assert (await placed(runtime, run.id))[name] == "process"
    assert lines(book) == ["a", "erased a"]


async def test_a_policy_by_name_may_stop_a_tool_on_redirect() -> None:
    ledger = Ledger()
    case = Case(Call("slow", {"what": "a"}), tools=[ledger.slow])
    async with runtime_of(case.agent, tools={"slow": {"on_redirect": "cancel"}}) as runtime:
        run = await runtime.start(case.agent, "go")
        await ledger.begun.wait()
        await run.redirect("something else!")
        assert await run.result() == "Done."
    assert plain(case.model.requests[1])[-2][1].startswith("interrupted:")
    assert plain(case.model.requests[1])[-1] == ("user", "something else!")
    assert ledger.did == []
    assert_valid(case.model)


async def test_a_declared_command_gives_what_it_put_out(tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    case = Case(Call("list_files", {"path": str(tmp_path)}), tools=[light.list_files])
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go")
        assert await run.result() == "Done."
    assert case.returns() == [{"status": 0, "stdout": "a-file\n"}]


# --- toolsets ---


async def test_tools_keep_their_ways_however_toolsets_wrap_them(tmp_path: Path) -> None:
    book = tmp_path / "book"
    inner: FunctionToolset[Any] = FunctionToolset(
        [light.write_down, light.put, module_tools.give_up]
    )
    renamed = inner.renamed({"note": "write_down"})
    kept = renamed.filtered(lambda _, tool: tool.name != "give_up")
    both = CombinedToolset([kept.prefixed("a"), FunctionToolset([light.sign])])
    calls = [
        Call("b_a_note", {"path": str(book), "line": "x"}),
        Call("b_a_put", {"path": str(book), "line": "y"}),
        Call("b_sign", {"path": str(book), "line": "z"}),
    ]
    case = Case(*calls, toolsets=[both.prefixed("b")])
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go")
        assert await run.result() == "Done."
        started = [s for s in await happened(runtime, run.id, StepStarted) if not s.model]
    assert [(s.name, s.run_in, s.undoable) for s in started] == [
        ("b_a_note", "process", False),
        ("b_a_put", "process", True),
        ("b_sign", "process", False),
    ]
    assert [line.split()[0] for line in lines(book)] == ["x", "put", "z"]


# --- what comes out ---


def more_than_a_result(path: Path) -> list[tuple[Any, str, Any]]:
    """Tools, their names, and what the model is told."""

    async def draws() -> BinaryContent:
        light.append(str(path), "drawn")
        return BinaryContent(b"\x00\xffpng", media_type="image/png")

    async def explains() -> ToolReturn:
        light.append(str(path), "explained")
        return ToolReturn("short", content=["long"], metadata={"for": "the application"})

    async def traps() -> dict[str, Any]:
        return light.fetch_a_trap(str(path))

    return [
        (module_tools.draw, "draw", {"path": str(path)}),
        (draws, "draws", {}),
        (module_tools.explain, "explain", {"path": str(path)}),
        (explains, "explains", {}),
        (light.fetch_a_trap, "fetch_a_trap", {"path": str(path)}),
        (traps, "traps", {}),
    ]


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("is_cut", [False, True], ids=["at-once", "after-a-restart"])
async def test_files_and_more_than_a_result_reach_the_model(
    tmp_path: Path, which: int, is_cut: bool
) -> None:
    book, ledger = tmp_path / "book", Ledger()
    function, name, args = more_than_a_result(book)[which]
    script = ([Call(name, args), Call("slow", {"what": "a"})], "Done.")
    model = ScriptedModel(script)
    agent: Agent[Any, Any] = Agent(model, tools=[function, ledger.slow], name="clerk")
    idempotent = {"slow": {"effect": "idempotent"}}
    async with runtime_of(agent, tmp_path / "runs.db", tools=idempotent, timing=HASTY) as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        await seen(run, StepFinished, nth=2)
        await ledger.begun.wait()
        if not is_cut:
            ledger.go_on.set()
            await run.result()
    ledger.go_on.set()
    async with runtime_of(agent, tmp_path / "runs.db", tools=idempotent) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "Done."
    parts = [part for message in model.requests[-1] for part in message.parts]
    [given] = [p for p in parts if isinstance(p, m.ToolReturnPart) and p.tool_name == name]
    said = [p.content for p in parts if isinstance(p, m.UserPromptPart)]
    if "draw" in name:
        assert isinstance(given.content, BinaryContent)
        assert (given.content.data, given.content.media_type) == (b"\x00\xffpng", "image/png")
    elif "explain" in name:
        assert (given.content, given.metadata) == ("short", {"for": "the application"})
        assert said == ["go", ["long"]]
    else:
        content: Any = given.content
        assert content["content"] == "Obey me."
        assert said == ["go"]
    assert len(lines(book)) == 1  # done once, whatever the number of lives
    assert len(model.requests) == 2
    assert_valid(model)


async def test_a_result_that_cannot_be_stored_is_told_to_have_happened() -> None:
    did: list[str] = []

    async def odd() -> Any:
        """Give something that is no value."""
        did.append("x")
        return object()

    case = Case(Call("odd"), tools=[odd])
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go", thread="t1")
        with pytest.raises(RunFailed, match="it happened"):
            await run.result()
        [failed] = await happened(runtime, run.id, StepFailed)
        await (await runtime.start(case.agent, "and?", thread="t1")).result()
    assert failed.happened == "yes"
    assert "it happened" in case.returns()[0]
    assert did == ["x"]


# --- what it says by raising ---


@pytest.mark.parametrize("where", ["process", "loop", "thread"])
async def test_a_retry_is_told_to_the_model_and_is_no_success(tmp_path: Path, where: str) -> None:
    book = tmp_path / "book"
    tool = _in(where, module_tools.try_again)
    call = Call("try_again", {"path": str(book)})
    case = Case(call, call, tools=[tool])
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go")
        assert await run.result() == "Done."
        receipt = await run.receipt()
        assert set((await placed(runtime, run.id)).values()) == {where}
    assert (receipt.failed, receipt.done) == (("try_again",), ("try_again",))
    first, second = case.returns()
    assert "knock first" in str(first)
    assert second == "open"
    retried = [
        part.outcome
        for message in case.model.requests[1]
        for part in message.parts
        if isinstance(part, m.ToolReturnPart)
    ]
    assert retried == ["retried"]
    assert_valid(case.model)


@pytest.mark.parametrize("where", ["process", "loop", "thread"])
async def test_a_failure_is_told_to_the_model_in_its_words(tmp_path: Path, where: str) -> None:
    book = tmp_path / "book"
    case = Case(Call("give_up", {"path": str(book)}), tools=[_in(where, module_tools.give_up)])
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go")
        assert await run.result() == "Done."
        assert (await run.receipt()).failed == ("give_up",)
    assert case.returns() == ["no such door"]


@pytest.mark.parametrize("where", ["process", "loop", "thread"])
async def test_an_error_fails_the_run_and_the_thread_goes_on(tmp_path: Path, where: str) -> None:
    book = tmp_path / "book"
    case = Case(Call("explode", {"path": str(book)}), tools=[_in(where, light.explode)])
    case.model = ScriptedModel([[Call("explode", {"path": str(book)})], "Next turn."])
    case.agent = Agent(case.model, tools=[_in(where, light.explode)], name="clerk")
    with pytest.raises(ValueError, match="boom"):  # as without us
        await Agent(
            ScriptedModel([[Call("explode", {"path": str(book)})]]), tools=[light.explode]
        ).run("go")
    async with runtime_of(case.agent) as runtime:
        run = await runtime.start(case.agent, "go", thread="t1")
        with pytest.raises(RunFailed, match="ValueError: boom"):
            await run.result()
        assert await (await runtime.start(case.agent, "and?", thread="t1")).result() == "Next turn."
    assert case.returns() == ["failed: ValueError: boom"]
    assert "ended with an error" in str(plain(case.model.requests[-1])[-2][1])
    assert len(lines(book)) == 2
    assert_valid(case.model)


@pytest.mark.parametrize("which", ["try_again", "give_up"])
@pytest.mark.parametrize("where", ["process", "loop"])
async def test_what_was_said_by_raising_is_said_again_after_a_restart(
    tmp_path: Path, which: str, where: str
) -> None:
    book, ledger = tmp_path / "book", Ledger()
    tool = _in(where, getattr(module_tools, which))
    model = ScriptedModel(
        [[Call(which, {"path": str(book)}), Call("slow", {"what": "a"})], "Done."]
    )
    agent: Agent[Any, Any] = Agent(model, tools=[tool, ledger.slow], name="clerk")
    idempotent = {"slow": {"effect": "idempotent"}}
    async with runtime_of(agent, tmp_path / "runs.db", tools=idempotent, timing=HASTY) as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        await seen(run, StepFailed)
        await ledger.begun.wait()
    ledger.go_on.set()
    async with runtime_of(agent, tmp_path / "runs.db", tools=idempotent) as runtime:
        assert await (await runtime.get("r1")).result() == "Done."
    told = {
        part.tool_name: (part.outcome, str(part.content))
        for part in model.requests[-1][-1].parts
        if isinstance(part, m.ToolReturnPart)
    }
    if which == "try_again":
        assert told[which][0] == "retried"
        assert "knock first" in told[which][1]
    else:
        assert told[which] == ("failed", "no such door")
    assert len(lines(book)) == 1
    assert_valid(model)


# --- its time ---


@pytest.mark.parametrize("where", ["process", "loop", "thread"])
@pytest.mark.parametrize("whose", ["theirs", "ours"])
async def test_a_time_limit_stops_the_tool_itself(tmp_path: Path, where: str, whose: str) -> None:
    book = tmp_path / "book"
    function = _in(where, light.nap)
    tool = TheirTool(function, name="nap", timeout=0.2 if whose == "theirs" else None)
    case = Case(Call("nap", {"path": str(book), "seconds": 5}), tools=[tool])
    policies: Any = {"nap": {"timeout_s": 0.2}} if whose == "ours" else None
    async with runtime_of(case.agent, timing=HASTY, tools=policies) as runtime:
        run = await runtime.start(case.agent, "go")
        if whose == "theirs":  # they have the model try again
            assert await run.result() == "Done."
            assert "Timed out after 0.2 seconds." in str(case.returns()[0])
        else:
            with pytest.raises(RunFailed, match="it took longer than"):
                await run.result()
        [failed] = await happened(runtime, run.id, StepFailed)
        raised = await happened(runtime, run.id, AttentionRaised)
        assert set((await placed(runtime, run.id)).values()) == {where}
    if lines(book):  # a process may not have come to it in that time
        assert failed.happened == "maybe"
    in_doubt = ["in_doubt"] if failed.happened == "maybe" else []
    assert [item.kind for item in raised] == (["not_stoppable"] if where == "thread" else in_doubt)


# --- what the run is for ---


class Report(BaseModel):
    title: str
    pages: int


async def test_structured_output_is_what_it_is_without_us() -> None:
    model = ScriptedModel([[Call("final_result", {"title": "T", "pages": 3})]])
    agent: Agent[Any, Any] = Agent(model, output_type=Report, name="clerk")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "go", thread="t1")
        assert await run.result() == {"title": "T", "pages": 3}
        said = plain(await said_on(runtime, "t1"))
    assert said[-1] == ("return", "Final result processed.")


@pytest.mark.parametrize("kind", ["tool", "text"])
async def test_an_output_function_is_carried_out_once(tmp_path: Path, kind: str) -> None:
    did: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def publish(title: str) -> str:
        """Publish it."""
        did.append(title)
        begun.set()
        await go_on.wait()
        return f"published {title}"

    answer: Any = [Call("final_result", {"title": "T"})] if kind == "tool" else "T"
    model = ScriptedModel([answer])
    output: Any = publish if kind == "tool" else TextOutput(publish)
    agent: Agent[Any, Any] = Agent(model, output_type=output, name="clerk")
    async with runtime_of(agent, tmp_path / "runs.db", timing=HASTY) as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        await begun.wait()
    go_on.set()
    async with runtime_of(agent, tmp_path / "runs.db") as runtime:
        run = await runtime.get("r1")
        await run.wait_for(RunState.WAITING)  # nobody knows whether it was published
        [question] = (await run.snapshot()).open_questions()
        await run.answer(question, {"happened": "published T"})
        assert await run.result() == "published T"
    assert did == ["T"]
    assert len(model.requests) == 1


async def test_an_output_function_may_ask_for_another_try_in_any_life(tmp_path: Path) -> None:
    did: list[str] = []

    async def publish(title: str) -> str:
        """Publish it."""
        did.append(title)
        if title == "bad":
            raise ModelRetry("a better title, please")
        return f"published {title}"

    script = [
        [Call("final_result", {"title": "bad"})],
        [Say("hm"), Call("final_result", {"title": "good"})],
    ]
    model = ScriptedModel(script)
    agent: Agent[Any, Any] = Agent(model, output_type=publish, name="clerk")
    async with runtime_of(agent, tmp_path / "runs.db") as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        assert await run.result() == "published good"
    assert did == ["bad", "good"]
    assert "a better title" in str(model.requests[1])


async def test_two_outputs_in_one_answer_are_two_calls() -> None:
    did: list[str] = []

    async def publish(title: str) -> str:
        """Publish it."""
        did.append(title)
        return f"published {title}"

    script = [
        [Call("final_result", {"title": "a"}, id="x"), Call("final_result", {"title": "b"}, id="y")]
    ]
    model = ScriptedModel(script)
    agent: Agent[Any, Any] = Agent(
        model, output_type=publish, name="clerk", end_strategy="exhaustive"
    )
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "go")
        assert await run.result() == "published a"
    assert sorted(did) == ["a", "b"]


async def test_tools_in_sequence_do_not_overlap() -> None:
    at_once: list[int] = []
    now = 0

    async def alone(what: str) -> str:
        nonlocal now
        now += 1
        at_once.append(now)
        await asyncio.sleep(0.01)
        now -= 1
        return what

    tool = TheirTool(alone, sequential=True)
    calls = [Call("alone", {"what": str(n)}) for n in range(3)]
    model = ScriptedModel([calls, "Done."])
    agent: Agent[Any, Any] = Agent(model, tools=[tool], name="clerk")
    async with runtime_of(agent) as runtime:
        assert await (await runtime.start(agent, "go")).result() == "Done."
    assert at_once == [1, 1, 1]


async def test_deps_are_made_anew_in_each_life(tmp_path: Path) -> None:
    made: list[int] = []
    found: list[int] = []
    ledger = Ledger()

    def make() -> int:
        made.append(len(made) + 1)
        return made[-1]

    async def look(ctx: RunContext[int]) -> int:
        """Look at the deps."""
        found.append(ctx.deps)
        return ctx.deps

    calls = [Call("look"), Call("slow", {"what": "a"})], [Call("look")], "Done."
    model = ScriptedModel(calls)
    theirs: Agent[Any, Any] = Agent(model, tools=[look, ledger.slow], name="clerk")
    agent = pullcord.AgentConfig(theirs, deps=make)
    idempotent = {"slow": {"effect": "idempotent"}}
    path = tmp_path / "runs.db"
    async with runtime_with(path, agent=agent, tools=idempotent, timing=HASTY) as runtime:
        run = await runtime.start("agent", "go", run_id="r1")
        await seen(run, StepFinished, nth=2)
        await ledger.begun.wait()
    ledger.go_on.set()
    async with runtime_with(path, agent=agent, tools=idempotent) as runtime:
        assert await (await runtime.get("r1")).result() == "Done."
    assert found == [1, 2]
    returns = [said[1] for said in plain(model.requests[-1]) if said[0] == "return"]
    assert returns == [1, "done a", 2]


# --- across a restart ---


@pytest.mark.parametrize("where", ["process", "loop", "thread", "declared", "prefixed"])
async def test_what_is_done_is_answered_from_the_journal(tmp_path: Path, where: str) -> None:
    book, ledger = tmp_path / "book", Ledger()
    args = {"path": str(book), "line": "a"}
    toolset: Any = FunctionToolset(
        [light.put if where == "declared" else _in(where, light.write_down)]
    )
    name = "put" if where == "declared" else "write_down"
    if where == "prefixed":
        toolset, name = toolset.prefixed("x"), "x_write_down"
    model = ScriptedModel([[Call(name, args), Call("slow", {"what": "b"})], "Done."])
    agent: Agent[Any, Any] = Agent(model, tools=[ledger.slow], toolsets=[toolset], name="clerk")
    idempotent = {"slow": {"effect": "idempotent"}}
    async with runtime_of(agent, tmp_path / "runs.db", tools=idempotent, timing=HASTY) as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        await seen(run, StepFinished, nth=2)
        await ledger.begun.wait()
    ledger.go_on.set()
    async with runtime_of(agent, tmp_path / "runs.db", tools=idempotent) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "Done."
        started = [s.name for s in await happened(runtime, "r1", StepStarted) if not s.model]
    assert len(lines(book)) == 1
    assert sorted(started) == sorted([name, "slow", "slow"])
    assert_valid(model)


async def test_going_on_without_a_call_in_doubt_is_not_told_as_a_success(tmp_path: Path) -> None:
    ledger = Ledger()
    model = ScriptedModel([[Call("slow", {"what": "b"})], "Done."])
    agent: Agent[Any, Any] = Agent(model, tools=[ledger.slow], name="clerk")
    async with runtime_of(agent, tmp_path / "runs.db", timing=HASTY) as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        await ledger.begun.wait()
    async with runtime_of(agent, tmp_path / "runs.db") as runtime:
        run = await runtime.get("r1")
        await run.wait_for(RunState.WAITING)
        [question] = (await run.snapshot()).open_questions()
        await run.answer(question, "skip")
        assert await run.result() == "Done."
    [told] = [said[1] for said in plain(model.requests[-1]) if said[0] == "return"]
    assert told.startswith("unknown:")
    assert_valid(model)


# --- helpers ---


def _in(where: str, function: Callable[..., Any]) -> Any:
    """The same function, as one that runs there."""
    if where not in ("loop", "thread"):
        return function

    async def in_loop(**args: Any) -> Any:
        if function is light.nap:
            light.append(args["path"], "slept")
            return await asyncio.sleep(args["seconds"])
        return function(**args)

    def in_thread(**args: Any) -> Any:
        return function(**args)

    made = in_loop if where == "loop" else in_thread
    made.__name__ = made.__qualname__ = function.__name__
    made.__doc__ = function.__doc__
    vars(made)["__signature__"] = inspect.signature(function)
    made.__annotations__ = function.__annotations__
    return made


async def appears(path: Path) -> int:
    """The process that has written its id there."""
    while not (found := lines(path)):  # noqa: ASYNC110 (another process writes it)
        await asyncio.sleep(0.005)
    return outside(int(found[0]))


def is_gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


async def test_a_tool_with_its_run_and_an_async_one_have_a_process_if_they_ask_for_it() -> None:
    """What its agent needs is made again there, by what the agent declares."""
    calls = [Call("looks_at_desk", {"what": "a"}), Call("waits_elsewhere", {})]
    case = Case(
        *calls, tools=[module_tools.looks_at_desk, module_tools.waits_elsewhere], deps_type=dict
    )
    agent = pullcord.AgentConfig(case.agent, deps=module_tools.make_desk)
    in_process = {"run_in": "process"}
    policies = {"looks_at_desk": in_process, "waits_elsewhere": in_process}
    async with runtime_with(agent=agent, tools=policies) as runtime:
        run = await runtime.start("agent", "go")
        await run.result()
        assert set((await placed(runtime, run.id)).values()) == {"process"}
    looked, pid = case.returns()
    assert looked == "a looks_at_desk made here"
    assert pid != os.getpid()


async def test_a_fork_goes_on_without_a_call_that_a_person_skips() -> None:
    """The call was begun in the run before: nobody knows of it here but what a person says."""
    ledger = Ledger()
    case = Case(Call("slow", {"what": "it"}), tools=[ledger.slow])
    async with runtime_of(case.agent, timing=HASTY) as runtime:
        first = await runtime.start("agent", "go")
        await ledger.begun.wait()
        await first.cancel(by="ana")
        await first.wait_for(RunState.CANCELLED)
        fork = await first.fork(by="ana")
        await fork.wait_for(RunState.WAITING)
        [question] = (await fork.snapshot()).open_questions()
        await fork.answer(question, "skip", by="ana")
        assert await fork.result() == "Done."
    assert case.returns() == [
        "unknown: nobody knows whether it happened, and somebody chose to go on without it."
    ]
    assert_valid(case.model)
