"""The stop log: one chain per store, over all runs. Written in the transaction of the stop itself.

An entry's hash covers its number, its time, its run and the digest of what it says, not the words:
so those of other runs can be left out of a bundle, and deleted words leave a whole chain behind.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from pullcord.core.run import Run
from pullcord.core.stops import Act, Entry, StopAsked, decode_entry, encode_entry
from pullcord.journal.clock import Clock
from pullcord.journal.store import Head, LiveText, NewStop, StopRow, Transaction, View

START: Final = b"\0" * 32
_PAGE: Final = 1000


class Noted(NamedTuple):
    """Something to be said in the log, and the record of its run that it is about."""

    act: Act
    seq: int = 0
    hash: bytes = b""


def cover(run: str, digest: bytes) -> bytes:
    """What stands for an entry whose run and words are not shown."""
    return sha256(b"%b\0%b" % (run.encode(), digest)).digest()


def next_hash(before: bytes, n: int, at_ms: int, covered: bytes) -> bytes:
    """Return the hash of entry `n`, which follows the one whose hash is `before`."""
    return sha256(b"stop\0%b%b%d\0%d" % (before, covered, n, at_ms)).digest()


def behind(last: tuple[int, bytes] | None, new: NewStop) -> StopRow:
    """Return the entry that follows the one with this number and hash. None: it is the first."""
    n, before = last or (0, START)
    hashed = next_hash(before, n + 1, new.at_ms, cover(new.run, new.digest))
    return StopRow(n + 1, *new, hashed)


def lengths(texts: Iterable[LiveText]) -> Mapping[str, int]:
    """How many characters of each part are there."""
    found: dict[str, int] = {}
    for text in texts:
        found[text.part] = max(found.get(text.part, 0), text.offset + len(text.text))
    return found


def is_asked(view: View, run_id: str, seq: int) -> bool:
    """Whether the log has a stop of this run that record `seq` asked for."""
    entries = (decode_entry(row.payload) for row in _of(view, run_id) if row.payload is not None)
    return any(entry.seq == seq and isinstance(entry.act, StopAsked) for entry in entries)


def _of(view: View, run_id: str) -> Iterator[StopRow]:
    after = 0
    while page := view.stops(after=after, limit=_PAGE, run=run_id):
        yield from page
        after = page[-1].n


def add_stops(
    tx: Transaction, clock: Clock, steady_ms: int, of: Head | Run | None, noted: Iterable[Noted]
) -> None:
    """Write these at the end of the log, in this order. `of`: the run that they are about."""
    at_ms, (boot, seconds) = clock.wall_ms(), clock.boot_time()
    run_id = "" if of is None else of.id if isinstance(of, Run) else of.run_id
    for act, seq, hashed in noted:
        entry = Entry(
            act=act,
            run=run_id,
            agent=of.agent if of else "",
            thread=of.thread if of else "",
            seq=seq,
            hash=hashed.hex(),
            steady_ms=steady_ms,
            boot=boot,
            boot_ms=round(seconds * 1000),
        )
        payload = encode_entry(entry)
        tx.add_stop(NewStop(run_id, at_ms, payload, sha256(payload).digest()))
