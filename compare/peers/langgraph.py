"""LangGraph, through `langchain.agents.create_agent` with the SQLite checkpointer.

In one process a run is cancelled like any asyncio task; the thread's checkpoints are the history.
(Its own cancel and "double texting" belong to the hosted platform's server, which is not here.)
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command
from pydantic import SecretStr

from compare import afterwards
from compare.situations import WORDS_BEFORE, Values
from compare.stage import Stage, ms_between, short, told_of, told_running, words_in

WAY = "`task.cancel()`"


def said(text: str) -> dict[str, Any]:
    """A user's message as the graph's input."""
    return {"messages": [{"role": "user", "content": text}]}


class Thread:
    """An agent and one thread of its conversation."""

    def __init__(self, agent: Any, name: str) -> None:
        self.agent = agent
        self.config = {"configurable": {"thread_id": name}}

    async def say(self, text: str) -> Any:
        return await self.agent.ainvoke(said(text), self.config)

    async def go_on(self, resume: Any = None) -> Any:
        """Resume from the last checkpoint: with None, or with a `Command`."""
        return await self.agent.ainvoke(resume, self.config)

    async def history(self) -> list[Any]:
        return (await self.agent.aget_state(self.config)).values.get("messages", [])

    async def stream(self, text: str, **options: Any) -> AsyncIterator[str]:
        """Yield the answer's words as they are shown."""
        stream = self.agent.astream(said(text), self.config, stream_mode="messages", **options)
        async for chunk, _ in stream:
            if isinstance(chunk, AIMessageChunk) and chunk.content:
                yield str(chunk.content)


@asynccontextmanager
async def opened(stage: Stage, *, approval: bool = False, **model: Any) -> AsyncGenerator[Thread]:
    """A thread in the stage's database; with `approval`, mails wait for a person's word."""
    gate = HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})
    async with AsyncSqliteSaver.from_conn_string(str(stage.folder / "threads.db")) as saver:
        agent = create_agent(
            ChatOpenAI(model="fake", base_url=stage.base_url, api_key=SecretStr("none"), **model),
            tools=[stage.quick, stage.slow_sync, stage.slow_async, stage.send_mail],
            middleware=[gate] if approval else [],
            checkpointer=saver,
        )
        yield Thread(agent, "t")


class Streamed:
    """A LONG answer being streamed to a user."""

    def __init__(self, thread: Thread, announce_at: int, **options: Any) -> None:
        self.shown_at: list[float] = []
        self.announced = asyncio.Event()
        self.announce_at = announce_at
        self.task = asyncio.create_task(self._consume(thread, options))

    async def _consume(self, thread: Thread, options: dict[str, Any]) -> None:
        async for _ in thread.stream("LONG", **options):
            self.shown_at.append(time.monotonic())
            if len(self.shown_at) == self.announce_at:
                self.announced.set()


async def cancelled(task: asyncio.Task[Any]) -> tuple[float, float, str]:
    """Cancel and wait: when asked, when it had ended, and what the caller is given."""
    asked = time.monotonic()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError as error:
        return asked, time.monotonic(), f"`CancelledError`, saying “{error}”"
    return asked, time.monotonic(), "a normal end"


async def cancel_stream(stage: Stage) -> Values:
    async with opened(stage) as thread:
        streamed = Streamed(thread, WORDS_BEFORE)
        await streamed.announced.wait()
        asked, returned, _ = await cancelled(streamed.task)
        first = (await stage.settled())[0]
        kept = words_in(str(await thread.history()))
        verdict = await afterwards.next_message(stage, thread.say)
    return {
        "way": WAY,
        "disconnect_ms": ms_between(asked, first["disconnected_at"]),
        "returned_ms": ms_between(asked, returned),
        "words_after": sum(at > asked for at in first["chunks_at"]),
        "words_kept": kept,
        "words_sent": words_in(str((await stage.log())[-1]["messages"])),
        "next_message": verdict,
    }


async def cancel_call(stage: Stage) -> Values:
    async with opened(stage) as thread:
        task = asyncio.create_task(thread.say("HANG"))
        await stage.until_log(lambda log: len(log) == 1)
        asked, returned, _ = await cancelled(task)
        first = (await stage.settled())[0]
        verdict = await afterwards.next_message(stage, thread.say)
    return {
        "way": WAY,
        "disconnect_ms": ms_between(asked, first["disconnected_at"]),
        "returned_ms": ms_between(asked, returned),
        "next_message": verdict,
    }


async def cancel_sync_tool(stage: Stage) -> Values:
    async with opened(stage) as thread:
        task = asyncio.create_task(thread.say("TOOL slow_sync"))
        await stage.until(lambda: len(stage.line_times()) >= 5)
        asked, returned, given = await cancelled(task)
        lines = await stage.lines_after(returned)
        verdict = await afterwards.next_message(stage, thread.say)
    return {
        "way": WAY,
        "returned_ms": ms_between(asked, returned),
        "lines_after": lines,
        "caller_gets": given,
        "told": told_running(given, lines),
        "model_told": told_of(await stage.log(), "slow_sync"),
        "next_message": verdict,
    }


async def _cancel_second_of_two(stage: Stage, thread: Thread) -> float:
    task = asyncio.create_task(thread.say("TWO TOOLS quick slow_async"))
    await stage.until(lambda: stage.began("quick") == 1 and stage.began("slow_async") == 1)
    await asyncio.sleep(0.5)  # the finished result has every chance to be taken in
    asked, _, _ = await cancelled(task)
    return asked


async def cancel_parallel(stage: Stage) -> Values:
    async with opened(stage) as thread:
        asked = await _cancel_second_of_two(stage, thread)
        verdict = await afterwards.next_message(stage, thread.say)
    again = stage.sub("resume")
    async with opened(again) as thread:
        await _cancel_second_of_two(again, thread)
        await thread.go_on()
    return {
        "way": WAY,
        "slow_ended_ms": ms_between(asked, stage.slow_ended_at()),
        "finished_kept": "quick-result" in str((await stage.log())[-1]["messages"]),
        "next_message": verdict,
        "resume_starts": again.began("quick"),
    }


async def pause_stream(stage: Stage) -> Values:
    control = RunControl()
    async with opened(stage) as thread:
        streamed = Streamed(thread, WORDS_BEFORE, control=control)
        await streamed.announced.wait()
        asked = time.monotonic()
        control.request_drain("the user pressed pause")
        try:
            await streamed.task
            then = "complete: it had not paused"
        except GraphDrained as drained:
            then = f"ended with GraphDrained: {short(drained)}"
    return {
        "way": "`RunControl.request_drain()`",
        "quiet_ms": ms_between(asked, streamed.shown_at[-1]),
        "words_after": sum(at > asked for at in streamed.shown_at),
        "then": then,
    }


async def redirect_stream(stage: Stage) -> Values:
    async with opened(stage) as thread:
        streamed = Streamed(thread, WORDS_BEFORE)
        await streamed.announced.wait()
        asked = time.monotonic()
        await thread.agent.aupdate_state(thread.config, said("REDIRECT in French"))
        await streamed.task
        kept = "REDIRECT" in str(await thread.history())
    log = await stage.settled()
    seen = [request for request in log if "REDIRECT" in str(request["messages"])]
    lost = "no; accepted, and not in the history afterwards"
    return {
        "way": "`aupdate_state()` during the run",
        "seen": True if seen else "no, only in the history" if kept else lost,
        "seen_ms": ms_between(asked, seen[0]["at"]) if seen else None,
        "words_after": sum(at > asked for at in log[0]["chunks_at"]),
    }


async def first_life(stage: Stage, prompt: str) -> Values:
    async with opened(stage) as thread:
        await thread.say(prompt)
    return {"outcome": "was not killed"}


async def second_life(stage: Stage, prompt: str) -> Values:
    way = "`ainvoke(None, config)` on the same thread"
    async with opened(stage) as thread:
        try:
            result = await thread.go_on()
        except Exception as error:
            return {"way": way, "outcome": f"{type(error).__name__}: {short(error)}"}
    asked = "__interrupt__" in result
    return {
        "way": way,
        "asked": asked,
        "outcome": f"answer “{short(result['messages'][-1].content)}”",
    }


async def approval_message(stage: Stage) -> Values:
    async with opened(stage, approval=True) as thread:
        assert "__interrupt__" in await thread.say("TOOL send_mail")
        verdict = await afterwards.next_message(stage, thread.say)
        told = told_of(await stage.log(), "send_mail")
    again = stage.sub("denied")
    async with opened(again, approval=True) as thread:
        await thread.say("TOOL send_mail")

        async def deny_and_say(text: str) -> None:
            await thread.go_on(Command(resume={"decisions": [{"type": "reject"}]}))
            await thread.say(text)

        denied = await afterwards.next_message(again, deny_and_say)
    return {
        "way": "`HumanInTheLoopMiddleware`, then a message on the thread",
        "next_message": verdict,
        "denied_first": denied,
        "model_told": told,
        "tool_ran": stage.began("send_mail") + again.began("send_mail") > 0,
    }


async def _hundred_cancels(stage: Stage, **model: Any) -> Values:
    trials = 0

    async def trial(wait_s: float) -> tuple[float, float]:
        nonlocal trials
        trials += 1
        streamed = Streamed(Thread(thread.agent, f"t{trials}"), 1)
        await streamed.announced.wait()
        await asyncio.sleep(wait_s)
        asked, returned, _ = await cancelled(streamed.task)
        return asked, returned

    async with opened(stage, **model) as thread:
        return await afterwards.random_cancels(stage, WAY, trial)


async def random_cancels(stage: Stage) -> Values:
    """Twice: by default langchain-openai bounds each chunk's wait with `asyncio.wait_for`, which
    on Python 3.11 can swallow a cancel. The second hundred are without that bound."""
    values = await _hundred_cancels(stage)
    untimed = await _hundred_cancels(stage.sub("untimed"), stream_chunk_timeout=None)
    return {**values, "lost_untimed": untimed["lost"]}
