"""An agent that puts a text wherever a text of others can be put."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pullcord
from pullcord import Context, RunHandle, StepError
from pullcord.runtime.policy import Tool, policy_of
from tests.runs.observed_runs import question


async def mouth(ctx: Context, texts: list[str]) -> None:
    """Each text as the item of a plan, as what is said, as a tool, its arguments and its result,
    as an error, a question with its details, and a call to be allowed."""
    async for item in ctx.plan(texts):
        text = item.title
        await ctx.say(in_pieces(text, len(text) // 3, 2 * len(text) // 3))
        await ctx.tool(named(text), {text: [text]})
        try:
            await ctx.step(text, _raise, text)
        except StepError:
            pass
        await ctx.tool(named(text, approve="always", deferred=True), {text: [text]})
    await asyncio.gather(
        *(ctx.branch(f"b{n}").ask(text, details={text: text}) for n, text in enumerate(texts))
    )


async def babble(ctx: Context, text: str) -> None:
    """Says a text cut in two at every place it can be cut, and once letter by letter."""
    for at in range(1, len(text)):
        await ctx.say(in_pieces(text, at))
    await ctx.say(in_pieces(text, *range(1, len(text))))
    await ctx.ask("Enough?")


async def stumble(ctx: Context, text: str) -> None:
    """Ends with an error that says this."""
    raise ValueError(text)


async def until_it_asks(run: RunHandle, texts: list[str]) -> None:
    """Wait until everything is said and done, and every question is open."""
    await question(run, nth=len(texts), kind="question")
    await run.wait_for(pullcord.RunState.WAITING)


async def stop_with(run: RunHandle, text: str) -> None:
    """Tell it this and pause it, by somebody of that name and for that reason."""
    await run.redirect(text, by=text, reason=text)
    await run.pause(by=text, reason=text)
    await run.wait_for(pullcord.RunState.PAUSED)


async def in_pieces(text: str, *cuts: int) -> AsyncGenerator[str]:
    for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
        yield text[start:end]


def named(text: str, **declared: Any) -> Tool[..., Any]:
    """A tool of this name that returns it."""

    async def tool(given: dict[str, Any]) -> Any:
        return given

    return Tool(tool, policy_of(declared), name=text)


async def _raise(text: str) -> None:
    raise ValueError(text)


def batches(texts: list[str], size: int) -> Iterable[list[str]]:
    return (texts[start : start + size] for start in range(0, len(texts), size))
