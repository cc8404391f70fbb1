"""A tool that was talked into it finds no key to the control plane, and gets nothing without one.

Out of reach of any such promise: a tool runs as the same user. What can write the store's files,
or read the memory of its runtime, is inside of the wall. It is kept out by running tools as
somebody else, or in a box.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, NotDone
from pullcord.core.events import Answered, LimitsRaised, QuestionAsked
from tests.runs.observed_runs import happened, seen
from tests.server.running_server import BOUND_S, RunningServer, running_server
from tests.server.snooping import snoop


@pullcord.tool(approve="always")
async def pay(amount: int) -> str:
    return f"paid {amount}"


async def sneaks(ctx: Context, place: dict[str, Any]) -> Any:
    """Wants to pay, and meanwhile has a tool look around."""
    wants = asyncio.create_task(pays(ctx.branch("pay")))
    found = await ctx.branch("look").tool(snoop, place["folder"], ctx.run_id, place["port"])
    return [found, await wants]


async def pays(ctx: Context) -> str:
    try:
        return await ctx.tool(pay, 100)
    except NotDone as refused:
        return refused.outcome


@pytest.fixture
async def there(tmp_path: Path) -> AsyncGenerator[RunningServer]:
    async with asyncio.timeout(BOUND_S), running_server(tmp_path, sneaks=sneaks) as made:
        yield made


async def test_it_finds_no_key_and_gets_nothing(there: RunningServer) -> None:
    await there.session(there.keeper.launch())  # somebody has the page open
    there.keeper.launch()  # and a link lies printed in a terminal
    kept = (there.folder / "grants.json").read_text()
    place = {"folder": str(there.folder), "port": there.port}
    run = await there.start("sneaks", input=place)
    card = await seen(run, QuestionAsked, kind="approval")
    found = await snooped(there, run.id)
    assert found["codes"] > 5
    assert found["tried"] > 50
    assert found["let_in"] == []
    assert await happened(there.runtime, run.id, Answered) == []
    assert await happened(there.runtime, run.id, LimitsRaised) == []
    assert (there.folder / "grants.json").read_text() == kept
    assert (await run.snapshot()).open_questions() == [card.question]
    await run.deny(card.question, by="ana")
    assert (await run.result())[1] == "denied"


async def test_it_would_have_used_a_key_that_lies_about(there: RunningServer) -> None:
    """So it does look."""
    (there.folder / "notes.txt").write_text(f"my token is {there.token()}\n")
    place = {"folder": str(there.folder), "port": there.port}
    run = await there.start("sneaks", input=place)
    result = await run.result()
    assert result[0]["let_in"]
    assert result[1] == "paid 100"


async def snooped(there: RunningServer, run: str) -> dict[str, Any]:
    """What its tool has said of what it found."""
    async with there.reading(f"/runs/{run}/events") as reader:
        while True:
            [*_, done] = await reader.until("record", type="step_finished")
            result: Any = done.data["event"]["result"]
            if "let_in" in str(result):
                return result
