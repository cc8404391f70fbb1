"""Promise: an undo is neither skipped nor doubled, whenever the process dies.

A process that cancels and undoes a run is killed before, inside and after each of its writes.
Another takes over and goes on. What was really done and undone stands in a book outside: everything
that was done is gone or pointed out, newest first, and an undo is called again only if nobody could
know whether it had happened; one that must not happen twice is not called again even then.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from pathlib import Path
from typing import Final, cast

import pytest

import pullcord
from pullcord import Record, Run, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import CancelRequested, StepStarted, UndoRequested, UndoStarted
from pullcord.core.fold import replay
from pullcord.core.states import TERMINAL
from pullcord.core.undo import undo_item
from pullcord.core.values import load
from pullcord.errors import RunNotFound
from pullcord.journal.journal import Journal
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.testing import crash_points
from pullcord.testing.crashing import CrashReport, Scenario, When
from tests.conftest import FULL
from tests.promises.undo_lives import AGENTS, BOUND_S, SCENARIOS, book_of, not_undone
from tests.promises.undo_plants import PLANTED, Plant
from tests.runs.undo_tools import read

LIVES: Final = "tests.promises.undo_lives"
SAMPLED: Final = 0.12
Line = tuple[str, str]  # the name in the book, and the key of the call


ONCE: Final = ("grant", "lend")  # what they do must not be undone twice


async def deaths(name: str, folder: Path, *, every: bool) -> AsyncGenerator[CrashReport]:
    """What each process left that was killed in this scenario, as soon as it is dead."""
    seed = random.Random(name)

    def pick(_at: int, _when: When) -> bool:
        return every or seed.random() < SAMPLED

    points = crash_points(f"{LIVES}:{name}", folder, pick=pick)
    try:
        while report := await asyncio.to_thread(next, points, None):
            yield report
    finally:
        cast("Generator[CrashReport]", points).close()


@pytest.mark.campaign
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda given: given.__name__)
async def test_whenever_it_dies_everything_is_undone_once_and_in_order(
    scenario: Scenario, tmp_path: Path
) -> None:
    name = getattr(scenario, "__name__", "")
    count = 0
    async with aclosing(deaths(name, tmp_path, every=FULL)) as reports:
        async for report in reports:
            count += 1
            try:
                await Aftermath(report, name).is_as_it_must_be()
            except BaseException as error:
                error.add_note(f"{name}: killed {report.when} write {report.at}; {report.path}")
                raise
    print(f"{count} deaths, 0 skipped, 0 doubled, 0 out of order, 0 hidden")


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("plant", "name"),
    PLANTED if FULL else PLANTED[:2],
    ids=lambda it: getattr(it, "__name__", "in"),
)
async def test_a_planted_bug_is_found(
    plant: Callable[[Plant], None], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDO_PLANT", getattr(plant, "__name__", ""))
    plant(monkeypatch.setattr)
    for search in ("once", "twice"):  # a death inside a write is on either side of it
        (tmp_path / search).mkdir()
        async with aclosing(deaths(name, tmp_path / search, every=True)) as reports:
            async for report in reports:
                try:
                    await Aftermath(report, name).is_as_it_must_be(within_s=5)
                except (AssertionError, TimeoutError) as found:
                    print(f"killed {report.when} write {report.at}: {found!r}")
                    return
    pytest.fail("it died at every write, and nothing is wrong")


class Aftermath:
    """What a dead process left: a store, and a book of what it had really done."""

    def __init__(self, report: CrashReport, name: str) -> None:
        self.path, self.name, self.told = report.path, name, report.acked
        self.book = book_of(report.path)

    async def is_as_it_must_be(self, within_s: float = BOUND_S) -> None:
        async with Journal.open(self.path) as journal:
            at_death = await everything(journal)
        book_at_death = read(self.book)
        self.assert_nothing_was_begun_without_an_intent(at_death, book_at_death)
        timing = Timing(stop_grace_s=0.1, quiet_s=0.005)
        async with (
            asyncio.timeout(within_s),
            pullcord.open(self.path, agents=AGENTS, timing=timing) as runtime,
        ):
            await self._come_to_the_end(runtime)
            at_the_end = await everything(runtime.journal)
        assert bool(at_the_end) or not read(self.book)
        for run_id, records in at_the_end.items():
            before = at_death.get(run_id, [])
            assert records[: len(before)] == before, "what was durable has changed"
            now, then = replay(run_id, records), replay(run_id, before)
            self.assert_nothing_is_skipped(now)
            self.assert_nothing_is_doubled(now, then, records)
            self.assert_the_newest_came_first(now)
            self.assert_what_failed_is_pointed_out(now)
        self.assert_the_newest_of_the_family_came_first(at_the_end)
        self.assert_what_was_held_is_released_last()

    # --- whoever takes over, and the person ---

    async def _come_to_the_end(self, runtime: Runtime) -> None:
        try:
            run = await runtime.get("r1")
        except RunNotFound:
            return  # it had not even begun
        async with aclosing(run.events()) as events:
            async for _ in events:
                await self._cancel(run, await run.snapshot())
        await run.wait_for(*TERMINAL)
        if self.name == "undone_later" and not any(
            isinstance(record.event, UndoRequested) for record in await runtime.journal.read("r1")
        ):
            assert (await run.undo(by="operator")).holds
        while self.name == "tried_again" and (step := await not_undone(run)):
            assert (await run.undo(step, by="operator")).holds
        await run.receipt()
        assert (await run.snapshot()).state is RunState.CANCELLED

    async def _cancel(self, run: RunHandle, now: Run) -> None:
        """Cancel it where it asks, or hangs, or where its child asks, if nobody has yet."""
        is_stuck = any(now.steps[step].name == "stick" for step in now.open_steps())
        is_waiting = now.open_questions() or now.state is RunState.WAITING
        if now.cancel is None and (is_waiting or is_stuck):
            await run.cancel(by="operator", undo=self.name != "undone_later")

    # --- the laws ---

    def lines(self, what: str) -> list[Line]:
        return [(name, key) for kind, name, key, *_ in read(self.book) if kind == what]

    def assert_nothing_was_begun_without_an_intent(
        self, at_death: dict[str, list[Record]], book: list[list[str]]
    ) -> None:
        intents = Counter(
            f"{run_id}-{record.event.step}"
            for run_id, records in at_death.items()
            for record in records
            if isinstance(record.event, UndoStarted)
        )
        called = Counter(key for what, _, key, *_ in book if what == "undo")
        assert called <= intents, "undone before the intent was durable"
        if any(line.startswith("cancel") for line in self.told):
            events = [record.event for record in at_death["r1"]]
            assert any(isinstance(event, CancelRequested) for event in events), "cancel forgotten"

    def assert_nothing_is_skipped(self, run: Run) -> None:
        undone = {key for _, key in self.lines("undo")}
        made = {key for _, key in self.lines("do")}
        for step, known in run.steps.items():
            key = f"{run.id}-{step}"
            if key in made:
                assert known.undo in ("undone", "failed"), f"{step} is still there: {known}"
            if known.undo == "undone":
                assert key in undone or key not in made, f"{step} is called undone, and is not"

    def assert_nothing_is_doubled(self, run: Run, then: Run, records: list[Record]) -> None:
        calls = Counter(key for _, key in self.lines("undo"))
        made = Counter(key for _, key in self.lines("do"))
        starts = Counter(r.event.step for r in records if isinstance(r.event, UndoStarted))
        fails = {
            record.event.step: load(record.event.args).get("fails", 0)
            for record in records
            if isinstance(record.event, StepStarted)
        }
        for step, known in run.steps.items():
            key = f"{run.id}-{step}"
            assert made[key] <= 1, f"{step} was done {made[key]} times"
            assert calls[key] <= starts[step], f"{step} was undone more often than was meant"
            was_cut = step in then.steps and then.steps[step].undo == "started"
            succeeded = max(calls[key] - fails[step], 0)
            assert succeeded <= 1 + was_cut, f"{step} was undone {succeeded} times"
            if known.tool in ONCE:
                assert calls[key] <= 1, f"{step} must be undone once, and was {calls[key]} times"

    def assert_the_newest_came_first(self, run: Run) -> None:
        ages = {
            f"{run.id}-{step}": max(known.decided_seq, known.late_seq)
            for step, known in run.steps.items()
        }
        order = [ages[key] for _, key in self.lines("undo") if key in ages]
        if self.name == "tried_again":  # what is tried again by a person comes after the others
            order = order[: order.index(min(order)) + 1]
        assert order == sorted(order, reverse=True), f"undone in the order {order}"

    def assert_what_failed_is_pointed_out(self, run: Run) -> None:
        for step, known in run.steps.items():
            text = run.attention.get(undo_item(step), "")
            if known.undo == "failed":
                assert f"pullcord undo {run.id} {step}" in text, "a failure that nobody is shown"
            else:
                assert not text, "something is pointed out that is undone"
            if known.undo == "undone":
                assert step not in run.attention, "a doubt about what is undone"

    def assert_the_newest_of_the_family_came_first(self, runs: dict[str, list[Record]]) -> None:
        """A child works beside its parent: what was done last, by whomever, is undone first."""
        done = {
            f"{run_id}-{step}": (run_id, max(known.decided_seq, known.late_seq))
            for run_id, records in runs.items()
            for step, known in replay(run_id, records).steps.items()
        }
        store = SqliteStore(self.path)
        try:
            places = store.read(lambda view: view.places(list(done.values())))
        finally:
            store.close()
        when = dict(zip(done, places, strict=True))
        order = [when[key] for _, key in self.lines("undo")]
        if self.name != "tried_again":  # what is tried again by a person comes after the others
            assert order == sorted(order, reverse=True), self.lines("undo")

    def assert_what_was_held_is_released_last(self) -> None:
        kinds = [kind for kind, *_ in read(self.book)]
        if "release" in kinds:
            assert set(kinds[kinds.index("release") :]) == {"release"}
        elif self.name == "with_something_deferred":
            assert not kinds, "what was held is not released"


async def everything(journal: Journal) -> dict[str, list[Record]]:
    heads = await journal.runs(limit=100)
    return {head.run_id: await journal.read(head.run_id) for head in heads}
