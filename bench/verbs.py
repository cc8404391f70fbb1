"""How long a control verb takes, as a person waits for it: a whole process, start to exit."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.figures import Figure, p50
from bench.runs import born
from pullcord.journal.journal import Journal

SAMPLES = 30
PULLCORD = Path(sys.executable).with_name("pullcord")  # as a person starts it


async def measure(folder: Path) -> list[Figure]:
    store = folder / "runs.db"
    async with Journal.open(store) as journal:
        for number in range(2 * SAMPLES):
            await born(journal, f"r{number}")
    bare: list[float] = []
    verbs: dict[str, list[float]] = {"pause": [], "cancel": []}
    with _served(store) as (url, token):
        abroad = os.environ | {"PULLCORD_TOKEN": token}
        _timed(str(PULLCORD), "show", "r0", "--store", str(store))  # the disk has been read once
        for number in range(SAMPLES):  # in turns, so that all of them meet the same machine
            bare.append(_timed("-c", "import msgspec, apsw"))
            for verb in ("pause", "cancel"):
                here = [str(PULLCORD), verb, f"r{number}", "--store", str(store)]
                there = [str(PULLCORD), verb, f"r{SAMPLES + number}", "--server", url]
                verbs[verb].append(_timed(*here))
                verbs.setdefault(f"{verb} --server", []).append(_timed(*there, env=abroad))
    over = f"{SAMPLES} processes each, in turns"
    figures: list[Figure] = []
    for verb, samples in sorted(verbs.items()):
        ratio = p50(samples) / p50(bare)
        figures.append(Figure(f"`pullcord {verb} RUN`, p50", p50(samples), 0.35, "s", over))
        figures.append(Figure(f"{verb} against `import msgspec, apsw`", ratio, 2, "×", over))
    return figures


@contextmanager
def _served(store: Path) -> Generator[tuple[str, str]]:
    """A server of this store, in a process of its own, and a token for it."""
    words = [sys.executable, str(PULLCORD)]
    serve = [*words, "serve", "--port", "0", "--json", "--store", str(store)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout
            url: str = json.loads(process.stdout.readline())["url"].partition("/#")[0]
            grant = [*words, "grant", "bench", "--right", "control", "--store", str(store)]
            yield url, subprocess.check_output(grant, text=True).strip()
        finally:
            process.terminate()


def _timed(*words: str, env: dict[str, str] | None = None) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=env)
    return time.perf_counter() - began
