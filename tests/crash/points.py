"""Kills a scenario at every point."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pullcord.testing import crash_points
from pullcord.testing.crashing import Scenario, When

MODULE = "tests.crash.scenarios"


async def every_point(
    scenario: Scenario, folder: Path, pick: Callable[[int, When], bool] | None = None
) -> list[Any]:
    target = f"{MODULE}:{getattr(scenario, '__name__', '')}"
    return await asyncio.to_thread(lambda: list(crash_points(target, folder, pick=pick)))
