"""How long a control verb takes, as a person waits for it: a whole process, start to exit."""

import subprocess
import sys
import time
from pathlib import Path

from bench.figures import Figure, p50
from bench.runs import born
from pullcord.journal.journal import Journal

SAMPLES = 30
PULLCORD = Path(sys.executable).with_name("pullcord")  # as a person starts it


async def measure(folder: Path) -> list[Figure]:
    store = folder / "runs.db"
    async with Journal.open(store) as journal:
        for number in range(SAMPLES):
            await born(journal, f"r{number}")
    bare: list[float] = []
    verbs: dict[str, list[float]] = {"pause": [], "cancel": []}
    _timed(str(PULLCORD), "show", "r0", "--store", str(store))  # the disk has been read once
    for number in range(SAMPLES):  # in turns, so that all of them meet the same machine
        bare.append(_timed("-c", "import msgspec, apsw"))
        for verb, samples in verbs.items():
            samples.append(_timed(str(PULLCORD), verb, f"r{number}", "--store", str(store)))
    over = f"{SAMPLES} processes each, in turns"
    figures: list[Figure] = []
    for verb, samples in verbs.items():
        ratio = p50(samples) / p50(bare)
        figures.append(Figure(f"`pullcord {verb} RUN`, p50", p50(samples), 0.35, "s", over))
        figures.append(Figure(f"{verb} against `import msgspec, apsw`", ratio, 2, "×", over))
    return figures


def _timed(*words: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
