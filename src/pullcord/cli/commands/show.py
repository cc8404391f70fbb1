"""ps, show, watch, receipt: look at runs and change nothing."""

import json
import sys
from typing import Any

from msgspec.structs import replace

from pullcord.cli.arguments import whoami
from pullcord.cli.as_json import print_said, to_json
from pullcord.cli.reach import reach
from pullcord.cli.render.narration import Narration, record_line, told_line
from pullcord.cli.render.run_text import (
    SIGN,
    coloured,
    line,
    offers,
    plain,
    plan_lines,
    receipt_lines,
    state,
    step_lines,
    why,
)
from pullcord.client.run_access import RunAccess
from pullcord.core.events import Completed, Created, Event, Record, Stopped
from pullcord.core.fold import replay
from pullcord.core.limits import caps_in
from pullcord.core.resting import needs_no_agent_to_end
from pullcord.core.run import Run
from pullcord.core.show.panel import Panel
from pullcord.core.show.story import Names
from pullcord.core.show.words import THEN, clock, frozen, times
from pullcord.core.states import LIVING, TABLE, RunState
from pullcord.core.values import load as value_of
from pullcord.errors import InvalidInput
from pullcord.journal.stored_runs.run_records import START, Cursor
from pullcord.journal.views.local_viewer import LocalViewer


def carry_out(asked: Any) -> int:
    if asked.verb == "ps" and asked.limit < 1:
        raise InvalidInput(f"--limit is at least 1, not {asked.limit}. Nothing was listed.")
    after = _cursor(asked.after) if asked.verb == "watch" else START
    with reach(asked) as access:
        if asked.verb != "ps":
            asked.run = access.find(asked.run)
        match asked.verb:
            case "ps":
                return _ps(asked, access)
            case "show":
                return _show(asked, access)
            case "receipt":
                return _receipt(asked, access)
            case _:
                return _watch(asked, access, after)


def _ps(asked: Any, access: RunAccess) -> int:
    found = access.listed(RunState if asked.all else LIVING, asked.limit)
    if asked.json:
        sys.stdout.write(to_json([_as_row(panel) for panel in found]))
        return 0
    if not found:
        print("No runs." if asked.all else "No runs that have not ended (pullcord ps --all).")
    for panel in found:
        needs = "  nobody drives it" if panel.alone and not panel.driven else ""
        needs = "  its process stands still" if panel.alone and panel.driven else needs
        why = _why(panel)
        needs += " ·" if needs and why.startswith(" by") else ""
        name = TABLE[panel.state].label
        print(
            f"{coloured(SIGN[panel.state], '1')} {name:<11}{line(panel.run):<14} "
            f"{line(panel.agent, 40):<18} {clock(panel.times['working_ms']):>8}"
            f"{_titled(panel)}{needs}{why}"
        )
    return 0


def _titled(panel: Panel) -> str:
    return f"  {line(panel.title)}" if panel.title else ""


def _why(panel: Panel) -> str:
    """Who stopped it and why, if somebody did."""
    if panel.source == "limit" and panel.by == "limits":
        return f" {line(panel.who, 60)} · {line(panel.reason)}"
    if panel.ended and panel.doing:  # it does nothing any more: what is said of it is all there is
        return f" · {line(panel.doing, 1000)}"
    if not panel.by:
        return f" · {line(panel.error, 1000)}" if panel.error else ""
    return f" by {plain(panel.by)}" + (f" · “{line(panel.reason)}”" if panel.reason else "")


def _as_row(panel: Panel) -> dict[str, Any]:
    return {
        "run": panel.run,
        "agent": panel.agent,
        "thread": panel.thread,
        "title": panel.title,
        "parent": panel.parent,
        "state": panel.state,
        "seq": panel.seq,
        "driven": panel.driven,
        "working_ms": panel.times["working_ms"],
        "waiting_ms": panel.times["waiting_ms"],
        "paused_ms": panel.times["paused_ms"],
        "created_at_ms": panel.created_at_ms,
    }


def _show(asked: Any, access: RunAccess) -> int:
    panel = access.panel(asked.run)
    records = access.records(asked.run)
    run = replay(asked.run, records)
    if asked.json:
        sys.stdout.write(to_json(_shown(asked, panel, run, records)))
        return 0
    print(
        f"{state(run.state)}{why(run)}   {run.id} · {run.agent} · thread {run.thread}"
        f"{_titled(panel)}"
    )
    if run.limits and panel.meters:
        used = " · ".join(meter.says for meter in panel.meters)
        print(f"{used}, then {THEN[run.limits.then]}.")
    if run.pause and run.pause.frozen:
        print(line(frozen(run.pause.frozen), 400))
    print(f"{line(panel.says, 1000)}   {times(panel.times)}")
    if panel.alone and panel.driven:
        print(line(panel.alone, 1000))
    elif panel.alone:
        print(nobody(run, records))
    if run.forgotten:
        return 0
    if panel.quarantined:
        print("It is quarantined: what it said and found is kept as evidence, and not shown.")
        return 0
    _sections(asked, panel, run, records)
    return 0


def _shown(asked: Any, panel: Panel, run: Run, records: list[Record]) -> dict[str, Any]:
    shown = _as_row(panel) | {"says": panel.says}
    if run.limits:
        shown |= {
            "meters": [replace(m, used=float(m.used), of=float(m.of)) for m in panel.meters],
            "limits": str(run.limits.condition),
        }
    end = _end(run, records)
    if not panel.quarantined and isinstance(end, Completed | Stopped):
        shown["result"] = end.result
    if not panel.quarantined:
        shown["run_state"] = run
    if asked.records:
        shown["records"] = [record_line(record) for record in records]
    return shown


def _end(run: Run, records: list[Record]) -> Event | None:
    """What has led to the state it is in."""
    return next((one.event for one in records if one.seq == run.state_seq), None)


def _sections(asked: Any, panel: Panel, run: Run, records: list[Record]) -> None:
    if isinstance(end := _end(run, records), Completed | Stopped):
        _section("result", [f"  {plain(json.dumps(value_of(end.result), ensure_ascii=False))}"])
    _section("plan", list(plan_lines(run)))
    _section("steps", list(step_lines(run)))
    _section("questions", _questions(run))
    _section(
        "instructions",
        [f"  {n:>4} {told.status:<10}“{line(told.text)}”" for n, told in run.instructions.items()],
    )
    _section(
        "children",
        [f"  {name} · {child.state or 'living'}" for name, child in run.children.items()],
    )
    _section("look at", [f"  {item}: {line(text)}" for item, text in run.to_look_at().items()])
    if asked.records:
        names = Names(run)
        _section("journal", [f"  {told_line(record, names)}" for record in records])
    if run.pause and run.pause.limits and not run.ended:
        _section(
            "raise a limit",
            [f"  pullcord raise {run.id} {cap}=..." for cap in caps_in(run.pause.limits)],
        )
    _section(
        "now",
        [
            f"  {command}"
            for command in offers(run, is_alone=bool(panel.alone) and not panel.driven)
        ],
    )


def nobody(run: Run, records: list[Record]) -> str:
    """Say that no process drives a run, and how to have one do it."""
    born = records[0].event
    if run.state is RunState.CANCELLING and needs_no_agent_to_end(run):
        return (
            f"Its process is gone. The next one that comes here ends it: pullcord cancel {run.id}"
        )
    if run.state is RunState.CANCELLING and isinstance(born, Created) and born.target:
        return f"No process drives it. What it did is undone here: pullcord undo {run.id}"
    if isinstance(born, Created) and born.target:
        return f"No process drives it. Drive it here: pullcord resume {run.id}"
    return (
        f"No process knows {line(run.agent)}. Start one with "
        f"pullcord.open(STORE, agents={{{run.agent!r}: ...}})."
    )


def _section(title: str, lines: list[str]) -> None:
    if lines:
        print(f"\n{coloured(title, '1')}")
        print("\n".join(lines))


def _questions(run: Run) -> list[str]:
    lines: list[str] = []
    for name in run.open_questions():
        known = run.questions[name]
        lines.append(f"  ? {line(known.text, 200)}")
        if known.kind == "approval":
            lines.append(f"      pullcord approvals {run.id}")
        elif known.kind != "timer":
            lines.append(f"      pullcord answer {run.id} {name} VALUE")
    return lines


def _receipt(asked: Any, access: RunAccess) -> int:
    made = access.receipt(asked.run)
    print_said(asked, made, receipt_lines(made))
    return 0


def _watch(asked: Any, access: RunAccess, after: Cursor) -> int:
    reader = LocalViewer(
        whoami(None),
        "terminal",
        since=access.panel(asked.run).seq,
        noted=lambda said: access.note_shown(asked.run, said),
    )
    telling = Narration(asked.run, as_json=asked.json, reader=reader)
    for place, item in access.stream(asked.run, after):
        telling.tell(place, item)
    telling.end_line()
    return 0


def _cursor(text: str) -> Cursor:
    seq, _, pos = text.partition(".")
    parts = (seq, pos or "0")
    if all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        return Cursor(int(seq), int(parts[1]))
    raise InvalidInput(
        f"{text[:40]!r} is not a place in a run: it looks like 12 or 12.3. Nothing was shown."
    )
