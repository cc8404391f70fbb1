"""Measure everything, or the themes that are named, and print one table.

Exits with 1 if a target is not reached.
"""

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
    distance,
    guards,
    killswitch,
    leases,
    page,
    postgres,
    reading,
    scale,
    secrets,
    serving,
    starts,
    stoplog,
    tools,
    top,
    verbs,
)

THEMES = {
    theme.__name__.removeprefix("bench."): theme
    for theme in (
        commits,
        postgres,
        distance,
        controls,
        reading,
        scale,
        verbs,
        tools,
        agents,
        starts,
        blocking,
        guards,
        secrets,
        stoplog,
        killswitch,
        leases,
        serving,
        page,
        top,
    )
}


async def main() -> int:
    print(
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, "
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}\n"
    )
    print("| what | measured | target | over | |\n|---|--:|--:|---|---|")
    missed = 0
    named = sys.argv[1:]
    for theme in (one for name, one in THEMES.items() if name in named or not named):
        with tempfile.TemporaryDirectory(dir=os.environ.get("PULLCORD_BENCH_DIR")) as folder:
            for figure in await theme.measure(Path(folder)):
                print(figure.row(), flush=True)
                missed += not figure.reached
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
