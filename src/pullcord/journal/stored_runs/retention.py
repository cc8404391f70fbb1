"""Which runs are meant when somebody asks to forget: by name, age, thread, or who started them."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from pullcord.core.commands import Forget
from pullcord.core.forget import forget
from pullcord.core.run import Run
from pullcord.core.states import TERMINAL, RunState
from pullcord.core.undo import may_be_asked_to_undo, would_undo
from pullcord.journal.store import Head, View
from pullcord.journal.stored_runs.forgotten import Needs, is_forgotten, needs_of, still_needed
from pullcord.journal.stored_runs.run_records import existing, first_of
from pullcord.journal.stored_runs.snapshots import load

_EVERY_RUN: Final = 2**31


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Whose payloads are to be deleted. What is left out is not asked for; all that is counts."""

    runs: tuple[str, ...] = ()
    ended_before_ms: int | None = None  # wall clock
    states: frozenset[RunState] = TERMINAL
    thread: str | None = None
    of: str | None = None  # who started them

    @property
    def is_policy(self) -> bool:
        """Nobody and nothing is named: then what is kept as evidence is left alone."""
        return not (self.runs or self.thread or self.of)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is meant. `kept`: why it cannot be forgotten now, and what to do about that."""

    run: str
    agent: str
    thread: str
    state: RunState
    ended_at_ms: int
    records: int
    bytes: int
    forks: tuple[str, ...] = ()  # runs that were given the same input, and are not meant
    undoable: int = 0  # steps that nobody can undo afterwards
    kept: str = ""


def candidates(view: View, wanted: Wanted) -> list[Candidate]:
    """Everything that is meant and is not forgotten yet, oldest first, with the children of each.

    Raises:
        RunNotFound: a run that is named is not there.
    """
    meant = {head.run_id: head for head in _meant(view, wanted)}
    for run_id in list(meant):
        for child in _children(view, run_id):
            meant.setdefault(child.run_id, child)
    needs, forks = needs_of(view), _forks(view)
    found = [
        _candidate(view, head, wanted, needs, [f for f in forks.get(run_id, ()) if f not in meant])
        for run_id, head in meant.items()
    ]
    return sorted(found, key=lambda one: (one.ended_at_ms, one.run))


def _meant(view: View, wanted: Wanted) -> Iterator[Head]:
    if wanted.runs:
        for run_id in wanted.runs:
            head = existing(view, run_id)
            if not is_forgotten(view, head):
                yield head
        return
    asked_for = view.heads(
        states=wanted.states, thread=wanted.thread, before=None, limit=_EVERY_RUN
    )
    for head in asked_for:
        is_old = wanted.ended_before_ms is None or head.updated_at_ms <= wanted.ended_before_ms
        if not is_old or is_forgotten(view, head):
            continue
        if wanted.of is None or first_of(view, head.run_id).by == wanted.of:
            yield head


def _children(view: View, run_id: str) -> Iterator[Head]:
    """Those who worked for it, and for them: what they did was done for it."""
    names = list(load(view, existing(view, run_id)).children)
    while names:
        head = view.head(names.pop())
        if head is not None and not is_forgotten(view, head):
            yield head
            names += load(view, head).children


def _forks(view: View) -> dict[str, list[str]]:
    """Who was forked from whom, as far as that is known."""
    found: dict[str, list[str]] = {}
    for head in view.heads(states=RunState, thread=None, before=None, limit=_EVERY_RUN):
        if not is_forgotten(view, head) and (source := first_of(view, head.run_id).forked_from):
            found.setdefault(source, []).append(head.run_id)
    return found


def _candidate(
    view: View, head: Head, wanted: Wanted, needs: Needs, forks: Iterable[str]
) -> Candidate:
    run = load(view, head)
    decision = forget(run, Forget(by="nobody"))
    if decision.events:
        decision = still_needed(head, needs) or decision
    kept = decision.message or (_evidence(run) if wanted.is_policy else "")
    return Candidate(
        run=head.run_id,
        agent=head.agent,
        thread=head.thread,
        state=head.state,
        ended_at_ms=head.updated_at_ms,
        records=head.seq,
        bytes=view.weight(head.run_id),
        forks=tuple(forks),
        undoable=len(would_undo(run)) if may_be_asked_to_undo(run) else 0,
        kept=kept,
    )


def _evidence(run: Run) -> str:
    if not run.is_quarantined:
        return ""
    return (
        f"Run {run.id} is quarantined: it is kept as evidence until somebody names it. Nothing of "
        f"it was deleted. If that is meant: pullcord forget {run.id}"
    )
