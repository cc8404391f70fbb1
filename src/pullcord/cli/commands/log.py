"""log: the stop log is shown, checked, or handed on as evidence. Reads only; needs no server."""

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from pullcord.cli.arguments import whoami
from pullcord.cli.as_json import print_said, to_json
from pullcord.cli.log.bundle import export
from pullcord.cli.log.stop_lines import read_lines, told_stop
from pullcord.cli.parser import store_path
from pullcord.cli.render.run_text import line
from pullcord.core.run_ids import the_one
from pullcord.core.show.words import count
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput, RunNotFound
from pullcord.journal.clock import SystemClock
from pullcord.journal.evidence.anchor import AnchorFile, anchor_of, anchored
from pullcord.journal.evidence.verify import VerifyReport, verify
from pullcord.journal.open_store import opened
from pullcord.journal.sqlite.read_only import looking_at
from pullcord.journal.store import View
from pullcord.journal.store_location import beside, is_url
from pullcord.journal.stored_runs.run_records import ALL
from pullcord.journal.views.for_people import ForPeople

BROKEN: Final = 5


def carry_out(asked: Any) -> int:
    store = store_path(asked.store)
    # Before the store is looked at: the anchor never leads, so it cannot lead this look either.
    near = Path(beside(store)).resolve()
    anchor = AnchorFile(Path(asked.anchor) if asked.anchor else anchor_of(near))
    if asked.anchor and not anchor.is_there:
        raise InvalidInput(f"There is no anchor at {asked.anchor}. Nothing was checked.")
    if is_url(store):
        with closing(opened(store, make=False)) as there:
            return there.read(lambda view: _said(asked, view, anchor))
    with looking_at(near) as view:
        return _said(asked, view, anchor)


def _said(asked: Any, view: View, anchor: AnchorFile) -> int:
    asked.run = _found(view, asked.run) if asked.run else None
    match asked.what:
        case "show":
            return _show(asked, view)
        case "verify":
            return _verify(asked, view, anchor)
        case "head":
            return _head(asked, view)
        case _:
            return _export(asked, view, anchor)


def _found(view: View, said: str) -> str:
    check_id(said)
    run_id = the_one(said, view.beginning_with(said, limit=4))
    if run_id not in view.beginning_with(run_id, limit=1):  # (its row may be damaged: evidence)
        raise RunNotFound(run_id)
    return run_id


def _show(asked: Any, view: View) -> int:
    lines = read_lines(view.stops(after=0, limit=ALL, run=asked.run))
    if asked.json:
        people = ForPeople(view, SystemClock())
        shown = [(one.row, one.entry and people.entry(one.entry)) for one in lines]
        sys.stdout.write(to_json([_as_line(*one) for one in shown]))
        return 0
    if not lines:
        print(f"Nothing has stopped {asked.run}." if asked.run else "Nothing was ever stopped.")
    for said in told_stop(lines):
        print(said)
    return 0


def _as_line(row: Any, entry: Any) -> dict[str, Any]:
    place = {"n": row.n, "at_ms": row.at_ms, "run": row.run, "hash": row.hash.hex()}
    return place | {"entry": entry}


def _head(asked: Any, view: View) -> int:
    n, _ = view.stop_head() or (0, b"")
    found = view.stops(after=n - 1, limit=1) if n else []
    if asked.json:
        heads = [anchored(row)._asdict() for row in found]
        sys.stdout.write(to_json(heads[0] if heads else {"n": 0, "hash": "", "at_ms": 0}))
    else:
        print(anchored(found[0]) if found else "Nothing was ever stopped.")
    return 0


# --- verify ---------------------------------------------------------------------------------------


def _verify(asked: Any, view: View, anchor: AnchorFile) -> int:
    report = verify(view, anchor, run=asked.run)
    print_said(asked, report, _told(report, anchor))
    return BROKEN if report.broken else 0


def _told(report: VerifyReport, anchor: AnchorFile) -> list[str]:
    wrong = {broken.where for broken in report.broken}
    lines: list[str] = []
    if "stop log" not in wrong:
        lines.append(f"✓ The stop log holds: {count(report.stops, 'entry', 'entries')}.")
    if not anchor.is_there:
        lines.append(
            f"! There is no anchor at {anchor.path}: whether the end of the log is all there "
            "cannot be told."
        )
    elif "anchor" not in wrong:
        behind = report.stops - report.newest
        lag = f" The last {behind} are not in it yet." if behind > 0 else ""
        torn = (
            f" {count(report.torn, 'line')} in it never written to the end." if report.torn else ""
        )
        lines.append(f"✓ The anchor agrees: {count(report.lines, 'line')}.{lag}{torn}")
    if not wrong - {"stop log", "anchor"}:
        of = count(report.runs, "run")
        lines.append(f"✓ The journal holds: {count(report.records, 'record')} of {of}.")
    if report.forgotten:
        lines.append(f"  {count(report.forgotten, 'payload')} deleted, which the log says.")
    for where, at, why, holds in map(msgspec.structs.astuple, report.broken):
        what = {"stop log": "entry", "anchor": "line"}.get(where, "record")
        name = f"the {where}" if what != "record" else f"run {where}"
        place = f"{what} {at}" if at > 0 else "the row"  # that a run is found by
        true = f" Up to {what} {holds} it is as it was written." if holds > 0 else ""
        lines.append(f"✕ BROKEN: {place} of {name}: {line(why, 300)}.{true}")
    if report.broken:
        lines.append("Keep the store and its anchor as evidence, and change nothing in them.")
    elif report.head:
        lines.append(f"  Note elsewhere, or compare: {report.head}")
    return lines


# --- export ---------------------------------------------------------------------------------------


def _export(asked: Any, view: View, anchor: AnchorFile) -> int:
    if not asked.run:
        raise InvalidInput(
            "Evidence is of one run. Nothing was written. Name it: pullcord log export RUN"
        )
    path = Path(asked.output or f"pullcord-{asked.run}.zip")
    if path.exists():
        raise InvalidInput(f"{path} is there already. Nothing was written. Name another: -o FILE")
    at_ms = time.time_ns() // 1_000_000
    try:
        made = export(view, anchor, asked.run, path, by=whoami(None), at_ms=at_ms)
    except OSError as error:
        if path.exists():
            os.unlink(path)
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror or error}. Nothing is left of it."
        ) from None
    if asked.json:
        sys.stdout.write(to_json(made))
        return 0
    of = count(made.runs, "run")
    print(f"Wrote {made.file}: {count(made.records, 'record')} of {of}, with the stop log.")
    print("To check it: unzip it into an empty folder and run there: python3 -I verify.py")
    print(f"Note elsewhere, or compare: bundle {made.seal}")
    return 0
