"""What a run has left behind: done, undone, in doubt, not attempted; who stopped it; its cost."""

from collections.abc import Iterator
from typing import Final

from pullcord.core.receipts import Receipt
from pullcord.tui.lines import BLANK, Line, Piece, flat, line, paragraph
from pullcord.tui.words import clock, count, dollars, duration

_HEADINGS: Final = (
    ("done", "✓", "done"),
    ("undone", "↶", "muted"),
    ("could_not_undo", "✕", "failed"),
    ("no_undo", "✓", "muted"),
    ("in_doubt", "?", "waiting"),
    ("failed", "✕", "failed"),
    ("interrupted", "■", "muted"),
    ("still_running", "!", "failed"),
    ("under_way", "●", "running"),
    ("not_attempted", "○", "muted"),
)
_FEW: Final = 40


def receipt_lines(of: Receipt, width: int) -> list[Line]:
    lines: list[Line] = []
    for heading, sign, role in _HEADINGS:
        names: tuple[str, ...] = getattr(of, heading)
        if names or heading == "done":
            lines.extend(_names(names, heading, (sign, role), width))
    lines.append(BLANK)
    for name, said in _facts(of):
        lines.extend(paragraph(flat(said, 1000), width, first=f"   {name:<16}", rest=" " * 19))
    return lines


def _names(names: tuple[str, ...], heading: str, sign: tuple[str, str], width: int) -> list[Line]:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    said = ", ".join(flat(name, 80) for name in names[:_FEW]) + more or "nothing"
    word = heading.replace("_", " ").capitalize()
    found = paragraph(said, width, first=" " * 19, rest=" " * 19)
    return [(Piece(f" {sign[0]} ", sign[1]), Piece(f"{word:<16}"), found[0][1]), *found[1:]]


def _facts(of: Receipt) -> Iterator[tuple[str, str]]:
    if of.by:
        yield "Stopped by", of.by + (f" “{of.reason}”" if of.reason else "")
    if of.effect_at_ms:
        yield "In effect", f"after {duration(of.effect_at_ms - of.asked_at_ms)}"
    if of.error:
        yield "Error", of.error
    for text in of.attention:
        yield "To look at", text
    if of.partial_text:
        yield "Partial text", f"{count(len(of.partial_text), 'part')} cut, kept in the thread"
    if of.used:
        yield "Limits", ", ".join(of.used)
    also = [(of.times.waiting_ms, "waiting"), (of.times.paused_ms, "paused")]
    more = "".join(f", {clock(ms)} {word}" for ms, word in also if ms >= 1000)
    yield "Time", f"{clock(of.times.working_ms)} working{more}"
    unknown = f" and {count(of.cost.unknown_calls, 'call')} of unknown price"
    yield "Cost", dollars(of.cost.usd_micros) + (unknown if of.cost.unknown_calls else "")
    if of.detached:
        yield "Lives on", ", ".join(of.detached)


def nothing() -> list[Line]:
    return [line("Reading what it has left behind.", role="muted")]
