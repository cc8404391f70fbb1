"""From stored rows to a run: from its snapshot where that is sound, else from the first record.

A snapshot is a cache. It counts for nothing unless it fits the records, and may be deleted.
"""

from hashlib import sha256

import msgspec

from pullcord.core.fold import evolve
from pullcord.core.run import SNAPSHOT_FORMAT, Run
from pullcord.errors import ChainBroken, ImpossibleEvent
from pullcord.journal.chain import GENESIS, opened
from pullcord.journal.store import Head, Snapshot, Transaction, View
from pullcord.journal.stored_runs.forgotten import act_of

SNAPSHOT_EVERY = 200


def load(view: View, head: Head) -> Run:
    """Return the run at `head`, from its snapshot where that is sound, else from its first record.

    Raises:
        ChainBroken: the records contradict themselves.
        FormatUnknown: a newer build wrote to this run.
    """
    if act := act_of(view, head):
        run = Run(head.run_id)
        evolve(run, act)
        return _fits(head, run, head.hash)
    if head.seq >= SNAPSHOT_EVERY and (kept := view.snapshot(head.run_id)):
        try:
            return fold_to(view, head, _restore(head.run_id, kept), kept.hash)
        except (ChainBroken, ImpossibleEvent, msgspec.DecodeError):
            pass  # a cache: if it does not fit the records, only the records count
    return fold_to(view, head, Run(head.run_id), GENESIS)


def fold_to(view: View, head: Head, run: Run, digest: bytes) -> Run:
    if run.seq < head.seq:
        rows = view.rows(head.run_id, after_seq=run.seq, limit=head.seq - run.seq)
        for record in opened(head.run_id, rows, seq=run.seq, before=digest):
            evolve(run, record)
        digest = rows[-1].hash if rows else digest
    return _fits(head, run, digest)


def _fits(head: Head, run: Run, digest: bytes) -> Run:
    if run.seq != head.seq or digest != head.hash:
        why = f"it leads to record {run.seq}, not to the last one, {head.seq}"
        raise ChainBroken(head.run_id, seq=run.seq, why=why)
    if (run.state, run.epoch) != (head.state, head.epoch):
        why = f"it leads to {run.state} in epoch {run.epoch}, and more was there before"
        raise ChainBroken(head.run_id, seq=run.seq, why=why)
    return run


def keep(tx: Transaction, run: Run, digest: bytes) -> None:
    try:
        data = msgspec.msgpack.encode(run)
    except (OverflowError, ValueError):
        return  # a cache: a run that cannot be cached is still a run
    sealed = sha256(data).digest() + data
    tx.put_snapshot(run.id, Snapshot(run.seq, digest, SNAPSHOT_FORMAT, sealed))


def _restore(run_id: str, kept: Snapshot) -> Run:
    seal, data = kept.data[:32], kept.data[32:]
    if kept.format != SNAPSHOT_FORMAT or sha256(data).digest() != seal:
        raise ChainBroken(run_id, seq=kept.seq, why="its snapshot is of another format or damaged")
    run = msgspec.msgpack.decode(data, type=Run)
    if run.id != run_id or run.seq != kept.seq:
        raise ChainBroken(run_id, seq=kept.seq, why="its snapshot is of another record")
    return run
