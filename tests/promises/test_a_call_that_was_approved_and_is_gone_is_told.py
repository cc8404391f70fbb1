"""A deploy renames a tool whose call waits for an approval: who approves it learns that nothing
was called."""

from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context
from pullcord.core.events import CallRefused
from tests.runs.observed_runs import happened, question, runtime_with

SENT: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_sent_yet() -> None:
    SENT.clear()


@pullcord.tool(approve="always")
async def send_mail(to: str) -> None:
    SENT.append(to)


@pullcord.tool(effect="none")
async def send_later(to: str) -> str:
    return "in the queue"


async def before(ctx: Context) -> Any:
    return await ctx.tool(send_mail, "ana")


async def after(ctx: Context) -> Any:
    return await ctx.tool(send_later, "ana")


async def test_an_approved_call_that_the_code_has_no_more_needs_attention(tmp_path: Path) -> None:
    async with runtime_with(tmp_path / "s.db", agent=before) as runtime:
        run = await runtime.start("agent", run_id="r1")
        card = await question(run)
    async with runtime_with(tmp_path / "s.db", agent=after) as runtime:
        run = await runtime.get("r1")
        assert (await run.approve(card)).holds
        assert await run.result() == "in the queue"
        [told] = await happened(runtime, "r1", CallRefused)
        made = await run.receipt()
    assert SENT == []
    assert (told.name, told.outcome) == ("send_mail", "not_started")
    assert "nothing was called" in told.why
    [text] = made.attention
    assert text.startswith("'send_mail' was approved and never called")
    assert made.not_attempted == ("send_mail (approved; nothing was called)",)


async def test_one_that_was_called_needs_none(tmp_path: Path) -> None:
    async with runtime_with(tmp_path / "s.db", agent=before) as runtime:
        run = await runtime.start("agent", run_id="r1")
        card = await question(run)
        await run.approve(card)
        await run.result()
        made = await run.receipt()
    assert (made.attention, made.not_attempted) == ((), ())
    assert SENT == ["ana"]
