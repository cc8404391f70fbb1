"""The first line of the screen and the last: what is listed, and what happens around it."""

from collections.abc import Sequence

from pullcord.core.words import count
from pullcord.tui.lines import Line, Piece, flat, line, spread
from pullcord.tui.roster import Roster


def title(roster: Roster, where: str, width: int, *, is_loaded: bool, living_only: bool) -> Line:
    found: list[Piece] = []
    if roster.needing:
        word = "needs" if roster.needing == 1 else "need"
        found.append(Piece(f"{roster.needing:,} {word} you  ", "waiting strong"))
    listed = f"{len(roster):,} of " if len(roster) < len(roster.rows) else ""
    known = f"{roster.living:,} living  {listed}{count(len(roster.rows), 'run')}"
    found.append(Piece(known if is_loaded else f"{known}, reading on", "number"))
    only = " · living only" if living_only else ""
    name = Piece(f" · {flat(where, 80)}{only}", "muted")
    return spread((Piece("pullcord top", "strong"), name), tuple(found), width)


def banner(engaged: Sequence[str], width: int) -> list[Line]:
    """While the kill switch is engaged: that it is, and the way out. Nothing, while it is not."""
    if not engaged:
        return []
    said = flat(f"{engaged[0][:1].upper()}{engaged[0][1:]}", 300)
    more = f", and {len(engaged) - 1} more" if len(engaged) > 1 else ""
    left = line(f"■ {said}{more}. Nothing starts.", role="held strong")
    return [spread(left, line("pullcord kill-switch release", role="muted"), width)]


def status(notice: str, trouble: str, keys: str) -> Line:
    """About the last press; or else why nothing is heard; or else which keys there are."""
    if notice:
        return line(flat(notice, 400))
    return line(flat(trouble, 400), role="held strong") if trouble else line(keys, role="muted")
