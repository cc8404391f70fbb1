"""What the tests of the demo share: a runtime with its agents, and eyes for its folder."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from pullcord import RunHandle, Runtime
from pullcord.demo.agents import agents
from pullcord.demo.customers import customers
from pullcord.demo.office import lines
from tests.runs.observed_runs import question, runtime_with

REPORT: Final = "churn-report"
ANALYST: Final = "churn-analyst"
BOTH: Final = (REPORT, ANALYST)


def show(tmp_path: Path, *, pace: float = 0) -> AbstractAsyncContextManager[Runtime]:
    """The demo on a store of its own, at full speed unless a test wants to come in between."""
    ready: dict[str, Any] = dict(agents(pace=pace))
    return runtime_with(tmp_path / "runs.db", **ready)


async def allow(run: RunHandle, *, nth: int = 1) -> None:
    """Wait until the memo is to be sent, and let it be."""
    asked = await question(run, nth=nth, tool="send_memo")
    assert (await run.approve(asked, by="ana")).holds


def drafts(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.glob("draft-*.md")]


def posted() -> list[str]:
    return [line["text"] for line in lines("channel.jsonl")]


def named_in(said: object) -> set[str]:
    """The regions of the customers whose names are in it."""
    return {one.region for one in customers() if one.name in str(said)}
