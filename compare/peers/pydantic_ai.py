"""Bare Pydantic AI: a `CancellationToken` to cancel, `AgentRun.enqueue` to redirect.

It stores nothing itself, so the application here does what the message-history page shows: it
keeps `all_messages()` and hands it to the next run.
"""

import asyncio
import time
from pathlib import Path

from pydantic_ai import (
    Agent,
    AgentRunResult,
    CancellationToken,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelMessagesTypeAdapter,
    PartDeltaEvent,
    PartStartEvent,
    RunCancelled,
    Tool,
    ToolDenied,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from compare import afterwards
from compare.situations import WORDS_BEFORE, Values
from compare.stage import Stage, ms_between, short, told_of, told_running, words_in

WAY = "`CancellationToken.cancel()`"


def make_agent(stage: Stage) -> Agent[None, str | DeferredToolRequests]:
    """An agent with all the tools."""
    provider = OpenAIProvider(base_url=stage.base_url, api_key="none")
    return Agent(
        OpenAIChatModel("fake", provider=provider),
        output_type=[str, DeferredToolRequests],
        tools=[
            Tool(stage.quick),
            Tool(stage.slow_sync),
            Tool(stage.slow_async),
            Tool(stage.send_mail, requires_approval=True),
        ],
    )


class Streamed:
    """A LONG answer being streamed to a user, and the token that cancels it."""

    def __init__(self, stage: Stage, announce_at: int) -> None:
        self.agent = make_agent(stage)
        self.token = CancellationToken()
        self.shown = 0
        self.announced = asyncio.Event()
        self.announce_at = announce_at
        self.history: list[ModelMessage] = []

    async def consume(self) -> None:
        try:
            async with self.agent.run_stream_events("LONG", cancellation_token=self.token) as run:
                async for event in run:
                    if isinstance(event, PartStartEvent | PartDeltaEvent):
                        self.shown += 1
                        if self.shown == self.announce_at:
                            self.announced.set()
        except RunCancelled as cancelled:
            self.history = cancelled.all_messages()


async def cancel_stream(stage: Stage) -> Values:
    streamed = Streamed(stage, WORDS_BEFORE)
    consumer = asyncio.create_task(streamed.consume())
    await streamed.announced.wait()
    asked = time.monotonic()
    streamed.token.cancel()
    await consumer
    returned = time.monotonic()
    first = (await stage.settled())[0]
    history = streamed.history
    verdict = await afterwards.next_message(
        stage, lambda text: streamed.agent.run(text, message_history=history)
    )
    return {
        "way": WAY,
        "disconnect_ms": ms_between(asked, first["disconnected_at"]),
        "returned_ms": ms_between(asked, returned),
        "words_after": sum(at > asked for at in first["chunks_at"]),
        "words_kept": words_in(str(history)),
        "words_sent": words_in(str((await stage.log())[-1]["messages"])),
        "next_message": verdict,
    }


async def _cancelled(
    agent: Agent[None, str | DeferredToolRequests], token: CancellationToken, prompt: str
) -> RunCancelled:
    """Run until cancelled, and return what the caller is given."""
    try:
        result = await agent.run(prompt, cancellation_token=token)
    except RunCancelled as cancelled:
        return cancelled
    raise AssertionError(f"was not cancelled: {result}")


async def cancel_call(stage: Stage) -> Values:
    agent, token = make_agent(stage), CancellationToken()
    run = asyncio.create_task(_cancelled(agent, token, "HANG"))
    await stage.until_log(lambda log: len(log) == 1)
    asked = time.monotonic()
    token.cancel()
    cancelled = await run
    returned = time.monotonic()
    first = (await stage.settled())[0]
    return {
        "way": WAY,
        "disconnect_ms": ms_between(asked, first["disconnected_at"]),
        "returned_ms": ms_between(asked, returned),
        "next_message": await afterwards.next_message(
            stage, lambda text: agent.run(text, message_history=cancelled.all_messages())
        ),
    }


async def cancel_sync_tool(stage: Stage) -> Values:
    agent, token = make_agent(stage), CancellationToken()
    run = asyncio.create_task(_cancelled(agent, token, "TOOL slow_sync"))
    await stage.until(lambda: len(stage.line_times()) >= 5)
    asked = time.monotonic()
    token.cancel()
    cancelled = await run
    returned = time.monotonic()
    lines = await stage.lines_after(returned)
    verdict = await afterwards.next_message(
        stage, lambda text: agent.run(text, message_history=cancelled.all_messages())
    )
    return {
        "way": WAY,
        "returned_ms": ms_between(asked, returned),
        "lines_after": lines,
        "caller_gets": f"`RunCancelled`: “{short(cancelled)}”",
        "told": told_running(f"{cancelled} {cancelled.all_messages()}", lines),
        "model_told": told_of(await stage.log(), "slow_sync"),
        "next_message": verdict,
    }


async def _cancel_second_of_two(stage: Stage) -> tuple[float, RunCancelled]:
    agent, token = make_agent(stage), CancellationToken()
    run = asyncio.create_task(_cancelled(agent, token, "TWO TOOLS quick slow_async"))
    await stage.until(lambda: stage.began("quick") == 1 and stage.began("slow_async") == 1)
    await asyncio.sleep(0.5)  # the finished result has every chance to be taken in
    asked = time.monotonic()
    token.cancel()
    return asked, await run


async def cancel_parallel(stage: Stage) -> Values:
    asked, cancelled = await _cancel_second_of_two(stage)
    agent = make_agent(stage)
    verdict = await afterwards.next_message(
        stage, lambda text: agent.run(text, message_history=cancelled.all_messages())
    )
    again = stage.sub("resume")
    _, cancelled_again = await _cancel_second_of_two(again)
    await make_agent(again).run(message_history=cancelled_again.all_messages())
    return {
        "way": WAY,
        "slow_ended_ms": ms_between(asked, stage.slow_ended_at()),
        "finished_kept": "quick-result" in str((await stage.log())[-1]["messages"]),
        "next_message": verdict,
        "resume_starts": again.began("quick"),
    }


async def pause_stream(stage: Stage) -> Values:
    return {
        "unsupported": "no pause; an application can stop stepping `agent.iter()` between nodes"
    }


async def redirect_stream(stage: Stage) -> Values:
    agent = make_agent(stage)
    asked, shown = 0.0, 0
    async with agent.iter("LONG") as run:
        async for node in run:
            if not Agent.is_model_request_node(node):
                continue
            async with node.stream(run.ctx) as stream:
                async for event in stream:
                    shown += isinstance(event, PartStartEvent | PartDeltaEvent)
                    if shown == WORDS_BEFORE and not asked:
                        asked = time.monotonic()
                        run.enqueue("REDIRECT in French")
    log = await stage.settled()
    seen = [request for request in log if "REDIRECT" in str(request["messages"])]
    return {
        "way": "`AgentRun.enqueue()`",
        "seen": bool(seen),
        "seen_ms": ms_between(asked, seen[0]["at"]) if seen else None,
        "words_after": sum(at > asked for at in log[0]["chunks_at"]),
    }


def _file(stage: Stage) -> Path:
    return stage.folder / "messages.json"


async def first_life(stage: Stage, prompt: str) -> Values:
    """Save the messages after every node: as often as the public interface allows."""
    async with make_agent(stage).iter(prompt) as run:
        async for _ in run:
            _file(stage).write_bytes(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
    return {"outcome": "was not killed"}


async def second_life(stage: Stage, prompt: str) -> Values:
    way = "`agent.run(message_history=…)`, which the app had saved after each node"
    history = ModelMessagesTypeAdapter.validate_json(_file(stage).read_bytes())
    try:
        result: AgentRunResult[object] = await make_agent(stage).run(message_history=history)
    except Exception as error:
        return {"way": way, "outcome": f"{type(error).__name__}: {short(error)}"}
    asked = isinstance(result.output, DeferredToolRequests)
    return {"way": way, "asked": asked, "outcome": f"answer “{short(result.output)}”"}


async def approval_message(stage: Stage) -> Values:
    agent = make_agent(stage)
    result = await agent.run("TOOL send_mail")
    assert isinstance(result.output, DeferredToolRequests)
    verdict = await afterwards.next_message(
        stage, lambda text: agent.run(text, message_history=result.all_messages())
    )
    told = told_of(await stage.log(), "send_mail") if verdict == "accepted" else None
    denial = DeferredToolResults(
        approvals={call.tool_call_id: ToolDenied() for call in result.output.approvals}
    )
    denied = await afterwards.next_message(
        stage,
        lambda text: agent.run(
            text, message_history=result.all_messages(), deferred_tool_results=denial
        ),
    )
    return {
        "way": "`requires_approval=True`, then `run(text, message_history=…)`",
        "next_message": verdict,
        "denied_first": denied,
        "model_told": told,
        "tool_ran": stage.began("send_mail") > 0,
    }


async def random_cancels(stage: Stage) -> Values:
    async def trial(wait_s: float) -> tuple[float, float]:
        streamed = Streamed(stage, 1)
        consumer = asyncio.create_task(streamed.consume())
        await streamed.announced.wait()
        await asyncio.sleep(wait_s)
        asked = time.monotonic()
        streamed.token.cancel()
        await consumer
        return asked, time.monotonic()

    return await afterwards.random_cancels(stage, WAY, trial)
