"""The tour says that nothing is in flight when all that has led there was told, however slowly."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pullcord.cli.commands.tour import Tour
from pullcord.core.events import PauseRequested, Record
from pullcord.core.states import RunState


class _Slow:
    """A run whose pause is heard of only when it has long been in effect."""

    def __init__(self, run: Any) -> None:
        self._run = run

    async def events(self) -> AsyncGenerator[Any]:
        async for cursor, item in self._run.events():
            if isinstance(item, Record) and isinstance(item.event, PauseRequested):
                await self._run.wait_for(RunState.PAUSED)
                for _ in range(1000):
                    await asyncio.sleep(0)  # everybody else is faster
            yield cursor, item


class _SlowTour(Tour):
    async def _tell(self, run: Any) -> None:
        await super()._tell(_Slow(run))  # pyright: ignore[reportArgumentType]


async def test_what_has_happened_stands_before_what_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await _SlowTour(pace=0.02).play(str(tmp_path / "runs.db"))
    told = capsys.readouterr().out
    places = [
        told.index(words)
        for words in (
            "ana presses Pause → applied",
            "✓ 1,198 matched",
            "‖ Paused by ana",
            "ana presses Redirect → applied",
            "- next  Score churn risk",
            "ana presses Resume → applied",
        )
    ]
    assert places == sorted(places)


async def test_an_item_whose_step_has_finished_is_not_shown_as_held(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await Tour(pace=0.02).play(str(tmp_path / "runs.db"))
    told = capsys.readouterr().out
    assert "  ✓ 2 Join MRR table\n  ○ 3 Score churn risk\n" in told
    assert "‖ 2" not in told
