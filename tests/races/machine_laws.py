"""What holds over all runs of a store, in the order of commit, whichever machine wrote them.

Judged from what is stored, like `laws`. The chain is checked too: a race that is lost in silence
leaves records that do not follow from one another.
"""

from collections.abc import Iterator

from pullcord.core.events import (
    CancelRequested,
    ChildEnded,
    Created,
    Forgotten,
    Record,
    StepStarted,
)
from pullcord.core.fold import evolve
from pullcord.core.run import Run
from pullcord.core.states import TERMINAL
from pullcord.core.stops import SwitchEngaged, decode_entry
from pullcord.errors import PullcordError
from pullcord.journal.store import View
from pullcord.journal.stored_runs.run_records import ALL, existing, records_of
from pullcord.journal.stored_runs.snapshots import load
from tests.races.laws import DECISIONS, ENDS, STARTS, journals_of
from tests.races.machine_stories import ALONE, BUDGET
from tests.races.scheduled_journals import ScheduledJournals


def machine_violations(scheduled: ScheduledJournals) -> list[str]:
    """Every law that this history breaks, in words."""
    found = scheduled.store.read(lambda view: list(_folds(view)))
    if found:
        return found  # no record can be judged by what it follows
    history = in_order_of_commit(scheduled)
    laws = (_cancelled_families, _ends_are_told, _budgets, _threads, _forgotten)
    found = [broken for law in laws for broken in law(history)]
    found += [*_switch_notes(scheduled), *_clocks(scheduled), *_patience(scheduled)]
    return found + scheduled.wrong


def in_order_of_commit(scheduled: ScheduledJournals) -> list[Record]:
    journals = journals_of(scheduled.store)
    places = scheduled.store.read(lambda view: view.committed(after_pos=0, limit=ALL))
    known = {(r.run_id, r.seq): r for records in journals.values() for r in records}
    return [known[run_id, seq] for _, run_id, seq in places if (run_id, seq) in known]


def _folds(view: View) -> Iterator[str]:
    """What is stored of each run follows from its first record, and is what its row says."""
    for row in view.kept(since=0, limit=ALL):
        try:
            records_of(view, row.run_id)
            load(view, existing(view, row.run_id))
        except PullcordError as error:
            yield f"chain: {error}"
    for name in view.strays(limit=1):
        yield f"chain: records of {name} have no run"


def _cancelled_families(history: list[Record]) -> Iterator[str]:
    """Nothing starts in a family behind the cancel of the run that it works for."""
    parents: dict[str, str | None] = {}
    cancelled: set[str] = set()
    for record in history:
        match record.event:
            case Created(parent=parent, detached=False):
                parents[record.run_id] = parent
            case CancelRequested():
                cancelled.add(record.run_id)
            case _:
                pass
        above = parents.get(record.run_id)
        while above is not None:
            if above in cancelled and isinstance(record.event, STARTS):
                name = type(record.event).__name__
                yield f"L4: {name} of {record.run_id} stands behind the cancel of {above}"
            above = parents.get(above)


def _ends_are_told(history: list[Record]) -> Iterator[str]:
    """A child's end is in its parent's journal, once, and no parent ends before its children."""
    parents: dict[str, str] = {}
    living: set[str] = set()
    told: list[str] = []
    for record in history:
        event, run_id = record.event, record.run_id
        if isinstance(event, Created) and event.parent and not event.detached:
            parents[run_id] = event.parent
            living.add(run_id)
        elif isinstance(event, ENDS):
            living.discard(run_id)
            if early := [child for child in living if parents[child] == run_id]:
                yield f"spans: {run_id} has ended before its child {early[0]}"
        elif isinstance(event, ChildEnded):
            told.append(event.child)
    ended = sorted(parents.keys() - living)
    if sorted(told) != ended:
        yield f"spans: the children {ended} have ended, and parents know of {sorted(told)}"


def _budgets(history: list[Record]) -> Iterator[str]:
    """Nothing is set aside where what others have set aside is all there is."""
    kept: dict[tuple[str, str], int] = {}
    for record in history:
        match record.event:
            case StepStarted(step=step, reserve=reserve) if reserve is not None:
                if sum(kept.values()) >= BUDGET:
                    yield f"limits: {step} of {record.run_id} was begun on a budget in use"
                kept[record.run_id, step] = reserve.tokens
            case event if isinstance(event, DECISIONS):
                kept.pop((record.run_id, event.step), None)
            case _:
                pass


def _threads(history: list[Record]) -> Iterator[str]:
    """Who wants to be alone on a thread is, or is not started."""
    runs: dict[str, Run] = {}
    threads: dict[str, str] = {}
    for record in history:
        run = runs.setdefault(record.run_id, Run(record.run_id))
        if isinstance(record.event, Created) and record.event.by == ALONE:
            others = (name for name, at in threads.items() if at == record.event.thread)
            for name in others:
                if runs[name].state not in TERMINAL:
                    yield f"threads: {record.run_id} was started alone beside {name}"
        if isinstance(record.event, Created) and not record.event.parent:
            threads[record.run_id] = record.event.thread
        evolve(run, record)


def _forgotten(history: list[Record]) -> Iterator[str]:
    """Nothing goes on from a run that is forgotten, and nothing is that a living run goes on from.

    (A forgotten run has but one record left that can be read.)
    """
    gone: set[str] = set()
    for record in history:
        match record.event:
            case Forgotten():
                gone.add(record.run_id)
                needs = [r for r in history[: history.index(record)] if _goes_on_from(r, record)]
                if needs:
                    yield f"retention: {record.run_id} was forgotten under {needs[0].run_id}"
            case Created(forked_from=source) if source in gone:
                yield f"retention: {record.run_id} was forked from {source}, which is forgotten"
            case _:
                pass


def _goes_on_from(record: Record, forgotten: Record) -> bool:
    """Whether a run goes on from another: no run of these stories ends behind that."""
    event = record.event
    if not isinstance(event, Created) or record.run_id == forgotten.run_id:
        return False
    return event.forked_from == forgotten.run_id or event.thread == "t1"


def _switch_notes(scheduled: ScheduledJournals) -> Iterator[str]:
    rows = scheduled.store.read(lambda view: view.stops(after=0, limit=ALL, run=""))
    acts = [decode_entry(row.payload or b"").act for row in rows]
    flags = [act.flag for act in acts if isinstance(act, SwitchEngaged)]
    if len(set(flags)) != len(flags):
        yield f"the stop log says {len(flags)} times that {flags[0]} was engaged"


def _clocks(scheduled: ScheduledJournals) -> Iterator[str]:
    """Every process reads the same time from the clock that never jumps."""
    base = scheduled.store.read(lambda view: view.boot_base("boot-1"))
    known = {process.base_ms() for process in scheduled.processes} - {0}
    if known - {base}:
        yield f"clocks: the store's begins at {base}, and processes count from {known}"


def _patience(scheduled: ScheduledJournals) -> Iterator[str]:
    """Whoever presses a button waits for locks, holding none, and is then let through at once."""
    if put_off := [times for times in scheduled.put_off if times]:
        yield f"a control was put off {put_off[0]} times"
