"""Programs of users, as files that are run: what their tools' processes make of them."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

BOUND_S = 20.0


class Ran(NamedTuple):
    """How a program ended, and what it put out."""

    status: int
    out: str
    err: str


async def run_program(folder: Path, *words: str, files: dict[str, str]) -> Ran:
    """Write these files into a folder and run Python there with these words."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return await run_python(folder, words)


async def run_python(folder: Path, words: Sequence[str]) -> Ran:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(BOUND_S):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise AssertionError("the program did not end") from None
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())
