"""What the demo's agents can do: one tool of each kind that a person may have to stop.

Nothing leaves the machine. Mail, channel and drafts are files in one folder.
"""

import asyncio
import sys
from typing import Final

import pullcord
from pullcord.demo.customers import Region, customers, revenue
from pullcord.demo.office import add_line, discard, named, put

UNDO_S: Final = 0.3  # long enough to be seen
_SCORE_S: Final = 0.14  # for each customer


@pullcord.tool(effect="none")
async def fetch_customers(ctx: pullcord.ToolContext, region: Region = "all") -> str:
    """List the customers of a region (EU, US, APAC), or of all, as a table."""
    await ctx.deps.takes(1.2)
    those = customers(region)
    rows = [
        f"{one.name}, {one.region}, {one.seats}, {one.active}, {one.last_login_days}"
        for one in those
    ]
    heading = "name, region, seats, seats in use, days since the last login"
    return "\n".join([f"{len(those)} customers", heading, *rows])


async def drop_table(call: pullcord.Call) -> None:
    await asyncio.sleep(UNDO_S)
    discard(named("joined", call.idempotency_key, "csv"))


@pullcord.tool(effect="idempotent", undo=drop_table)
async def join_mrr(ctx: pullcord.ToolContext, region: Region = "all") -> str:
    """Join the customers of a region against what they pay each month, into a table."""
    await ctx.deps.takes(1.6)
    those = customers(region)
    rows = [f"{one.name},{one.region},{one.mrr},{one.mrr_in_spring}" for one in those]
    table = put(
        named("joined", ctx.idempotency_key, "csv"),
        "\n".join(["name,region,mrr,mrr_in_spring", *rows]) + "\n",
    )
    return f"{len(those)} customers pay ${revenue(those):,} a month; see {table}"


@pullcord.tool(effect="none", command=True)
def score_churn(ctx: pullcord.ToolContext, region: Region = "all") -> list[str]:
    """Score how likely each customer of a region leaves (0 to 1). Takes a few seconds."""
    each = str(_SCORE_S * ctx.deps.pace)
    return [sys.executable, "-m", "pullcord.demo.scoring", region, each]


@pullcord.tool
async def post_to_channel(ctx: pullcord.ToolContext, channel: str, text: str) -> str:
    """Post one line to a channel. Everybody sees it at once; it cannot be taken back."""
    await ctx.deps.takes(0.7)
    add_line("channel.jsonl", channel=channel, text=text)
    return f"posted to {channel}"


async def discard_draft(call: pullcord.Call) -> None:
    await asyncio.sleep(UNDO_S)
    discard(named("draft", call.idempotency_key, "md"))


@pullcord.tool(effect="idempotent", undo=discard_draft)
async def create_draft(ctx: pullcord.ToolContext, subject: str, text: str) -> str:
    """Keep a memo as a draft. Nobody sees it yet."""
    await ctx.deps.takes(0.8)
    name = put(named("draft", ctx.idempotency_key, "md"), f"# {subject}\n\n{text}\n")
    return f"{len(text.split())} words in {name}"


@pullcord.tool(approve=pullcord.always)
async def send_memo(ctx: pullcord.ToolContext, to: str, subject: str) -> str:
    """Send the memo that was drafted. Somebody has to allow it."""
    await ctx.deps.takes(0.8)
    add_line("outbox.jsonl", to=to, subject=subject)
    return f"sent to {to}: “{subject}”"
