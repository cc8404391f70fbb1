"""Pullcord: the same Pydantic AI agent, handed to a runtime; every control is a method of its run.

Its tools are at the top of this module, so that a plain `def` one runs in a process that can be
stopped. They find their stage in the folder they are started in.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import pullcord
from compare import afterwards
from compare.situations import WORDS_BEFORE, Values
from compare.stage import Stage, ms_between, short, told_of, told_running, words_in
from pullcord import RunHandle, RunState, Runtime
from pullcord.events import LiveText

WAY = "`run.cancel()`"


def _stage() -> Stage:
    provider, label = json.loads(Path("stage.json").read_text())
    return Stage(provider, label, Path.cwd())


async def quick() -> str:
    """Return at once."""
    return _stage().quick()


def slow_sync() -> str:
    """Write a line every 100 ms for four seconds."""
    return _stage().slow_sync()


async def slow_async() -> str:
    """Wait for four seconds, in a way that a cancel can end."""
    return await _stage().slow_async()


def send_mail() -> str:
    """Send a mail."""
    return _stage().send_mail()


@asynccontextmanager
async def opened(stage: Stage) -> AsyncGenerator[Runtime]:
    """A runtime with the agent and all its tools, and a store in the stage's folder."""
    os.chdir(stage.folder)
    Path("stage.json").write_text(json.dumps([stage.provider, stage.label]))
    provider = OpenAIProvider(base_url=stage.base_url, api_key="none")
    model = OpenAIChatModel("fake", provider=provider)
    agent: Any = Agent(model, tools=[quick, slow_sync, slow_async, send_mail], name="agent")
    store = stage.folder / "runs.db"
    needs_approval = {"send_mail": {"approve": "always"}}
    async with pullcord.open(store, agents={"agent": agent}, tools=needs_approval) as runtime:
        yield runtime


async def until_shown(run: RunHandle, words: int) -> None:
    """Read along as a viewer does, until so many words were shown."""
    said = ""
    async with aclosing(run.events()) as events:
        async for _, item in events:
            if isinstance(item, LiveText):
                said += item.text
                if words_in(said) >= words:
                    return


def says(runtime: Runtime, thread: str) -> Any:
    """How the user's next message is sent."""

    async def send(text: str) -> Any:
        return await (await runtime.start("agent", text, thread=thread)).result()

    return send


async def cancel_stream(stage: Stage) -> Values:
    async with opened(stage) as runtime:
        run = await runtime.start("agent", "LONG", thread="t")
        await until_shown(run, WORDS_BEFORE)
        asked = time.monotonic()
        await run.cancel()
        returned = time.monotonic()
        receipt = await run.receipt()
        first = (await stage.settled())[0]
        verdict = await afterwards.next_message(stage, says(runtime, "t"))
        return {
            "way": WAY,
            "disconnect_ms": ms_between(asked, first["disconnected_at"]),
            "returned_ms": ms_between(asked, returned),
            "words_after": sum(at > asked for at in first["chunks_at"]),
            "words_kept": words_in(str(receipt.partial_text)),
            "words_sent": words_in(str((await stage.log())[-1]["messages"])),
            "next_message": verdict,
        }


async def cancel_call(stage: Stage) -> Values:
    async with opened(stage) as runtime:
        run = await runtime.start("agent", "HANG", thread="t")
        await stage.until_log(lambda log: len(log) == 1)
        asked = time.monotonic()
        await run.cancel()
        returned = time.monotonic()
        first = (await stage.settled())[0]
        return {
            "way": WAY,
            "disconnect_ms": ms_between(asked, first["disconnected_at"]),
            "returned_ms": ms_between(asked, returned),
            "next_message": await afterwards.next_message(stage, says(runtime, "t")),
        }


async def cancel_sync_tool(stage: Stage) -> Values:
    async with opened(stage) as runtime:
        run = await runtime.start("agent", "TOOL slow_sync", thread="t")
        await stage.until(lambda: len(stage.line_times()) >= 5)
        asked = time.monotonic()
        await run.cancel()
        receipt = await run.receipt()
        returned = time.monotonic()
        lines = await stage.lines_after(returned)
        verdict = await afterwards.next_message(stage, says(runtime, "t"))
        stopped = ", ".join(receipt.interrupted)
        return {
            "way": f"{WAY}, `run.receipt()`",
            "returned_ms": ms_between(asked, returned),
            "lines_after": lines,
            "caller_gets": f"a receipt: interrupted: {stopped} ({receipt.rung})",
            "told": told_running(str(receipt), lines),
            "model_told": told_of(await stage.log(), "slow_sync"),
            "next_message": verdict,
        }


async def _second_of_two(stage: Stage, runtime: Runtime) -> RunHandle:
    run = await runtime.start("agent", "TWO TOOLS quick slow_async", thread="t")
    await stage.until(lambda: stage.began("quick") == 1 and stage.began("slow_async") == 1)
    await asyncio.sleep(0.5)  # the finished result has every chance to be taken in
    return run


async def cancel_parallel(stage: Stage) -> Values:
    async with opened(stage) as runtime:
        run = await _second_of_two(stage, runtime)
        asked = time.monotonic()
        await run.cancel()
        await run.receipt()
        verdict = await afterwards.next_message(stage, says(runtime, "t"))
    again = stage.sub("resume")
    async with opened(again) as runtime:
        run = await _second_of_two(again, runtime)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        await run.resume()
        await run.result()
    return {
        "way": WAY,
        "slow_ended_ms": ms_between(asked, stage.slow_ended_at()),
        "finished_kept": "quick-result" in str((await stage.log())[-1]["messages"]),
        "next_message": verdict,
        "resume_starts": again.began("quick"),
    }


async def pause_stream(stage: Stage) -> Values:
    async with opened(stage) as runtime:
        run = await runtime.start("agent", "LONG")
        shown: list[float] = []
        enough = asyncio.Event()

        async def view() -> None:
            async with aclosing(run.events()) as events:
                async for _, item in events:
                    if isinstance(item, LiveText):
                        shown.extend(time.monotonic() for _ in range(words_in(item.text)))
                        if len(shown) >= WORDS_BEFORE:
                            enough.set()

        viewer = asyncio.create_task(view())
        await enough.wait()
        asked = time.monotonic()
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        after = [at for at in shown if at > asked]
        await run.resume()
        await run.result()
        await viewer
        return {
            "way": "`run.pause()`",
            "quiet_ms": ms_between(asked, max(after, default=asked)),
            "words_after": len(after),
            "then": "paused; the answer went on unseen and is shown on resume",
        }


async def redirect_stream(stage: Stage) -> Values:
    async with opened(stage) as runtime:
        run = await runtime.start("agent", "LONG")
        await until_shown(run, WORDS_BEFORE)
        asked = time.monotonic()
        await run.redirect("REDIRECT in French")
        await run.result()
        log = await stage.settled()
        seen = [request for request in log if "REDIRECT" in str(request["messages"])]
        return {
            "way": "`run.redirect()`",
            "seen": bool(seen),
            "seen_ms": ms_between(asked, seen[0]["at"]) if seen else None,
            "words_after": sum(at > asked for at in log[0]["chunks_at"]),
        }


async def first_life(stage: Stage, prompt: str) -> Values:
    async with opened(stage) as runtime:
        await (await runtime.start("agent", prompt, run_id="r1")).result()
    return {"outcome": "was not killed"}


async def second_life(stage: Stage, prompt: str) -> Values:
    async with opened(stage) as runtime:
        run = await runtime.get("r1")
        found = await run.wait_for(RunState.WAITING, RunState.COMPLETED)
        questions = found.open_questions()
        text = found.questions[questions[0]].text if questions else ""
        return {
            "way": "opening the same store",
            "asked": bool(questions),
            "outcome": f"a question: “{short(text)}”" if questions else found.state,
        }


async def approval_message(stage: Stage) -> Values:
    async with opened(stage) as runtime:
        run = await runtime.start("agent", "TOOL send_mail", thread="t")
        await run.wait_for(RunState.WAITING)

        async def send(text: str) -> Any:
            await run.redirect(text)
            return await run.result()

        verdict = await afterwards.next_message(stage, send)
        return {
            "way": "`approve: always`, then `run.redirect(text)`",
            "next_message": verdict,
            "model_told": told_of(await stage.log(), "send_mail"),
            "tool_ran": stage.began("send_mail") > 0,
        }


async def random_cancels(stage: Stage) -> Values:
    async with opened(stage) as runtime:

        async def trial(wait_s: float) -> tuple[float, float]:
            run = await runtime.start("agent", "LONG")
            await until_shown(run, 1)
            await asyncio.sleep(wait_s)
            asked = time.monotonic()
            await run.cancel()
            await run.receipt()
            return asked, time.monotonic()

        return await afterwards.random_cancels(stage, WAY, trial)
