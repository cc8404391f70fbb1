"""The hash that ties each record to the one before it, per run.

A record's hash covers its place, its time and the digest of its payload, not the payload itself:
so a payload can be deleted later (see `stored_runs.forgotten`) and the chain still verifies.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from pullcord.core.events import Record, decode_event
from pullcord.errors import ChainBroken

GENESIS: Final = b"\0" * 32


class Row(NamedTuple):
    """A record as it is stored. `payload` is None once it was deleted; then `digest` is there."""

    seq: int
    at_ms: int
    epoch: int
    payload: bytes | None
    digest: bytes | None  # of the payload; a store may leave it out where the payload is inline
    hash: bytes
    drift_ms: int | None = None  # None: written before records carried it


def link(
    before: bytes,
    run_id: str,
    seq: int,
    at_ms: int,
    epoch: int,
    digest: bytes,
    drift_ms: int | None,
) -> bytes:
    """Return the hash of a record that follows the one whose hash is `before`."""
    drift = b"" if drift_ms is None else b"\0%d\0" % drift_ms  # (no id has a NUL in it)
    place = b"%b%b\0%d\0%d\0%d" % (before, digest, seq, at_ms, epoch)
    return sha256(place + drift + run_id.encode()).digest()


def erased(run_id: str, rows: Sequence[Row], *, before: bytes) -> bytes:
    """Check records of a run that is forgotten, from their digests, and return the last hash.

    Raises:
        ChainBroken: one is missing, changed or swapped, or has its payload still.
    """
    for row in rows:
        if row.payload is not None:
            raise ChainBroken(run_id, seq=row.seq, why="its payload should have been deleted")
        if row.digest is None:
            raise ChainBroken(run_id, seq=row.seq, why="its payload is gone, and its digest")
        before = _followed(run_id, row, None, before=before)
    return before


def _followed(run_id: str, row: Row, payload: bytes | None, *, before: bytes) -> bytes:
    """The hash of a record, if it is the one that follows from the one before."""
    try:
        digest = row.digest if payload is None else sha256(payload).digest()
        found = link(before, run_id, row.seq, row.at_ms, row.epoch, digest or b"", row.drift_ms)
    except TypeError as error:  # damaged pages: not even of the right type
        raise ChainBroken(run_id, seq=row.seq, why=str(error)) from error
    if found != row.hash:
        why = "its hash does not follow from the one before"
        raise ChainBroken(run_id, seq=row.seq, why=why)
    return found


def opened(run_id: str, rows: Iterable[Row], *, seq: int, before: bytes) -> Iterable[Record]:
    """Yield the records in `rows`, which must follow record `seq` with hash `before`.

    Raises:
        ChainBroken: one is missing, changed, swapped or deleted.
        FormatUnknown: one is of a type this build does not know.
    """
    for row in rows:
        seq += 1
        if row.seq != seq:
            raise ChainBroken(run_id, seq=seq, why=f"record {row.seq} stands in its place")
        if row.payload is None:
            raise ChainBroken(run_id, seq=seq, why="its payload is gone, and nobody deleted it")
        before = _followed(run_id, row, row.payload, before=before)
        event = decode_event(row.payload, run_id=run_id, seq=seq)
        yield Record(run_id, seq, row.at_ms, row.epoch, event, row.drift_ms or 0)
