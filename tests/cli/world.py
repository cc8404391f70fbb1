"""Agents that leave runs behind in every state a person meets."""

from pullcord import AgentConfig, Call, Context, Retry, always, tool
from pullcord.limits import External, MaxSteps, Spent
from tests.cli.agents import fails as fails
from tests.cli.agents import hangs_between as hangs
from tests.cli.agents import note
from tests.cli.agents import planned as planned
from tests.cli.agents import quick as quick

__all__ = ["capped", "drafts", "fails", "hangs", "pays", "planned", "quick", "stubborn", "told"]


@tool(approve=always)
async def pay(eur: int) -> str:
    return await note(f"paid {eur}")


async def pays(ctx: Context) -> str:
    return await ctx.tool(pay, 700)


async def take_back(call: Call) -> None:
    await note(f"took {call.result} back")


@tool(undo=take_back)
async def draft(text: str) -> str:
    return await note(text)


async def drafts(ctx: Context) -> None:
    await ctx.tool(draft, "a draft")
    raise ValueError("no such month")


async def _capped(ctx: Context) -> str:
    for number in range(5):
        await ctx.step(f"step {number}", note, str(number))
    return await ctx.ask("enough?")


capped = AgentConfig(_capped, limits=MaxSteps(2) | Spent(usd=1, lenient=True))
told = AgentConfig(planned, limits=MaxSteps(100) | External("enough"))


async def _cannot(call: Call) -> None:
    raise ValueError(f"{call.result} is out of reach")


@tool(undo=_cannot, undo_retry=Retry(attempts=1))
async def post(text: str) -> str:
    return await note(text)


async def stubborn(ctx: Context) -> None:
    """What it does cannot be undone, although it says so."""
    await ctx.tool(post, "a letter")
    raise ValueError("no such month")
