"""Checks every chain of a store, and what was noted of it outside. Reads only; needs no server.

Everything is read in pages: memory does not grow with the store.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from pullcord.core.stops import PayloadsForgotten, decode_entry
from pullcord.journal.chain import GENESIS, Row, link
from pullcord.journal.evidence.anchor import (
    Anchored,
    AnchorFile,
    anchored,
    begins_with,
    may_be_torn,
    read_line,
)
from pullcord.journal.evidence.expected_row import ExpectedRow
from pullcord.journal.evidence.stoplog import START, cover, next_hash
from pullcord.journal.store import Kept, StopRow, View

_PAGE: Final = 1000
_BROKEN_MAX: Final = 20
_FIRST: Final = -(2**63)  # no row is before it, whoever has numbered them


class Broken(msgspec.Struct, frozen=True):
    """The first thing that is wrong in one chain, and what is true up to there."""

    where: str  # "stop log", "anchor", or a run: its id, or "number N" if that is gone
    at: int  # the number of the entry, line or record; 0: of a run its row, which finds it
    why: str
    holds: int  # so many before it are as they were written


class VerifyReport(msgspec.Struct, kw_only=True):
    """What was checked, and what of it is wrong: nothing, if `broken` is empty."""

    stops: int = 0
    head: str = ""  # the last entry, as a line of the anchor
    records: int = 0
    runs: int = 0
    anchor: str = ""  # the path of it; empty: there is none
    lines: int = 0
    newest: int = 0  # the latest entry that it names
    torn: int = 0  # lines that were never written to their end
    forgotten: int = 0  # entries and records whose words were deleted, which the log says
    broken: list[Broken] = []


class _Claim(msgspec.Struct):
    """As much of an entry as is checked against the run that it is about."""

    run: str = ""
    seq: int = 0
    hash: str = ""


class _Wrong(Exception):
    def __init__(self, at: int, why: str, *, holds: int | None = None) -> None:
        super().__init__(why)
        self.at, self.why = at, why
        self.holds = at - 1 if holds is None else holds


_Acts: TypeAlias = dict[str, _Claim]
"""Run → the record that says that it is forgotten, by the entry of the log."""

_claim: Final = msgspec.json.Decoder(_Claim)


def verify(view: View, anchor: AnchorFile, *, run: str | None = None) -> VerifyReport:
    """Check the stop log, its anchor, and the records of all runs, or of one."""
    report, forgotten = VerifyReport(broken=[]), _Acts()
    good = _check_stops(view, report, forgotten)
    is_whole = not report.broken
    _check_anchor(view, anchor, report, good)
    for row in _runs(view, run):
        try:
            act = forgotten.get(row.run_id) or (None if is_whole else _own_act(view, row.run_id))
            _check_run(view, row, report, act)
        except _Wrong as wrong:
            report.broken.append(Broken(row.run_id, wrong.at, wrong.why, wrong.holds))
            if len(report.broken) >= _BROKEN_MAX:
                return report
        report.runs += 1
    for name in view.strays(limit=_BROKEN_MAX - len(report.broken)) if run is None else ():
        why = "it has records, and what they are found by is gone"
        report.broken.append(Broken(name, 0, why, 0))
    return report


# --- the stop log ---------------------------------------------------------------------------------


def _check_stops(view: View, report: VerifyReport, forgotten: _Acts) -> int:
    """Return the number of the last entry that is as it was written."""
    blank: dict[str, int] = {}  # run → its first entry whose words are gone
    try:
        last = _follow_stops(view, report, forgotten, blank)
        if last:
            report.head = str(anchored(last))
        for run, n in blank.items():
            if run not in forgotten:
                raise _Wrong(n, "what it said is gone, and no entry says that it was deleted")
    except _Wrong as wrong:
        report.broken.append(Broken("stop log", wrong.at, wrong.why, wrong.holds))
        report.stops = wrong.at - 1
    return report.stops


def _follow_stops(
    view: View, report: VerifyReport, forgotten: _Acts, blank: dict[str, int]
) -> StopRow | None:
    before, row = START, None
    while page := view.stops(after=report.stops, limit=_PAGE):
        claims: list[tuple[int, _Claim]] = []
        try:
            for row in page:
                n = report.stops + 1
                before = _next_stop(row, n, before)
                report.stops = n
                if row.payload is None:
                    if row.run in forgotten:
                        raise _Wrong(n, "what it said is gone, and was said behind the deletion")
                    blank.setdefault(row.run, n)
                    report.forgotten += 1
                else:
                    claims.append((n, _claimed(n, row.payload)))
                    if b'"what":"forgotten"' in row.payload and _is_act(row.payload):
                        forgotten[row.run] = claims[-1][1]
        finally:  # also if the chain ends within this page: what is wrong before that comes first
            _check_claims(view, claims)
    return row


def _next_stop(row: StopRow, n: int, before: bytes) -> bytes:
    if row.n != n:
        raise _Wrong(n, f"entry {row.n} stands in its place")
    if row.payload is not None and sha256(row.payload).digest() != row.digest:
        raise _Wrong(n, "it does not say what it said when it was written")
    after = next_hash(before, n, row.at_ms, cover(row.run, row.digest))
    if after != row.hash:
        raise _Wrong(n, "its hash does not follow from the entry before")
    return after


def _claimed(n: int, payload: bytes) -> _Claim:
    try:
        return _claim.decode(payload)
    except msgspec.DecodeError:
        raise _Wrong(n, "it is nothing that pullcord has written") from None


def _check_claims(view: View, claims: Sequence[tuple[int, _Claim]]) -> None:
    """A run's own records, up to the one that an entry is about, are vouched for by the log."""
    about = [(n, claim) for n, claim in claims if claim.seq]
    found = view.hashes_of([(claim.run, claim.seq) for _, claim in about])
    for (n, claim), hash_ in zip(about, found, strict=True):
        if hash_ is None:
            raise _Wrong(n, f"record {claim.seq} of run {claim.run}, which it is about, is gone")
        if hash_.hex() != claim.hash:
            raise _Wrong(n, f"record {claim.seq} of run {claim.run} is not the one it is about")


def _is_act(payload: bytes) -> bool:
    """Whether it says that the run which it is about was forgotten."""
    entry = decode_entry(payload)
    return isinstance(entry.act, PayloadsForgotten) and entry.act.runs == (entry.run,)


# --- the anchor -----------------------------------------------------------------------------------


def _check_anchor(view: View, anchor: AnchorFile, report: VerifyReport, good: int) -> None:
    if not anchor.is_there:
        return
    report.anchor = str(anchor.path)
    for number, text, is_whole in anchor.lines():
        try:
            said = _check_line(view, number, text, is_whole, good, report.stops)
        except _Wrong as wrong:
            report.broken.append(Broken("anchor", wrong.at, wrong.why, wrong.holds))
            return
        report.lines += 1
        if said is None:
            report.torn += 1
        else:
            report.newest = max(report.newest, said.n)


def _check_line(
    view: View, number: int, text: str, is_whole: bool, good: int, last: int
) -> Anchored | None:
    """What the line says. None: it was never written to its end."""
    said, found = read_line(text), _entry(view, begins_with(text))
    if may_be_torn(text, found) or (not is_whole and text == str(found)):
        return None
    if said is None or not is_whole:
        raise _Wrong(number, "it is not a line that pullcord has written")
    if found is None and good == last:
        raise _Wrong(
            number,
            f"it names entry {said.n}, and the stop log ends with {last}: what came behind is gone",
        )
    if said.n <= good and found != said:
        raise _Wrong(number, f"it names another entry {said.n} than the one in the stop log")
    return said


def _entry(view: View, n: int) -> Anchored | None:
    found = view.stops(after=n - 1, limit=1) if n else []
    return anchored(found[0]) if found and found[0].n == n else None


# --- the records of runs --------------------------------------------------------------------------


def _runs(view: View, run: str | None) -> Iterator[Kept]:
    """All, whatever their rows say: who changes a record can change where it is looked for."""
    since = _FIRST
    while page := view.kept(since=since, limit=_PAGE, run=run):
        yield from page
        if len(page) < _PAGE:
            return
        since = page[-1].place + 1


def _own_act(view: View, run_id: str) -> _Claim | None:
    """The last record of a run, if it says that the run is forgotten. Believed only where the log
    is broken: that its entry is missing is said once, of the log, and not of each such run."""
    seq, act = 0, None
    while page := view.rows(run_id, after_seq=seq, limit=_PAGE):
        seq, last = page[-1].seq, page[-1]
        is_act = bytes(last.payload or b"").startswith(b'{"type":"forgotten"')
        act = _Claim(run_id, last.seq, last.hash.hex()) if is_act else None
    return act


def _check_run(view: View, kept: Kept, report: VerifyReport, act: _Claim | None) -> None:
    """`act`: the record that says that it is forgotten, if the log says that there is one."""
    run_id, before, seq, row, derived = kept.run_id, GENESIS, 0, None, ExpectedRow()
    while page := view.rows(run_id, after_seq=seq, limit=_PAGE):
        for row in page:
            if row.seq != seq + 1:
                raise _Wrong(seq + 1, f"record {row.seq} stands in its place")
            before = _next_record(run_id, row, before)
            why = _gone(row.seq, act) if row.payload is None else _said(row, act, derived)
            if why:
                raise _Wrong(row.seq, why)
            seq += 1
            report.records += 1
            report.forgotten += row.payload is None
    if seq == 0:
        raise _Wrong(1, "it has no records")
    _check_act(act, seq, before, derived)
    if why := derived.differs(kept):
        raise _Wrong(0, why, holds=seq)


def _gone(seq: int, act: _Claim | None) -> str:
    if act is None:
        return "what it said is gone, and no entry of the log says that it was deleted"
    return "it says who had the others deleted, and is gone itself" if seq >= act.seq else ""


def _said(row: Row, act: _Claim | None, derived: ExpectedRow) -> str:
    if act and row.seq < act.seq:
        return "by the log its payload was deleted, and it is there"
    return derived.add(row.payload or b"")


def _check_act(act: _Claim | None, seq: int, last: bytes, derived: ExpectedRow) -> None:
    """Forgetting is the last record of a run, and the one that the log names."""
    if act is None and derived.is_forgotten:
        raise _Wrong(seq, "it says that the run is forgotten, and no entry of the log says so")
    if act and (not derived.is_forgotten or (act.seq, act.hash) != (seq, last.hex())):
        raise _Wrong(seq, "by the log the run ends as forgotten, and it does not")


def _next_record(run_id: str, row: Row, before: bytes) -> bytes:
    digest = row.digest if row.payload is None else sha256(row.payload).digest()
    if digest is None or row.digest not in (None, digest):
        raise _Wrong(row.seq, "it does not say what it said when it was written")
    after = link(before, run_id, row.seq, row.at_ms, row.epoch, digest, row.drift_ms)
    if after != row.hash:
        raise _Wrong(row.seq, "its hash does not follow from the record before")
    return after
