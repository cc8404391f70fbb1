"""What a run did, as a list that reads like a report: its plan, steps, words and presses."""

from collections.abc import Iterator
from typing import Final

from pullcord.core.show.words import CUT, clock, count, duration
from pullcord.tui.lines import BLANK, Line, Piece, flat, line, paragraph, spread
from pullcord.tui.run_report import RunReport
from pullcord.tui.shown_items import Entry, Section, ShownNote, ShownQuestion, ShownStep, ShownText

LATEST: Final = 400  # entries; of what came before only the number is said
_WORDS: Final = 3  # lines of what was said; all of it is under `text`
TAIL: Final = 20_000  # characters of one text
_SIGN: Final = {"running": "●", "done": "✓", "interrupted": "■", "queued": "○"}
_STANDING: Final = {"paused": ("‖", "held"), "waiting": ("?", "waiting")}
_ROLE: Final = {"●": "running", "✓": "done", "✕": "failed", "?": "waiting", "!": "failed"}


def step_lines(of: RunReport, width: int, *, now_ms: int, state: str) -> list[Line]:
    """The items of the plan and what happened in each. `state`: of the run."""
    left = LATEST
    found: list[list[Line]] = []
    for section in reversed(of.sections):
        entries = section.entries[max(len(section.entries) - left, 0) :]
        left -= len(entries)
        lines = _section(of, section, width, now_ms=now_ms, state=state)
        for entry in entries:
            lines.extend(_entry(of, entry, width, now_ms))
        found.append(lines)
    total = sum(len(section.entries) for section in of.sections)
    lines = [one for part in reversed(found) for one in part]
    if total > LATEST:
        said = f"{total - LATEST:,} earlier lines are not shown here: pullcord show RUN"
        lines.insert(0, line(said, role="muted"))
    if not lines and not of.is_over:
        return [line("Nothing yet. Every step appears here as it begins.", role="muted")]
    end = _end(of, width)
    return [*lines, BLANK, *end] if lines and end else [*lines, *end]


def _section(of: RunReport, section: Section, width: int, *, now_ms: int, state: str) -> list[Line]:
    if not section.number:
        return []
    sign = _SIGN[section.status]
    role = _ROLE.get(sign, "muted")
    if section.status == "running":
        sign, role = _STANDING.get(state, (sign, role))
    took = _took(of, section.from_ms, section.to_ms, now_ms)
    quiet = "muted" if section.status == "queued" else "strong"
    name = (
        Piece(f"{section.number:>2} "),
        Piece(f"{sign} ", role),
        Piece(flat(section.text), quiet),
    )
    lines = [spread(name, line(took, role="number"), width)]
    for before in section.before:
        lines.append(line(f"     - {flat(before)}", role="removed"))
    if section.before:
        lines.append(line(f"     + {flat(section.text)}", role="added"))
    return lines


def _entry(of: RunReport, entry: Entry, width: int, now_ms: int) -> Iterator[Line]:
    match entry:
        case ShownStep():
            yield _step(of, entry, width, now_ms)
        case ShownText():
            yield from _said(entry, width)
        case ShownNote():
            yield note_line(entry, width, of.began_ms)
        case ShownQuestion():
            yield asked_line(entry, width, of.began_ms)


def _step(of: RunReport, step: ShownStep, width: int, now_ms: int) -> Line:
    role = "muted" if step.is_model and step.to_ms else _ROLE.get(step.sign, "muted")
    facts = " · ".join(flat(fact, 120) for fact in (step.says, step.bill, *step.facts) if fact)
    name = Piece(flat(step.name, 80))
    said = (Piece(f"   {step.sign} ", role), name, Piece(f"  {facts}", "muted"))
    took = _took(of, step.from_ms, step.to_ms, now_ms)
    return spread(said, line(took, role="number"), width)


def _took(of: RunReport, from_ms: int, to_ms: int, now_ms: int) -> str:
    """How long it worked: the time for which it was frozen does not count."""
    if to_ms:
        return duration(of.worked_ms(from_ms, to_ms))
    return clock(of.worked_ms(from_ms, now_ms)) if from_ms and now_ms and not of.is_over else ""


def _said(said: ShownText, width: int) -> list[Line]:
    """The last lines of it, with a mark where it was cut."""
    if said.kind == "thought":
        word = "Thinking" if said.state == "live" else "Thought"
        return [line(f"     {word} · {count(len(said.text), 'character')}", role="muted")]
    lines = paragraph(said.text[-4 * width :].rstrip(), width, first="     ", rest="     ")
    kept = lines[-_WORDS:]
    if len(lines) > len(kept) or len(said.text) > 4 * width:
        kept[0] = (Piece("   … ", "muted"), kept[0][1])
    return marked(kept, said)


def marked(lines: list[Line], said: ShownText) -> list[Line]:
    """The same, with where it was cut, or that more of it comes."""
    if said.state == "cut":
        return [*lines[:-1], (*lines[-1], Piece(f" {CUT}", "held strong"))]
    return [*lines[:-1], (*lines[-1], Piece("▏", "running"))] if said.state == "live" else lines


def note_line(note: ShownNote, width: int, began_ms: int) -> Line:
    who = (Piece(f"{flat(note.by, 40)} ", "strong"),) if note.by else ()
    reason = f" “{flat(note.reason)}”" if note.reason else ""
    then = (f"{note.then} after {duration(note.took_ms)}", *note.how) if note.then else ()
    effect = "".join(f" · {flat(one)}" for one in then)
    role = "" if note.is_press else "muted"
    said = (Piece(f"   {note.sign} ", role), *who, Piece(flat(note.says) + reason, role))
    at = line(f"+{clock(note.at_ms - began_ms)}", role="number")
    return spread((*said, Piece(effect, "muted")), at, width)


def asked_line(asked: ShownQuestion, width: int, began_ms: int) -> Line:
    sign = {"open": "?", "withdrawn": "○"}.get(asked.status, "✕" if asked.is_no else "✓")
    role = "waiting strong" if asked.status == "open" else "muted"
    became = asked.answer or asked.status
    said = (
        Piece(f"   {sign} ", role),
        Piece(flat(became, 120), role),
        Piece(f"  {flat(asked.says)}"),
    )
    at = line(f"+{clock(asked.at_ms - began_ms)}", role="number")
    return spread(said, at, width)


def _end(of: RunReport, width: int) -> list[Line]:
    if of.error:
        return paragraph(of.error, width, role="failed", first=" ✕ ", rest="   ")
    if of.result:
        return paragraph(of.result, width, first=" ✓ ", rest="   ")
    return []


def text_lines(of: RunReport, width: int) -> list[Line]:
    """All that was said, in order, with a mark where it was cut."""
    found: list[Line] = []
    for said in of.texts[-LATEST:]:
        if found:
            found.append(BLANK)
        found.extend(_whole(said, width))
    return found or [line("Nothing was said yet.", role="muted")]


def _whole(said: ShownText, width: int) -> Iterator[Line]:
    text, role, before = said.text, "", ""
    if said.kind != "said":
        role, before = "muted", "│ "
        yield line("thought" if said.kind == "thought" else "output of a tool", role="muted")
    if len(text) > TAIL:
        yield line(f"… {len(text) - TAIL:,} earlier characters", role="muted")
    lines = paragraph(text[-TAIL:], width - 1, role=role, first=before, rest=before)
    yield from marked(lines, said)
