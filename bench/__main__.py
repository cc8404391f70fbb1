"""Measure everything and print one table. Exits with 1 if a target is not reached."""

import asyncio
import os
import platform
import sys
import tempfile
from pathlib import Path

import apsw

from bench import (
    agents,
    blocking,
    commits,
    controls,
    guards,
    page,
    reading,
    scale,
    secrets,
    serving,
    stoplog,
    tools,
    top,
    verbs,
)


async def main() -> int:
    print(
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, "
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}\n"
    )
    print("| what | measured | target | over | |\n|---|--:|--:|---|---|")
    missed = 0
    themes = (
        commits,
        controls,
        reading,
        scale,
        verbs,
        tools,
        agents,
        blocking,
        guards,
        secrets,
        stoplog,
        serving,
        page,
        top,
    )
    for theme in themes:
        with tempfile.TemporaryDirectory(dir=os.environ.get("PULLCORD_BENCH_DIR")) as folder:
            for figure in await theme.measure(Path(folder)):
                print(figure.row(), flush=True)
                missed += not figure.reached
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
