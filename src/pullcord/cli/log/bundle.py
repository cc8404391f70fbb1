"""An evidence bundle: one file that holds a run, its stops and the means to check both, offline.

Of other runs' stops there are only digests: enough to see that nothing was left out, and not what
it was. Secrets stay the references that they are in the journal.
"""

import zipfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from pullcord import __version__
from pullcord.cli.log.stop_lines import in_words, moment, read_lines
from pullcord.cli.log.transcript import transcript
from pullcord.cli.render.json_shapes import Evidence
from pullcord.core.events import ChildBorn, decode_event
from pullcord.errors import PullcordError
from pullcord.journal.chain import Row
from pullcord.journal.evidence.anchor import AnchorFile
from pullcord.journal.evidence.stoplog import cover
from pullcord.journal.store import StopRow, View
from pullcord.journal.stored_runs.run_records import ALL

FORMAT: Final = 1
_PAGE: Final = 1000
_encode: Final = msgspec.json.Encoder().encode
_CHECKS: Final = Path(__file__).with_name("bundled_verify.py")
_README: Final = """\
Evidence of run {run}, as it was recorded by pullcord {version}.

transcript.txt   what happened, to be read: who asked for what, what was said, what had been handed
                 to whom when the stop was heard, and what was left behind
records/         the journal of the run and of the runs that it started, one record a line
live.json        text of them that had not ended
stops.jsonl      the stop log of the whole store; of other runs only digests
anchor.txt       what had been noted outside the database: number, hash and time of entries
bundle.json      what this is, and where each chain ends
SUMS             the SHA-256 of every file
verify.py        checks all of it, offline: python3 -I verify.py

Whoever can change this folder can change verify.py: compare it with one of your own, or run yours,
python3 -I verify.py FOLDER. It prints a line "bundle", the sum of all sums. Only that vouches for
what is in here: compare it with what was noted when this was exported.

Times are UTC. "Handed to" means: given to the connection or the terminal. Whether anybody read it,
nobody knows. What a secret was is not in here: secrets are replaced before they are written.
"""


def export(
    view: View, anchor: AnchorFile, run_id: str, path: Path, *, by: str, at_ms: int
) -> Evidence:
    """Write the bundle of this run to `path`, which must not exist."""
    runs = list(_family(view, run_id))
    with path.open("xb") as file, _Bundle(file) as bundle:
        bundle.add("README.txt", [_README.format(run=run_id, version=__version__).encode()])
        bundle.add("verify.py", [_CHECKS.read_bytes()])
        bundle.add("transcript.txt", _transcripts(view, runs, by=by, at_ms=at_ms))
        heads: dict[str, dict[str, Any]] = {}
        for name in runs:
            bundle.add(f"records/{name}.jsonl", _records(view, name, heads))
        live = {name: list(map(_piece, view.live(name, after_pos=0))) for name in runs}
        bundle.add("live.json", [_encode(live)])
        bundle.add("stops.jsonl", _stops(view, frozenset(runs)))
        bundle.add("anchor.txt", (text.encode("latin-1") for text in _anchor(anchor)))
        n, hashed = view.stop_head() or (0, b"")
        about = {
            "format": FORMAT,
            "pullcord": __version__,
            "run": run_id,
            "exported_at_ms": at_ms,
            "exported_by": by,
            "stop_log": {"n": n, "hash": hashed.hex()},
            "heads": heads,
        }
        bundle.add("bundle.json", [_encode(about), b"\n"])
        seal = bundle.sealed()
    records = sum(head["seq"] for head in heads.values())
    return Evidence(
        run=run_id, file=str(path), seal=seal, runs=len(runs), records=records, entries=n
    )


class _Bundle:
    """A zip file, the same for the same contents, and the sums of what is in it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w")
        self._sums: dict[str, str] = {}

    def __enter__(self) -> "_Bundle":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        info = zipfile.ZipInfo(name)  # whose time is always the same
        info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
        summed = sha256()
        with self._zip.open(info, "w", force_zip64=True) as file:
            for piece in pieces:
                summed.update(piece)
                file.write(piece)
        self._sums[name] = summed.hexdigest()

    def sealed(self) -> str:
        body = "".join(f"{sums}  {name}\n" for name, sums in sorted(self._sums.items()))
        seal = sha256(body.encode()).hexdigest()
        self.add("SUMS", [f"{body}{seal}  SUMS\n".encode()])
        return seal


def _family(view: View, run_id: str) -> Iterator[str]:
    """The run, and all that were started under it."""
    yield run_id
    for row in view.rows(run_id, after_seq=0, limit=ALL):
        if row.payload is not None and b'"child_born"' in row.payload:
            try:
                born = decode_event(row.payload, run_id=run_id, seq=row.seq)
            except PullcordError:
                continue  # not ours any more: the check says so
            if isinstance(born, ChildBorn) and view.rows(born.child, after_seq=0, limit=1):
                yield from _family(view, born.child)


def _records(view: View, run_id: str, heads: dict[str, dict[str, Any]]) -> Iterator[bytes]:
    seq, hashed = 0, b""
    while page := view.rows(run_id, after_seq=seq, limit=_PAGE):
        for row in page:
            yield _encode(_record(row)) + b"\n"
        seq, hashed = page[-1].seq, page[-1].hash
    heads[run_id] = {"seq": seq, "hash": hashed.hex()}


def _record(row: Row) -> dict[str, Any]:
    digest = row.digest or sha256(row.payload or b"").digest()
    place = {"seq": row.seq, "at_ms": row.at_ms, "epoch": row.epoch, "drift_ms": row.drift_ms}
    return {**place, "digest": digest.hex(), "hash": row.hash.hex(), **_payload(row.payload)}


def _payload(payload: bytes | None) -> dict[str, str | None]:
    """As text, for whoever reads it; what was damaged may be none."""
    if payload is None:
        return {"payload": None}
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_hex": payload.hex()}


def _piece(text: Any) -> dict[str, Any]:
    said = {"part": text.part, "offset": text.offset, "text": text.text}
    return {**said, "after_seq": text.after_seq}


def _stops(view: View, mine: frozenset[str]) -> Iterator[bytes]:
    after = 0
    while page := view.stops(after=after, limit=_PAGE):
        for row in page:
            yield _encode(_stop(row, mine)) + b"\n"
        after = page[-1].n


def _stop(row: StopRow, mine: frozenset[str]) -> dict[str, Any]:
    place = {"n": row.n, "at_ms": row.at_ms, "hash": row.hash.hex()}
    if row.run and row.run not in mine:
        return place | {"cover": cover(row.run, row.digest).hex()}
    return place | {"run": row.run, "digest": row.digest.hex()} | _payload(row.payload)


def _anchor(anchor: AnchorFile) -> Iterator[str]:
    for _, text, is_whole in anchor.lines():
        yield text + ("\n" if is_whole else "")


def _transcripts(view: View, runs: list[str], *, by: str, at_ms: int) -> Iterator[bytes]:
    yield f"Exported {moment(at_ms)} UTC by {by}. All times are UTC, by the wall clock.\n".encode()
    acts = read_lines(row for row in view.stops(after=0, limit=ALL, run="") if row.payload)
    for name in runs:
        rows = view.rows(name, after_seq=0, limit=ALL)
        stops = read_lines(view.stops(after=0, limit=ALL, run=name))
        told = transcript(name, rows, view.live(name, after_pos=0), stops)
        yield ("\n" + "\n".join(told) + "\n").encode("utf-8", "backslashreplace")
    if acts:
        yield b"\nAbout no run\n"
        for act in acts:
            yield f"{moment(act.row.at_ms)}  STOP LOG {act.row.n}: {_said(act)}\n".encode()


def _said(act: Any) -> str:
    return in_words(act.entry.act) if act.entry else "of a newer pullcord"
