"""Where the time of a run went, in one line, and who pressed what, when."""

from itertools import accumulate
from typing import Final, NamedTuple

from pullcord.core.show.words import clock
from pullcord.tui.lines import BLANK, Line, Piece, line
from pullcord.tui.run_report import RunReport
from pullcord.tui.shown_items import ShownQuestion
from pullcord.tui.steplines import asked_line, note_line

_DRAWN: Final = {
    "working": ("▇", "running"),
    "pausing": ("◐", "held"),
    "paused": ("‖", "held"),
    "waiting": ("?", "waiting"),
    "queued": ("·", "muted"),
    "stopping": ("◍", "held"),
    "cancelling": ("◌", "muted"),
}
_IDLE: Final = ("paused", "waiting", "queued")


class Span(NamedTuple):
    """A stretch, and the cells that it takes."""

    pace: str
    from_ms: int
    to_ms: int
    start: int
    end: int


def timeline_lines(of: RunReport, width: int, *, now_ms: int) -> list[Line]:
    spans = spans_of(of, width - 2, now_ms=now_ms)
    if not spans:
        return [line("Nothing has happened yet.", role="muted")]
    bar = tuple(Piece(_DRAWN[s.pace][0] * (s.end - s.start), _DRAWN[s.pace][1]) for s in spans)
    lines: list[Line] = [(Piece(" "), *bar), _marks(of, spans, width), _legend(spans), BLANK]
    for note in of.notes():
        drawn = asked_line if isinstance(note, ShownQuestion) else note_line
        lines.append(drawn(note, width, of.began_ms))  # pyright: ignore[reportArgumentType]
    return lines


def spans_of(of: RunReport, width: int, *, now_ms: int) -> list[Span]:
    """The stretches, each with at least one cell. Long idle ones are drawn short: a night in
    which nothing happened would leave no room for what did."""
    known = [(s.pace, s.from_ms, s.to_ms or max(now_ms, s.from_ms)) for s in of.stretches]
    known = known[-max(width // 2, 1) :]
    busy = sum(to - since for pace, since, to in known if pace not in _IDLE)
    cap = max(busy // 4, 1000)
    weights = [min(to - since, cap) if p in _IDLE else to - since for p, since, to in known]
    room, whole = width - len(known), sum(weights) or 1
    ends = [round(sum_ * room / whole) for sum_ in accumulate(weights)]
    ends = [end + place + 1 for place, end in enumerate(ends)]
    starts = [0, *ends]
    return [Span(*k, s, e) for k, s, e in zip(known, starts, ends, strict=False)]


def _marks(of: RunReport, spans: list[Span], width: int) -> Line:
    """Under the bar, the sign of each press where it was."""
    cells = [" "] * width
    for note in of.notes():
        sign = note.sign if not isinstance(note, ShownQuestion) else "?"
        for span in spans:
            if span.from_ms <= note.at_ms <= span.to_ms:
                share = (note.at_ms - span.from_ms) / max(span.to_ms - span.from_ms, 1)
                place = 1 + span.start + round(share * (span.end - span.start - 1))
                cells[min(place, width - 1)] = sign
                break
    return line("".join(cells), role="strong")


def _legend(spans: list[Span]) -> Line:
    spent: dict[str, int] = {}
    for span in spans:
        spent[span.pace] = spent.get(span.pace, 0) + span.to_ms - span.from_ms
    pieces: list[Piece] = [Piece(" ")]
    for pace, ms in spent.items():
        sign, role = _DRAWN[pace]
        pieces += [Piece(f"{sign} ", role), Piece(f"{pace} {clock(ms)}   ", "muted")]
    return tuple(pieces)
