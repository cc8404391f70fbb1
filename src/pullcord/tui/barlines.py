"""The control bar in words: how the run is, what comes next, and what each key would do now."""

from typing import Final, NamedTuple

from rich.cells import cell_len

from pullcord.core.show.panel import Button, Panel
from pullcord.core.show.words import by_whom, clock
from pullcord.terminal.keymap import OF_VERB, Keymap
from pullcord.tui.lines import BLANK, Line, Piece, cut, flat, line, padded, spread, wrapped
from pullcord.tui.state_colours import ROLE, elapsed

_ENDING: Final = ("cancelling", "stopping")


class KeySlot(NamedTuple):
    """Where a key stands in the bar: never anywhere else, whatever it means just now."""

    verbs: tuple[str, ...]
    share: int  # of the width
    longest: int  # of the names that it may have


_PLACES: Final = (
    KeySlot(("pause", "resume"), 19, len("Cut now")),
    KeySlot(("redirect",), 18, len("Redirect")),
    KeySlot(("cancel",), 39, len("Stop now")),
    KeySlot(("review", "raise"), 24, len("Raise the limit")),
)


def title(panel: Panel, width: int) -> Line:
    """The rule above the bar: which run this is about."""
    parent = f" · under {panel.parent}" if panel.parent else ""
    named = f"{flat(panel.title, 100)} · " if panel.title else ""
    about = f"{flat(panel.agent, 60)} · thread {flat(panel.thread, 60)}{parent}"
    said = f" {named}{panel.run} · {about} "
    rest = "─" * max(width - 2 - cell_len(said), 0)
    return (Piece("──", "edge"), Piece(said, "muted"), Piece(rest, "edge"))


def head(panel: Panel, me: str, since_ms: float, width: int) -> Line:
    """How it is, who is behind that and why; at the right how long, how far and how much."""
    role = ROLE.get(panel.state, "muted")
    said = f"{panel.sign} {panel.label}{_by(panel, me)}"
    about = "".join(f" · {part}" for part in _about(panel, since_ms))
    left = (Piece(said, f"{role} strong"), Piece(about))
    return spread(left, _numbers(panel, since_ms), width)


def _by(panel: Panel, me: str) -> str:
    by = by_whom(panel.by, panel.source, me)
    return f" {flat(by, 40)}" if by else ""


def _about(panel: Panel, since_ms: float) -> list[str]:
    parts: list[str] = []
    if panel.items and not panel.ended and not panel.by:
        parts.append(f"{panel.items.at} of {panel.items.of}")
    if panel.hold_left_ms is not None:
        parts.append(f"cut in {-(-max(panel.hold_left_ms - since_ms, 0) // 1000):.0f} s")
    if panel.doing:
        parts.append(flat(panel.doing))
    if panel.state == "failed" and panel.error:
        parts.append(flat(panel.error))
    if panel.reason:
        parts.append(f"“{flat(panel.reason)}”")
    return [*parts, "quarantined"] if panel.quarantined else parts


def _numbers(panel: Panel, since_ms: float) -> Line:
    pieces = [Piece(clock(elapsed(panel, "working_ms", since_ms)), "number")]
    for reading in panel.readings:
        pieces.append(Piece(f"  {reading.says}", "held strong" if reading.near else "number"))
    return tuple(pieces)


def between(panel: Panel) -> tuple[Line, Line]:
    """The two lines between the state and the keys. Always two, so that nothing moves."""
    if panel.alone:
        return line(panel.alone, role="held"), BLANK
    if panel.ended:
        apart = " · " if panel.needs and panel.did else ""
        said = (Piece(panel.did + apart, "number"), Piece(panel.needs, "waiting strong"))
        return line(panel.says, role="muted"), said
    coming = panel.next if panel.state not in _ENDING else None
    if coming and coming.before != coming.after:
        before = line(f"- next  {flat(coming.before)}", role="removed")
        return before, line(f"+ next  {flat(coming.after)}", role="added")
    if panel.told:
        return line(panel.says, role="muted"), line(f"+ told  {flat(panel.told[-1])}", role="added")
    following = line("next  ", flat(coming.after), role="muted") if coming else BLANK
    return line(panel.says, role="muted"), following


def keys(panel: Panel, width: int, bound: Keymap) -> list[Line]:
    """What each key would do now: its name, and below it the consequence, or why it cannot."""
    if panel.ended:
        return _afterwards(panel, width)
    shown = {verb: button for button in panel.buttons for verb in (button.verb,)}
    last = _PLACES[-1] if any(verb in shown for verb in _PLACES[-1].verbs) else None
    places = _PLACES if last else _PLACES[:-1]
    found = [_at(place, panel.buttons) for place in places]
    return _columns(found, _rooms(places, width, bound), bound)


def _rooms(places: tuple[KeySlot, ...], width: int, bound: Keymap) -> list[int]:
    """How wide each is: its share, but room for its name; what that takes, cancel gives."""
    whole = sum(place.share for place in places)
    rooms = [min(width * place.share // whole, 52) for place in places]
    names = [place.longest + len(bound[OF_VERB[place.verbs[0]]]) + 3 for place in places]
    rooms = [max(room, name) for room, name in zip(rooms, names, strict=True)]
    rooms[2] -= max(sum(rooms) - width, 0)
    return rooms


def _at(place: KeySlot, buttons: tuple[Button, ...]) -> Button | None:
    return next((button for button in buttons if button.verb in place.verbs), None)


def _columns(buttons: list[Button | None], widths: list[int], bound: Keymap) -> list[Line]:
    rows: list[list[Piece]] = [[], [], []]
    for button, room in zip(buttons, widths, strict=True):
        label, role = "", "strong"
        if button:
            key = f" {bound[OF_VERB[button.verb]]} "
            label, role = f"{button.label}", "muted" if button.off else "strong"
            rows[0].append(Piece(key, "key off" if button.off else "key"))
            rows[0].append(Piece(padded(f" {label}", room - len(key)), role))
            said = wrapped(button.off or button.says, room - 2)
        else:
            rows[0].append(Piece(" " * room))
            said = []
        for number in (0, 1):
            text = said[number] if number < len(said) else ""
            if number and len(said) > 2:
                text = cut(f"{text} {said[2]}", room - 1)
            rows[number + 1].append(Piece(padded(text, room), "muted"))
    return [tuple(pieces) for pieces in rows]


def _afterwards(panel: Panel, width: int) -> list[Line]:
    """A screen that drives nothing starts nothing: it says what would."""
    rows: list[list[Piece]] = [[], [], []]
    said = [(b.label, b.says, f"pullcord {b.verb} {panel.run}") for b in panel.buttons]
    needed = [max(map(cell_len, column)) + 3 for column in said]
    for column, need in zip(said, needed, strict=True):
        room = need if sum(needed) <= width else width * need // sum(needed)
        for row, text, role in zip(rows, column, ("strong", "muted", ""), strict=True):
            row.append(Piece(f"{padded(text, room - 2)}  ", role))
    return [tuple(row) for row in rows]
