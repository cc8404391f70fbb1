"""The stop log in words: one line for a stop, however many entries it took to write it down."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from pullcord.cli.render.run_text import line, plain
from pullcord.core.show.words import RUNG, UNDO, frozen
from pullcord.core.stops import (
    Act,
    Entry,
    PayloadsForgotten,
    StopAsked,
    StopHurried,
    StopLapsed,
    StopShown,
    StopTookHold,
    SwitchAnswered,
    SwitchEngaged,
    SwitchReleased,
    Viewer,
    decode_entry,
)
from pullcord.journal.store import StopRow


class LogLine(NamedTuple):
    """An entry in its place; None: what it said was deleted, or is of a newer pullcord."""

    row: StopRow
    entry: Entry | None


def read_lines(rows: Iterable[StopRow]) -> list[LogLine]:
    return [LogLine(row, _entry(row)) for row in rows]


def _entry(row: StopRow) -> Entry | None:
    try:
        return decode_entry(row.payload) if row.payload is not None else None
    except msgspec.DecodeError:
        return None


def moment(at_ms: int) -> str:
    """By the wall clock, in UTC: evidence is compared with other logs."""
    try:
        when = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return when.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03}"


def told_stop(lines: list[LogLine]) -> Iterator[str]:
    """One line for each stop, in the order in which they were asked for."""
    ends: dict[tuple[str, int], list[LogLine]] = {}
    for found in lines:
        act = found.entry.act if found.entry else None
        if isinstance(act, StopTookHold | StopLapsed | StopShown):
            ends.setdefault((found.row.run, act.asked_seq), []).append(found)
    for found in lines:
        act = found.entry.act if found.entry else None
        if isinstance(act, StopTookHold | StopLapsed | StopShown):
            continue
        about = f"  {found.row.run}" if found.row.run else ""
        said = in_words(act) if act else "(what it said was deleted, or is of a newer pullcord)"
        key = (found.row.run, found.entry.seq if found.entry else 0)
        later = ends.get(key, []) if isinstance(act, StopAsked) else []
        then = "".join(f" · {_then(found, end)}" for end in later)
        yield f"{found.row.n:>5}  {moment(found.row.at_ms)}{about}  {said}{then}"


def _then(asked: LogLine, end: LogLine) -> str:
    assert end.entry is not None
    if isinstance(end.entry.act, StopTookHold):
        return _took_hold(end.entry.act, f" after {_took_ms(asked, end):,} ms")
    return in_words(end.entry.act)


def _took_ms(asked: LogLine, end: LogLine) -> int:
    """By the clock that never jumps."""
    assert asked.entry is not None
    assert end.entry is not None
    return max(end.entry.steady_ms - asked.entry.steady_ms, 0)


def in_words(act: Act) -> str:
    """One entry in one line."""
    match act:
        case StopAsked():
            return _asked(act)
        case StopHurried():
            return f"hurried{_who(act.by, act.source, act.via, act.reason)}"
        case StopTookHold():
            return _took_hold(act)
        case StopLapsed():
            return f"{act.verb} came to nothing: the run is {act.state}"
        case StopShown():
            seen = [viewer(one) for one in act.viewers]
            seen += [f"{act.others} more, no further"] if act.others else []
            return f"shown to {'; '.join(seen)}" if seen else "nobody watched"
        case SwitchEngaged():
            more = f" · since {moment(act.engaged_at_ms)}" if act.engaged_at_ms else ""
            more += f" · holds {line(', '.join(act.held), 120)}" if act.held else ""
            return f"kill switch engaged{_scope(act)}{_who(act.by, '', act.via, act.reason)}{more}"
        case SwitchAnswered():
            return _answered(act)
        case SwitchReleased():
            return f"kill switch released{_scope(act)}{_who(act.by, '', act.via, act.reason)}"
        case PayloadsForgotten():
            runs = line(", ".join(act.runs), 200)
            return f"forgot what was said in {runs}{_who(act.by, '', act.via, act.reason)}"


def _answered(act: SwitchAnswered) -> str:
    many = "1 process" if act.asked == 1 else f"{act.asked} processes"
    who = _who(act.by, "", act.via, act.reason) if act.by else ""
    said = f"kill switch acknowledged after {act.took_ms:,} ms{who} · {many} asked"
    killed = ", ".join(str(pid) for pid in act.killed)
    said += f" · killed: {line(killed, 120)}" if killed else ""
    left = "; ".join(f"{one.what}: {one.why}" for one in act.left)
    return said + (f" · NOT STOPPED: {line(left, 400)}" if left else " · nothing was left")


def _scope(act: SwitchEngaged | SwitchReleased) -> str:
    return "" if act.scope == "all" else f" for {act.scope} {line(act.name, 60)}"


def _who(by: str, source: str, via: str, reason: str) -> str:
    how = ", ".join(plain(one) for one in ("" if source == "person" else source, via) if one)
    why = f" “{line(reason, 200)}”" if reason else ""
    return f" by {line(by, 60)}{f' ({how})' if how else ''}{why}"


def _asked(act: StopAsked) -> str:
    name = "stop at a limit" if act.verb == "limit" else act.verb
    again = ", more of it," if act.again else ""
    extra = " · quarantine" if act.quarantine else ""
    flying = ", ".join(line(step.name, 40) for step in act.in_flight)
    extra += f" · in flight: {line(flying, 120)}" if flying else ""
    return f"{name}{again} asked{_who(act.by, act.source, act.via, act.reason)}{extra}"


def _took_hold(act: StopTookHold, when: str = "") -> str:
    rung = f" ({RUNG[act.rung]})" if act.rung else ""
    ends = ", ".join(f"{line(s.name, 40)} {s.became.replace('_', ' ')}" for s in act.steps)
    said = f"in effect{when}{rung}" + (f" · {line(ends, 160)}" if ends else "")
    said += f" · undone: {len(act.undone)}" if act.undone else ""
    said += f" · {UNDO['failed']}: {len(act.could_not_undo)}" if act.could_not_undo else ""
    return said + (f" · {line(frozen(act.frozen))}" if act.frozen else "")


def viewer(one: Viewer) -> str:
    """How far somebody was. Handed to them: nobody knows what was read."""
    parts = ", ".join(
        f"{count:,} characters of {line(part, 70)}" for part, count in one.said.items()
    )
    more = " (and a piece that was on its way)" if one.sending else ""
    via = f" ({plain(one.via)})" if one.via else ""
    return f"{line(one.who, 60)}{via}: {one.seq} records{f', {parts}' if parts else ''}{more}"
