"""The bar of a run: its state, what it has used of its caps, and what each key does now.

Made of the panel alone. Pure: rows of text out, for so many columns.
"""

from typing import Final

from pullcord.cli.render.run_text import coloured, line, tinted
from pullcord.cli.render.text_width import apart, clip, pad, width, wrapped
from pullcord.core.show.panel import Button, Meter, Panel
from pullcord.core.show.words import clock
from pullcord.core.states import RunState
from pullcord.terminal.keymap import OF_VERB, Keymap

BODY_ROWS: Final = 3
_GAP: Final = 3  # two columns before a consequence, one behind it
_LAST: Final = 26
_ENOUGH_ROWS: Final = 12
_S = RunState


def rows(
    panel: Panel, body: list[str], *, columns: int, of_rows: int, me: str, aside: str
) -> list[str]:
    """The whole bar: a rule, the state, and what stands below it. In a low terminal only the state
    and the first row of what stands below it."""
    status = _status(panel, columns, me)
    if of_rows < _ENOUGH_ROWS:
        return [status, *body[: room_below(of_rows)]]
    return [_rule(panel, columns, aside), status, *body]


def room_below(of_rows: int) -> int:
    """How many rows can stand below the state. What is more than that is not shown."""
    return max(of_rows - 3, 1)


def _rule(panel: Panel, columns: int, aside: str) -> str:
    aside = clip(aside, columns - 13)
    said = f"─ {panel.run} · {line(panel.title or panel.agent, 100 if panel.title else 30)} "
    name = clip(said, max(columns - width(aside) - 5, 8))
    rest = columns - width(name) - width(aside) - 3
    return coloured(f"{name}{'─' * max(rest, 1)} {aside} ─", "2")


# --- the line that says how it is ---------------------------------------------------------------


def _status(panel: Panel, columns: int, me: str) -> str:
    label = f"{panel.sign} {panel.label}"
    meters = clip(_used(panel, columns // 2), columns - width(label) - 2)
    left = clip(label + _more(panel, me), columns - width(meters) - 2)
    shown = apart(left, meters, columns)
    return tinted(label, panel.state) + shown[len(label) :] if shown.startswith(label) else shown


def _more(panel: Panel, me: str) -> str:
    """Who has stopped it and why, or else what it does."""
    said = _who(panel, me)
    parts = [f"“{line(panel.reason, 200)}”"] if panel.reason else []
    if not panel.by and panel.items and panel.state is _S.RUNNING:
        parts.append(f"step {panel.items.at} of {panel.items.of}")
    if panel.doing:
        parts.append(line(panel.doing, 200) + _left(panel))
    if panel.alone:
        parts.append("its process stands still" if panel.driven else "no process drives it")
    if panel.error:
        parts.append(line(panel.error, 200))
    return said + "".join(f" · {part}" for part in parts)


def _who(panel: Panel, me: str) -> str:
    if panel.state is _S.WAITING and panel.wants:
        return " for you"
    if not panel.by:
        return ""
    names = {me: "you", "limits": "its limits"}
    name = names.get(panel.by, line(panel.by, 40))
    if panel.state in (_S.PAUSING, _S.CANCELLING):  # not by anybody yet: asked for
        return "" if panel.by == me else f" · asked by {name}"
    return f" by {name}"


def _left(panel: Panel) -> str:
    if panel.hold_left_ms is None:
        return ""
    return f", {-(-panel.hold_left_ms // 1000)} s"


def _used(panel: Panel, room: int) -> str:
    """Time, spend and steps, each against its cap where it has one; as many as there is room for,
    and first of all what is nearly used up."""
    of = "/" if room < 50 else " / "
    caps = {meter.cap: meter for meter in panel.meters}
    time = caps.pop("working_s", None)
    worked = clock(panel.times["working_ms"])
    told = [(worked + (f"{of}{clock(round(time.of * 1000))}" if time else ""), 0.0)]
    usd, steps = caps.pop("usd", None), caps.pop("steps", None)
    if usd or panel.cost["usd_micros"]:
        spent = f"${panel.cost['usd_micros'] / 1e6:.2f}" if usd is None else f"${usd.used:.2f}"
        told.append((f"{spent}{of}${usd.of:,.2f}" if usd else spent, _share(usd)))
    if steps or panel.steps:
        many = f"{panel.steps}" if steps is None else f"{steps.used:,.0f}{of}{steps.of:,.0f}"
        told.append((f"{many} steps", _share(steps)))
    for meter in caps.values():
        name = meter.cap.replace("_", " ")
        told.append((f"{meter.used:,.0f}{of}{meter.of:,.0f} {name}", _share(meter)))
    first, *others = told
    shown = [first[0]]
    for words, _ in sorted(others, key=lambda one: one[1] < 0.8):
        if width("  ".join([*shown, words])) <= max(room, 32):
            shown.append(words)
    return "  ".join(reversed(shown[1:])) + ("  " if shown[1:] else "") + first[0]


def _share(meter: Meter | None) -> float:
    return meter.used / meter.of if meter and meter.of else 0.0


# --- the keys, each with what it does now -------------------------------------------------------


def keys(panel: Panel, columns: int, bound: Keymap, notice: str = "") -> list[str]:
    """Which keys there are, and below each its consequence, or why it cannot be pressed. A notice
    takes the place of the consequences for as long as it stands."""
    shown = [button for button in panel.buttons if button.verb in OF_VERB]
    names = [f"{bound[OF_VERB[button.verb]]} {button.label}" for button in shown]
    widths = _widths(shown, names, columns)
    labels = "".join(
        _label(button, pad(name, wide - 1) + " ")
        for button, name, wide in zip(shown, names, widths, strict=True)
    )
    if notice:
        return [labels, *wrapped(notice, columns, BODY_ROWS - 1)]
    cells = [
        wrapped(button.off or button.says, wide - _GAP, BODY_ROWS - 1)
        for button, wide in zip(shown, widths, strict=True)
    ]
    says = [
        "".join(pad(f"  {cell[at]}", wide) for cell, wide in zip(cells, widths, strict=True))
        for at in range(BODY_ROWS - 1)
    ]
    return [labels, *(coloured(row.rstrip(), "2") for row in says)]


def _label(button: Button, cell: str) -> str:
    key, _, rest = cell.partition(" ")
    if button.off:
        return coloured(cell, "2")
    return coloured(key, "1") + " " + (coloured(rest, "1") if button.strong else rest)


def _widths(shown: list[Button], names: list[str], columns: int) -> list[int]:
    """How wide each is: room for its name, then for its consequence in two lines as far as there
    is more, and the rest for the last, which says most."""
    if not shown:
        return []
    *wide, last = [width(name) + 1 for name in names]
    if columns < sum(wide) + last:
        return [columns // len(shown)] * len(shown)
    left = columns - sum(wide) - max(last, min(_LAST, columns // 3))
    for at, button in enumerate(shown[:-1]):
        more = min(max(_wanted(button) - wide[at], 0), max(left, 0))
        wide[at] += more
        left -= more
    return [*wide, max(columns - sum(wide), 1)]


def _wanted(button: Button) -> int:
    says = button.off or button.says
    fits = (n for n in range(6, 60) if len(wrapped(says, n)) <= BODY_ROWS - 1)
    return next(fits, 60) + _GAP
