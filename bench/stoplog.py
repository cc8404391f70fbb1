"""How fast a store is checked: the chain of the stop log, and those of its runs."""

import time
from pathlib import Path

from bench.figures import Figure, p50
from bench.runs import add, born, steps
from pullcord.core.commands import Pause, Resume
from pullcord.core.events import Created
from pullcord.journal.evidence.anchor import AnchorFile, anchor_of
from pullcord.journal.evidence.verify import VerifyReport, verify
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Order
from pullcord.journal.sqlite.read_only import looking_at

RUNS = 1000
STOPS = 10  # of each: asked for and in effect
STEPS = 10_000
ROUNDS = 5


async def measure(folder: Path) -> list[Figure]:
    return [await _the_stop_log(folder / "stops.db"), await _the_records(folder / "records.db")]


async def _the_stop_log(path: Path) -> Figure:
    """Runs that were paused again and again, a thousand in each commit."""
    names = [f"run-{number}" for number in range(RUNS)]
    async with Journal.open(path) as journal:
        made = {name: Created(agent="churn", thread=name) for name in names}
        await journal.append(
            *(Append(run_id=name, events=[made[name]], expected_seq=0) for name in names)
        )
        for _ in range(STOPS):
            await journal.append(*(Order(name, Pause(by="ana", reason="why")) for name in names))
            await journal.append(*(Order(name, Resume(by="ana")) for name in names))
    took, report = _checked(path, "run-0")
    over = f"p50 of {ROUNDS} checks of {report.stops:,} entries, each also against its run"
    return Figure("entries of the stop log verified", report.stops / took, 50_000, "/s", over, True)


async def _the_records(path: Path) -> Figure:
    async with Journal.open(path) as journal:
        await born(journal, "r1")
        pairs = list(steps(STEPS))
        for first in range(0, STEPS, 500):
            events = [event for pair in pairs[first : first + 500] for event in pair]
            await add(journal, "r1", 2 + 2 * first, *events)
    took, report = _checked(path, None)
    over = f"p50 of {ROUNDS} checks of {report.records:,} records of one run"
    return Figure("records verified", report.records / took, 50_000, "/s", over, True)


def _checked(path: Path, run: str | None) -> tuple[float, VerifyReport]:
    samples: list[float] = []
    report = VerifyReport(broken=[])
    for _ in range(ROUNDS):
        began = time.perf_counter()
        anchor = AnchorFile(anchor_of(path))
        with looking_at(path) as view:
            report = verify(view, anchor, run=run)
        samples.append(time.perf_counter() - began)
        assert not report.broken
    return p50(samples), report
