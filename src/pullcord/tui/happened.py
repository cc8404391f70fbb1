"""What happened to a run as a whole, in words: who pressed what, and what nobody pressed."""

from typing import Any

import msgspec

from pullcord.core.events import (
    AttentionRaised,
    CallRefused,
    CancelRequested,
    ChildBorn,
    ChildEnded,
    ConditionMet,
    DoubtSettled,
    Forgotten,
    GuardTripped,
    Hurried,
    LimitReached,
    LimitsRaised,
    PauseRequested,
    Redirected,
    Released,
    Requeued,
    Resumed,
    Signalled,
    Spent,
    StoodStill,
    UndoRequested,
)


def call_of(tool: str, args: object) -> str:
    """A call as it will be made, on one line."""
    if not isinstance(args, dict):
        return f"{tool}({'' if args is None else msgspec.json.encode(args).decode()})"
    pairs: dict[str, object] = args  # pyright: ignore[reportUnknownVariableType]
    given = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in pairs.items())
    return f"{tool}({', '.join(given)})"


def pressed(event: Any) -> tuple[str, str]:
    match event:
        case PauseRequested():
            limits = f" ({', '.join(event.limits)})" if event.limits else ""
            return "‖", f"paused it{limits}{', now' if event.now else ''}"
        case Resumed():
            return "▶", "resumed it"
        case Redirected():
            return "↪", f"said: {event.instruction}"
        case CancelRequested():
            undo = "" if event.undo else ", nothing is undone"
            hidden = ", quarantined" if event.quarantine else ""
            return "■", f"cancelled it{', now' if event.now else ''}{undo}{hidden}"
        case Hurried():
            return "■", "pressed again: what was under way is cut"
        case UndoRequested():
            return "↶", "asked to undo what it left behind"
        case LimitReached():
            return "⊘", f"A limit is reached ({', '.join(event.leaves)})"
        case LimitsRaised():
            caps = ", ".join(f"{cap} {value:g}" for cap, value in event.caps.items())
            return "↑", f"set other limits: {caps}"
        case Signalled():
            return "·", f"said that it has happened: {event.name}"
        case Forgotten():
            return "∅", "had all before this deleted"
        case DoubtSettled():
            return "?", f"said of a step in doubt: {event.choice}"
        case _:
            return "✓", "dealt with it"


def faint(event: Any) -> str:
    match event:
        case StoodStill():
            return "Nobody worked on it for a while."
        case Requeued():
            return f"Its process gave it back ({event.cause})."
        case Released(error=error) if error:
            return f"Something could not be released: {error}"
        case GuardTripped():
            return f"Guard {event.guard} found what it watches for, before anybody has seen it."
        case ConditionMet():
            return f"True from here on: {event.condition}"
        case CallRefused():
            return f"{event.name} was not made: {event.why or event.outcome}"
        case ChildBorn():
            return f"Started {event.agent or 'a run'}: {event.child}"
        case ChildEnded():
            return f"{event.child} has ended: {event.state}"
        case AttentionRaised():
            return f"To look at: {event.text}"
        case _:
            return ""


def bill(spent: Spent) -> str:
    cost = "price unknown"
    if spent.cost_usd_micros is not None:
        cost = f"${spent.cost_usd_micros / 1e6:.4f}"
    read, wrote = ("?" if n is None else f"{n:,}" for n in (spent.tokens_in, spent.tokens_out))
    return f"{read} tokens in, {wrote} out, {cost}"


def as_json(value: Any) -> str:
    """A value as it is written, cut where nobody would read on."""
    raw = bytes(value)[:2000].decode(errors="replace")
    return "" if raw == "null" else raw
