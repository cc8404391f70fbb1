"""Promise: a run is one trace, across pauses, processes and restarts, by the GenAI conventions.

Each life is a span, linked to the one before; requests, tools and steps are inside; who stopped it
and why are events. No prompt, argument, result or text is exported.
"""

import asyncio
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic_ai
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode

import pullcord
from pullcord import Context, RunState, Timing, guard
from pullcord.limits import MaxSteps
from pullcord.runtime import worker
from pullcord.testing.scripted import Call, Say, ScriptedModel
from tests.runs.observed_runs import BOUND_S
from tests.telemetry.lab import Lab


@pullcord.tool(effect="none")
async def look_up(name: str) -> str:
    return f"{name}@example.org"


async def plain(n: int) -> int:
    return n


async def office(ctx: Context) -> str:
    await ctx.step("count", plain, 3)
    await ctx.tool(look_up, "ana")
    return str(await ctx.ask("Which colour?"))


async def fails(ctx: Context) -> None:
    await ctx.step("count", broken)


async def broken() -> None:
    raise LookupError("no such customer: ana@example.org")


def at(span: Any) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


async def test_a_life_and_what_is_done_in_it_are_spans(lab: Lab) -> None:
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"office": office}) as runtime,
    ):
        run = await runtime.start("office", thread="t1")
        await run.wait_for(RunState.WAITING)
    life = lab.one("invoke_agent office")
    assert life.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "office",
        "gen_ai.conversation.id": "t1",
        "pullcord.run.id": run.id,
        "pullcord.run.epoch": 1,
        "pullcord.run.state": "waiting",
    }
    step, tool = lab.one("step count"), lab.one("execute_tool look_up")
    assert step.attributes
    assert tool.attributes
    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["gen_ai.tool.name"] == "look_up"
    assert tool.attributes["gen_ai.tool.call.id"] == tool.attributes["pullcord.step.id"]
    for inner in (step, tool):
        assert inner.parent
        assert (inner.parent.trace_id, inner.parent.span_id) == at(life)
        assert inner.status.status_code is StatusCode.UNSET
        assert inner.attributes
        assert inner.attributes["pullcord.step.outcome"] == "finished"


async def test_a_run_that_is_paused_and_goes_on_is_one_trace_with_links(lab: Lab) -> None:
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"office": office}) as runtime,
    ):
        run = await runtime.start("office")
        await run.wait_for(RunState.WAITING)
        await run.pause(by="bo", reason="lunch", via="page, session")
        await run.resume(by="bo")
        await run.answer((await run.snapshot()).open_questions()[0], "red")
        await run.result()
    first, *others = lab.spans("invoke_agent")
    assert others
    before = first
    for life in others:
        assert life.context.trace_id == first.context.trace_id
        assert [(link.context.trace_id, link.context.span_id) for link in life.links] == [
            at(before)
        ]
        assert life.parent
        assert life.parent.span_id == first.context.span_id
        before = life
    told = [(event.name, dict(event.attributes or {})) for s in others for event in s.events]
    asked = {"pullcord.by": "bo", "pullcord.source": "person"}
    who = {**asked, "pullcord.reason": "lunch", "pullcord.via": "page, session"}
    assert ("pullcord.pause_requested", who) in told
    assert ("pullcord.resumed", asked) in told
    assert others[-1].attributes
    assert others[-1].attributes["pullcord.run.outcome"] == "completed"


async def test_it_is_one_trace_across_processes_that_come_and_go(lab: Lab, tmp_path: Path) -> None:
    """The journal keeps the identity of each life."""
    begun = asyncio.Event()

    async def long(ctx: Context) -> str:
        begun.set()
        return str(await ctx.ask("Which?"))

    timing = Timing(shutdown_grace_s=0.01, park_after_s=0.01)
    async with asyncio.timeout(BOUND_S):
        for _ in range(3):
            async with pullcord.open(
                tmp_path / "r.db", agents={"long": long}, timing=timing
            ) as runtime:
                begun.clear()
                handles = await runtime.list()
                if not handles:
                    await runtime.start("long", run_id="r1")
                else:
                    await (await runtime.get("r1")).redirect("think", by="ana")
                await begun.wait()
                await (await runtime.get("r1")).wait_for(RunState.WAITING)
    lives = lab.spans("invoke_agent")
    assert len(lives) >= 3
    assert len({life.context.trace_id for life in lives}) == 1
    for before, life in itertools.pairwise(lives):
        assert [link.context.span_id for link in life.links] == [before.context.span_id]


async def test_a_cancel_is_no_error_and_says_who(lab: Lab) -> None:
    begun = asyncio.Event()

    async def busy(ctx: Context) -> None:
        begun.set()
        await ctx.step("work", asyncio.sleep, 3600)

    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"busy": busy}) as runtime,
    ):
        run = await runtime.start("busy")
        await begun.wait()
        await run.cancel(by="ana", reason="looks unsafe")
        await run.wait_for(RunState.CANCELLED)
    life = lab.one("invoke_agent")
    assert life.status.status_code is StatusCode.UNSET
    assert life.attributes
    assert life.attributes["pullcord.run.outcome"] == "cancelled"
    assert "error.type" not in life.attributes
    [asked] = [e for e in life.events if e.name == "pullcord.cancel_requested"]
    assert asked.attributes == {
        "pullcord.by": "ana",
        "pullcord.source": "person",
        "pullcord.reason": "looks unsafe",
    }
    for step in lab.spans("step work"):
        assert step.status.status_code is StatusCode.UNSET
        assert step.attributes
        assert step.attributes["pullcord.step.outcome"] == "interrupted"


async def test_a_cancel_of_a_run_at_rest_is_in_the_trace_too(lab: Lab) -> None:
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"office": office}) as runtime,
    ):
        run = await runtime.start("office")
        await run.wait_for(RunState.WAITING)
        await run.redirect("the blue one", by="bo")
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="ana")
        await run.wait_for(RunState.CANCELLED)
    names = [event.name for span in lab.spans("invoke_agent") for event in span.events]
    assert names == ["pullcord.redirected", "pullcord.cancel_requested"]
    assert lab.spans("invoke_agent")[-1].attributes is not None
    assert "the blue one" not in lab.everything()


async def test_a_failure_is_an_error_by_its_class_alone(lab: Lab) -> None:
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"fails": fails}) as runtime,
    ):
        run = await runtime.start("fails")
        await run.wait_for(RunState.FAILED)
    for name, kind in (("invoke_agent", "StepError"), ("step count", "LookupError")):
        span = lab.one(name)
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description is None
        assert span.attributes
        assert span.attributes["error.type"] == kind
    assert "example.org" not in lab.everything()


async def test_limits_and_guards_are_events(lab: Lab) -> None:
    async def counts(ctx: Context) -> None:
        for n in range(5):
            await ctx.step("count", plain, n)

    async def says(ctx: Context) -> None:
        await ctx.say("the launch code is swordfish")

    watch = guard.Phrase("launch code", name="codes", on_hit="cancel")
    agents: Any = {"counts": counts, "says": says}
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents=agents, guards=[watch]) as runtime,
    ):
        run = await runtime.start("counts", limits=MaxSteps(2), on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        run = await runtime.start("says")
        await run.wait_for(RunState.CANCELLED)
    [limit] = list(lab.one("invoke_agent counts").events)
    assert limit.name == "pullcord.limit_reached"
    assert limit.attributes
    assert limit.attributes["pullcord.source"] == "limit"
    assert limit.attributes["pullcord.leaves"] == ("MaxSteps(2)",)
    events = lab.one("invoke_agent says").events
    assert [e.name for e in events] == ["pullcord.guard_tripped", "pullcord.cancel_requested"]
    assert events[0].attributes
    assert events[0].attributes["pullcord.by"] == "codes"
    assert "swordfish" not in lab.everything()


async def test_requests_to_a_model_are_chats_with_what_they_used(lab: Lab) -> None:
    model = ScriptedModel([[Call("look", {"name": "ana"})], [Say("it is red")]], name="m-1")
    agent: Any = pydantic_ai.Agent(model, instructions="the hidden prompt")

    @agent.tool_plain
    async def look(name: str) -> str:
        return f"{name}@example.org"

    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"writer": agent}) as runtime,
    ):
        run = await runtime.start("writer", "What colour does ana like?")
        await run.result()
    chats = lab.spans("chat m-1")
    assert len(chats) == 2
    for chat in chats:
        assert chat.kind is SpanKind.CLIENT
        assert chat.attributes
        assert chat.attributes["gen_ai.request.model"] == "m-1"
        assert chat.attributes["gen_ai.usage.input_tokens"] == 10
        assert isinstance(chat.attributes["gen_ai.usage.output_tokens"], int)
    assert lab.one("execute_tool look")
    said = lab.everything()
    for content in ("hidden prompt", "What colour", "it is red", "example.org"):
        assert content not in said
    kinds = {p.attributes["gen_ai.token.type"]: p for p in lab.points("gen_ai.client.token.usage")}
    assert (kinds["input"].sum, kinds["input"].count) == (20, 2)
    [took] = lab.points("gen_ai.client.operation.duration")
    assert took.count == 2
    assert dict(took.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
    }


async def test_spans_of_the_program_nest_in_both_directions(lab: Lab) -> None:
    """A run belongs to where it was started; what a step or an agent begins belongs to it."""
    tracer = lab.traces.get_tracer("the program")

    async def asks_a_database() -> None:
        with tracer.start_as_current_span("query"):
            pass

    async def agent(ctx: Context) -> None:
        with tracer.start_as_current_span("thinks"):
            pass
        await ctx.step("read", asks_a_database)
        await (await ctx.spawn("child")).result()

    async def child(_ctx: Context) -> None: ...

    agents: Any = {"agent": agent, "child": child}
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents=agents) as runtime,
    ):
        with tracer.start_as_current_span("request"):
            run = await runtime.start("agent")
        await run.result()
    parents = {s.name: s.parent.span_id for s in lab.spans() if s.parent}
    ids = {s.name: s.context.span_id for s in reversed(lab.spans())}
    assert parents["query"] == ids["step read"]
    assert parents["thinks"] == ids["invoke_agent agent"]
    assert parents["invoke_agent agent"] == ids["request"]
    assert {s.context.trace_id for s in lab.spans()} == {lab.one("request").context.trace_id}
    assert lab.one("invoke_agent child").attributes is not None
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_what_the_program_does_not_sample_is_not_exported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab(sampler=ParentBased(ALWAYS_OFF))
    monkeypatch.setattr(worker, "observer", lab.observer)
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"office": office}) as runtime,
    ):
        run = await runtime.start("office")
        await run.wait_for(RunState.WAITING)
        await run.redirect("go on", by="ana")
        await run.wait_for(RunState.WAITING)
    assert lab.spans() == []


@pytest.mark.parametrize("where", ["on_start", "on_end"])
async def test_an_exporter_that_fails_harms_no_run(
    where: str, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SpanProcessor):
        pass

    def fail(*_: Any) -> None:
        raise ConnectionError("the collector is gone")

    setattr(Broken, where, fail)
    lab.traces.add_span_processor(Broken())
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"office": office}) as runtime,
    ):
        run = await runtime.start("office")
        await run.wait_for(RunState.WAITING)
        await run.answer((await run.snapshot()).open_questions()[0], "red")
        assert await run.result() == "red"
    assert "Telemetry failed" in caplog.text


async def test_stops_are_counted_and_timed(lab: Lab) -> None:
    begun = asyncio.Event()

    async def busy(ctx: Context) -> None:
        begun.set()
        await ctx.step("work", asyncio.sleep, 3600)

    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"busy": busy}) as runtime,
    ):
        run = await runtime.start("busy")
        await begun.wait()
        carried = {p.attributes["pullcord.run.state"]: p.value for p in lab.points("pullcord.runs")}
        assert carried["running"] == 1
        await run.cancel(by="ana")
        await run.wait_for(RunState.CANCELLED)
    assert {p.value for p in lab.points("pullcord.runs")} == {0}
    [stop] = lab.points("pullcord.stops")
    assert (stop.value, dict(stop.attributes)) == (
        1,
        {"pullcord.verb": "cancel", "pullcord.source": "person", "gen_ai.agent.name": "busy"},
    )
    [took] = lab.points("pullcord.stop.duration")
    assert took.count == 1


PROGRAM = """
import asyncio, sys
{before}
import pullcord

async def agent(ctx):
    pass

async def main():
    async with pullcord.open(":memory:", agents={{"agent": agent}}) as runtime:
        await (await runtime.start("agent")).result()

asyncio.run(main())
{after}
"""
SDK = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
"""


@pytest.mark.parametrize(
    ("before", "after", "printed"),
    [
        ("", "print([m for m in sys.modules if 'opentelemetry' in m or 'telemetry' in m])", "[]"),
        (SDK, "print([s.name for s in kept.get_finished_spans()])", "['invoke_agent agent']"),
        ("import opentelemetry.trace", "print('no provider')", "no provider"),
    ],
    ids=["not loaded", "with a provider", "without a provider"],
)
def test_a_program_that_has_not_loaded_opentelemetry_pays_nothing(
    before: str, after: str, printed: str
) -> None:
    program = PROGRAM.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == printed
