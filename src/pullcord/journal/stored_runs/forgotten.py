"""A run whose payloads were deleted on purpose: how it is known, checked, and who forbids it.

The act is a record of the run itself, the last one, in the same chain: so a payload that is only
missing is damage, and one that was deleted names who had it deleted, when and why.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final, TypeAlias

from pullcord.core.decide import Decision
from pullcord.core.events import Created, Forgotten, Record
from pullcord.core.forget import kept
from pullcord.core.run import Deletion
from pullcord.core.states import LIVING, TERMINAL
from pullcord.errors import ChainBroken, RunForgotten
from pullcord.journal.chain import GENESIS, Row, erased, opened
from pullcord.journal.store import Head, View

_EVERY_RUN: Final = 2**31
_PAGE: Final = 500
_BEGINS: Final = b'{"type":"forgotten"'

Needs: TypeAlias = dict[str, str]
"""Thread → a living run that goes on from what was said and done on it."""


def act_of(view: View, head: Head) -> Record | None:
    """The record that says that the run is forgotten, if it is; checked as the end of its chain.

    Raises:
        ChainBroken: something is missing that this does not account for, or is still there.
    """
    if (last := _last(view, head)) is None:
        return None
    before = GENESIS
    for rows in _pages(view, head.run_id, head.seq - 1):
        before = erased(head.run_id, rows, before=before)
    [record] = opened(head.run_id, [last], seq=head.seq - 1, before=before)
    if not isinstance(record.event, Forgotten) or record.event.state != head.state:
        raise ChainBroken(head.run_id, seq=head.seq, why=f"the run did not end as {head.state}")
    return record


def is_forgotten(view: View, head: Head) -> bool:
    """Whether its last record says so. Nothing is checked."""
    return _last(view, head) is not None


def _last(view: View, head: Head) -> Row | None:
    if head.state not in TERMINAL:
        return None
    last = view.rows(head.run_id, after_seq=head.seq - 1, limit=1)
    says_so = bool(last) and bytes(last[0].payload or b"").startswith(_BEGINS)
    return last[0] if says_so else None


def refuse_forgotten(view: View, run_id: str, *, what: str) -> None:
    """Raise unless the run, and every run that it goes on from, still has its payloads.

    Raises:
        RunForgotten: one has not.
    """
    source: str | None = run_id
    while source is not None and (head := view.head(source)):
        if act := act_of(view, head):
            assert isinstance(act.event, Forgotten)
            deleted = Deletion(act.event.by, act.event.reason, act.at_ms)
            raise RunForgotten(source, deleted=str(deleted), what=what)
        source = _source_of(view, source)


def digests_of(view: View, head: Head) -> list[bytes]:
    """The digests of all payloads of a run, each checked against the chain: what is damaged is
    evidence, and is not deleted.

    Raises:
        ChainBroken: it is damaged.
    """
    digests: list[bytes] = []
    seq, before = 0, GENESIS
    for rows in _pages(view, head.run_id, head.seq):
        for record in opened(head.run_id, rows, seq=seq, before=before):
            seq = record.seq
        before = rows[-1].hash
        digests += [sha256(row.payload or b"").digest() for row in rows]
    if before != head.hash:
        raise ChainBroken(head.run_id, seq=seq, why="the last record is missing")
    return digests


def needs_of(view: View) -> Needs:
    """What living runs go on from: the thread of each, and of each run that it was forked from."""
    needs: Needs = {}
    for living in view.heads(states=LIVING, thread=None, before=None, limit=_EVERY_RUN):
        head: Head | None = living
        while head is not None:
            needs.setdefault(head.thread, living.run_id)
            source = _source_of(view, head.run_id)
            head = view.head(source) if source else None
    return needs


def still_held(head: Head) -> Decision:
    why = f"the process {head.holder.owner} has not let go of it yet"
    return kept(head.run_id, head.seq, "held", why, "Try again in a moment.")


def still_needed(head: Head, needs: Needs) -> Decision | None:
    """Why a living run cannot do without what was said and done in this one, if it cannot."""
    if (living := needs.get(head.thread)) is None:
        return None
    why = f"run {living}, which has not ended, goes on from what was said and done on its thread"
    return kept(
        head.run_id,
        head.seq,
        "needed",
        why,
        f"When that has ended, or end it: pullcord cancel {living}",
    )


def _source_of(view: View, run_id: str) -> str | None:
    """The run that it was forked from, or is an aside to."""
    [first] = opened(run_id, view.rows(run_id, after_seq=0, limit=1), seq=0, before=GENESIS)
    assert isinstance(first.event, Created)
    return first.event.forked_from


def _pages(view: View, run_id: str, last_seq: int) -> Iterator[list[Row]]:
    """The records up to `last_seq`, a few at a time: a run may be larger than the memory."""
    for seq in range(0, last_seq, _PAGE):
        if rows := view.rows(run_id, after_seq=seq, limit=min(_PAGE, last_seq - seq)):
            yield rows
