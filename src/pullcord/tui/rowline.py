"""One run in one line of the list."""

from pullcord.core.panel import Panel
from pullcord.core.words import clock, dollars
from pullcord.tui.lines import Line, Piece, fit, flat, padded
from pullcord.tui.words import ROLE, elapsed

_WIDE = 60


def row(panel: Panel, since_ms: float, width: int, *, is_selected: bool) -> Line:
    """Sign, state, agent, working time, spend, and what it does or why it does not."""
    colour = ROLE.get(panel.state, "muted")
    quiet = "muted" if panel.ended else ""
    agent = max(12, min(24, width // 5))
    time = clock(elapsed(panel, "working_ms", since_ms))
    spend = dollars(panel.cost["usd_micros"]) if panel.cost["usd_micros"] else ""
    pieces = [
        Piece("›" if is_selected else " ", "strong"),
        Piece(f"{panel.sign} ", colour),
        Piece(padded(panel.label, 11), colour),
        Piece(padded(flat(panel.agent, 60), agent), quiet),
        Piece(f" {time:>7}", quiet or "number"),
    ]
    if width >= _WIDE:
        pieces.append(Piece(f"{spend:>9}", quiet or "number"))
    pieces.append(Piece("  "))
    pieces.extend(_about(panel, quiet))
    return fit(tuple(pieces), width)


def _about(panel: Panel, quiet: str) -> list[Piece]:
    needed = panel.needs
    pieces = [Piece(needed, "waiting strong")] if needed else []
    if said := _says(panel):
        pieces.append(Piece(f"{' · ' if needed else ''}{said}", quiet))
    return pieces


def _says(panel: Panel) -> str:
    if panel.alone:
        return "its process stands still" if panel.driven else "no process drives it"
    if panel.doing:
        return flat(panel.doing, 120)
    if panel.state == "failed":
        return flat(panel.error, 120)
    who = f"by {flat(panel.by, 40)}" if panel.by and panel.source != "limit" else ""
    why = f"“{flat(panel.reason, 80)}”" if panel.reason else ""
    return " · ".join(part for part in (who, why) if part)
