"""The OpenAI Agents SDK with its `SQLiteSession`.

`RunResultStreaming.cancel()` is its documented way to cancel, so runs are streamed; a run that is
not streamed can only be cancelled as an asyncio task.
"""

import asyncio
import time
from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.result import RunResultStreaming
from openai import AsyncOpenAI

from compare import afterwards
from compare.situations import WORDS_BEFORE, Values
from compare.stage import Stage, ms_between, short, told_of, told_running, words_in

WAY = "`result.cancel()`"

set_tracing_disabled(True)


def make_agent(stage: Stage) -> Agent[None]:
    """An agent with all the tools."""

    @function_tool
    def quick() -> str:
        return stage.quick()

    @function_tool
    def slow_sync() -> str:
        return stage.slow_sync()

    @function_tool
    async def slow_async() -> str:
        return await stage.slow_async()

    @function_tool(needs_approval=True)
    def send_mail() -> str:
        return stage.send_mail()

    client = AsyncOpenAI(base_url=stage.base_url, api_key="none")
    return Agent(
        name="compared",
        model=OpenAIChatCompletionsModel("fake", client),
        tools=[quick, slow_sync, slow_async, send_mail],
    )


def make_session(stage: Stage) -> SQLiteSession:
    return SQLiteSession("s", stage.folder / "session.db")


class Streamed:
    """A run being streamed to a user."""

    def __init__(
        self, agent: Agent[None], prompt: str, session: SQLiteSession, announce_at: int = 1
    ) -> None:
        self.result: RunResultStreaming = Runner.run_streamed(agent, prompt, session=session)
        self.shown_at: list[float] = []
        self.announced = asyncio.Event()
        self.announce_at = announce_at
        self.task = asyncio.create_task(self._consume())

    async def _consume(self) -> None:
        async for event in self.result.stream_events():
            raw: Any = getattr(event, "data", None)
            if raw is not None and raw.type == "response.output_text.delta":
                self.shown_at.append(time.monotonic())
                if len(self.shown_at) == self.announce_at:
                    self.announced.set()

    async def cancelled(self) -> tuple[float, float, str]:
        """Cancel, read on to the end as its docstring asks: when asked, when ended, what we get."""
        asked = time.monotonic()
        self.result.cancel()
        try:
            await self.task
            given = f"the end of the event stream; `final_output` is {self.result.final_output}"
        except Exception as error:
            given = f"`{type(error).__name__}`: {short(error)}"
        return asked, time.monotonic(), given


async def cancel_stream(stage: Stage) -> Values:
    agent, session = make_agent(stage), make_session(stage)
    streamed = Streamed(agent, "LONG", session, WORDS_BEFORE)
    await streamed.announced.wait()
    asked, returned, _ = await streamed.cancelled()
    first = (await stage.settled())[0]
    kept = words_in(str(await session.get_items()))
    verdict = await afterwards.next_message(
        stage, lambda text: Runner.run(agent, text, session=session)
    )
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
    agent, session = make_agent(stage), make_session(stage)
    task = asyncio.create_task(Runner.run(agent, "HANG", session=session))
    await stage.until_log(lambda log: len(log) == 1)
    asked = time.monotonic()
    task.cancel()
    await asyncio.wait({task})
    returned = time.monotonic()
    first = (await stage.settled())[0]
    return {
        "way": "`task.cancel()`",
        "disconnect_ms": ms_between(asked, first["disconnected_at"]),
        "returned_ms": ms_between(asked, returned),
        "next_message": await afterwards.next_message(
            stage, lambda text: Runner.run(agent, text, session=session)
        ),
    }


async def cancel_sync_tool(stage: Stage) -> Values:
    agent, session = make_agent(stage), make_session(stage)
    streamed = Streamed(agent, "TOOL slow_sync", session)
    await stage.until(lambda: len(stage.line_times()) >= 5)
    asked, returned, given = await streamed.cancelled()
    lines = await stage.lines_after(returned)
    verdict = await afterwards.next_message(
        stage, lambda text: Runner.run(agent, text, session=session)
    )
    return {
        "way": WAY,
        "returned_ms": ms_between(asked, returned),
        "lines_after": lines,
        "caller_gets": given,
        "told": told_running(given, lines),
        "model_told": told_of(await stage.log(), "slow_sync"),
        "next_message": verdict,
    }


async def _cancel_second_of_two(stage: Stage, session: SQLiteSession) -> tuple[float, Streamed]:
    streamed = Streamed(make_agent(stage), "TWO TOOLS quick slow_async", session)
    await stage.until(lambda: stage.began("quick") == 1 and stage.began("slow_async") == 1)
    await asyncio.sleep(0.5)  # the finished result has every chance to be taken in
    asked, _, _ = await streamed.cancelled()
    return asked, streamed


async def cancel_parallel(stage: Stage) -> Values:
    session = make_session(stage)
    asked, _ = await _cancel_second_of_two(stage, session)
    agent = make_agent(stage)
    verdict = await afterwards.next_message(
        stage, lambda text: Runner.run(agent, text, session=session)
    )
    again = stage.sub("resume")
    session = make_session(again)
    _, streamed = await _cancel_second_of_two(again, session)
    state: RunState[Any] = streamed.result.to_state()
    await Runner.run(make_agent(again), state, session=session)
    return {
        "way": WAY,
        "slow_ended_ms": ms_between(asked, stage.slow_ended_at()),
        "finished_kept": "quick-result" in str((await stage.log())[-1]["messages"]),
        "next_message": verdict,
        "resume_starts": again.began("quick"),
    }


async def pause_stream(stage: Stage) -> Values:
    streamed = Streamed(make_agent(stage), "LONG", make_session(stage), WORDS_BEFORE)
    await streamed.announced.wait()
    asked = time.monotonic()
    streamed.result.cancel(mode="after_turn")
    await streamed.task
    whole = streamed.result.final_output is not None
    return {
        "way": '`result.cancel(mode="after_turn")`',
        "quiet_ms": ms_between(asked, streamed.shown_at[-1]),
        "words_after": sum(at > asked for at in streamed.shown_at),
        "then": "complete: it had not paused" if whole else "ended, without a final output",
    }


async def redirect_stream(stage: Stage) -> Values:
    """Its way to add input: finish the turn, add to the state it leaves, resume."""
    agent, session = make_agent(stage), make_session(stage)
    streamed = Streamed(agent, "LONG", session, WORDS_BEFORE)
    await streamed.announced.wait()
    asked = time.monotonic()
    streamed.result.cancel(mode="after_turn")
    await streamed.task
    refused = ""
    try:
        state: RunState[Any] = streamed.result.to_state()
        state.add_input("REDIRECT in French")
        await Runner.run(agent, state, session=session)
    except Exception as error:
        refused = f"no; refused: {type(error).__name__}: {short(error)}"
    log = await stage.settled()
    seen = [request for request in log if "REDIRECT" in str(request["messages"])]
    return {
        "way": '`cancel(mode="after_turn")`, `to_state().add_input()`',
        "seen": refused or bool(seen),
        "seen_ms": ms_between(asked, seen[0]["at"]) if seen else None,
        "words_after": sum(at > asked for at in log[0]["chunks_at"]),
    }


async def first_life(stage: Stage, prompt: str) -> Values:
    await Runner.run(make_agent(stage), prompt, session=make_session(stage))
    return {"outcome": "was not killed"}


async def second_life(stage: Stage, prompt: str) -> Values:
    """The session holds what the first life stored, so nothing is said anew."""
    way = "`Runner.run(agent, [], session=session)`"
    try:
        result = await Runner.run(make_agent(stage), [], session=make_session(stage))
    except Exception as error:
        return {"way": way, "outcome": f"{type(error).__name__}: {short(error)}"}
    return {
        "way": way,
        "asked": bool(result.interruptions),
        "outcome": f"answer “{short(result.final_output)}”",
    }


async def approval_message(stage: Stage) -> Values:
    agent, session = make_agent(stage), make_session(stage)
    result = await Runner.run(agent, "TOOL send_mail", session=session)
    assert result.interruptions
    verdict = await afterwards.next_message(
        stage, lambda text: Runner.run(agent, text, session=session)
    )
    told = told_of(await stage.log(), "send_mail")
    again = stage.sub("denied")
    agent, session = make_agent(again), make_session(again)
    result = await Runner.run(agent, "TOOL send_mail", session=session)

    async def deny_and_say(text: str) -> None:
        state: RunState[Any] = result.to_state()
        state.reject(result.interruptions[0])
        state.add_input(text)
        await Runner.run(agent, state, session=session)

    denied = await afterwards.next_message(again, deny_and_say)
    return {
        "way": "`needs_approval=True`, then a message in the session",
        "next_message": verdict,
        "denied_first": denied,
        "model_told": told,
        "tool_ran": stage.began("send_mail") + again.began("send_mail") > 0,
    }


async def random_cancels(stage: Stage) -> Values:
    agent = make_agent(stage)
    trials = 0

    async def trial(wait_s: float) -> tuple[float, float]:
        nonlocal trials
        trials += 1
        streamed = Streamed(agent, "LONG", SQLiteSession(f"s{trials}", stage.folder / "s.db"))
        await streamed.announced.wait()
        await asyncio.sleep(wait_s)
        asked, returned, _ = await streamed.cancelled()
        return asked, returned

    return await afterwards.random_cancels(stage, WAY, trial)
