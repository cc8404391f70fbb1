"""The words for what a run's records say in one: a state of a step, a rung, a bill, a tally.

They exist once, here. A surface lays them out; it has no words of its own for the same things.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from pullcord.core.commands import Source
from pullcord.core.events import Effect, Rung, RunIn
from pullcord.core.limits import Then

EFFECT: Final[Mapping[Effect, str]] = {
    "none": "only reads",
    "idempotent": "safe to repeat",
    "once": "acts once",
}
STOPS: Final[Mapping[RunIn, str]] = {
    "": "",
    "loop": "can be stopped",
    "process": "own process, can be killed",
    "thread": "in a thread, cannot be stopped",
    "remote": "elsewhere, can only be asked to stop",
}
"""What a stop can do to a step, by where it runs."""
RUNG: Final[Mapping[Rung, str]] = {
    "": "",
    "cooperative": "at a checkpoint",
    "task_cancel": "its task was cancelled",
    "transport_closed": "the connection was closed",
    "stop_requested": "it was asked to stop; the other side has not confirmed it",
    "terminated": "its processes were told to end",
    "killed": "its processes were killed",
    "abandoned": "it could not be stopped",
}
"""How a step was stopped: how far the ladder had to be climbed."""
UNDO: Final[Mapping[str, str]] = {
    "": "",
    "wanted": "to be undone",
    "started": "being undone",
    "undone": "undone",
    "failed": "could not be undone",
}
THEN: Final[Mapping[Then, str]] = {
    "stop": "it stops",
    "wrap_up": "it gives a last answer and stops",
    "pause_and_ask": "it pauses and asks",
}
CAP: Final[Mapping[str, str]] = {
    "steps": "steps",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "usd": "US dollars",
    "working_s": "seconds of work",
}
CUT: Final = "■ cut here"
"""The mark where a text was cut."""
_SELF_EVIDENT: Final[frozenset[str]] = frozenset(("", "person", "guard", "kill_switch"))


class Heading(NamedTuple):
    """One part of a receipt, and of a tally."""

    name: str
    sign: str
    word: str
    tone: str = ""  # the colour it has, where there are colours: as that of a state


HEADINGS: Final = (
    Heading("done", "✓", "done", "done"),
    Heading("no_undo", "!", "has no undo"),
    Heading("undone", "↶", "undone"),
    Heading("could_not_undo", "✕", "could not be undone", "failed"),
    Heading("in_doubt", "?", "in doubt", "waiting"),
    Heading("failed", "✕", "failed", "failed"),
    Heading("interrupted", "■", "interrupted"),
    Heading("still_running", "!", "still running", "failed"),
    Heading("under_way", "●", "under way", "running"),
    Heading("not_attempted", "○", "not attempted"),
)


# --- numbers --------------------------------------------------------------------------------------


def clock(ms: float) -> str:
    """00:42, or 1:02:03 from an hour on."""
    seconds = max(int(ms), 0) // 1000
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes:02}:{seconds % 60:02}"


def left(ms: float) -> str:
    """The time that is left: in days from two days on."""
    hours = ms // 3_600_000
    return clock(ms) if hours < 48 else f"{hours // 24:.0f} days"


def duration(ms: float) -> str:
    """340 ms, 4.2 s, 03:10"""
    if ms < 1000:
        return f"{max(ms, 0):.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else clock(ms)


def dollars(micros: int) -> str:
    if 0 < micros < 100:
        return "under $0.0001"
    digits = 4 if 0 < micros < 10_000 else 2  # a tenth of a cent is not nothing
    return f"${micros / 1e6:.{digits}f}"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {many or f'{one}s'}"


def times(spent: Mapping[str, int]) -> str:
    """00:42 working, 01:10 waiting: where the time went, but for what took less than a second."""
    words = (("working_ms", "working"), ("waiting_ms", "waiting"), ("paused_ms", "paused"))
    found = [(spent.get(field, 0), word) for field, word in words]
    return ", ".join(f"{clock(ms)} {word}" for ms, word in found if ms >= 1000 or word == "working")


def tokens(read: int | None, wrote: int | None) -> str:
    """1,200 tokens in, 340 out; nothing of what is not known or is none."""
    said = [f"{n:,} tokens {way}" for n, way in ((read, "in"), (wrote, "out")) if n]
    return ", ".join(said) if len(said) < 2 else f"{said[0]}, {wrote:,} out"


def bill(
    read: int | None, wrote: int | None, usd_micros: int | None, *, estimated: bool = False
) -> str:
    """What a call has cost. An unknown price is said, never left out or counted as nothing."""
    price = "price unknown" if usd_micros is None else dollars(usd_micros) if usd_micros else ""
    said = ", ".join(filter(None, (tokens(read, wrote), price)))
    return f"about {said}" if estimated and said else said or "free of charge"


def price(usd_micros: int, unknown_calls: int) -> str:
    """$0.31 and 2 calls of unknown price"""
    known = dollars(usd_micros) if usd_micros or not unknown_calls else ""
    unknown = f"{count(unknown_calls, 'call')} of unknown price" if unknown_calls else ""
    return " and ".join(filter(None, (known, unknown)))


def tally(counts: Mapping[str, int]) -> str:
    """2 done (1 has no undo) · 1 undone: how many steps are under each heading that has any."""
    said: list[str] = []
    kept = counts.get("no_undo", 0)
    for heading in HEADINGS:
        number = counts.get(heading.name, 0)
        if not number or heading.name == "no_undo":
            continue
        more = f" ({kept} {'has' if kept == 1 else 'have'} no undo)"
        said.append(f"{number} {heading.word}{more if kept and heading.name == 'done' else ''}")
    return " · ".join(said)


# --- who, and what --------------------------------------------------------------------------------


def who(by: str, source: Source | str) -> str:
    """The name of who did it; with what acted for them, unless that is plain."""
    return by if source in _SELF_EVIDENT else f"{by} ({source.replace('_', ' ')})"


def by_whom(by: str, source: str, me: str = "") -> str:
    """“by you”, “by its limits”: who stopped it. Empty: nobody did."""
    if not by:
        return ""
    if source == "limit":
        return "by its limits"
    return "by you" if by == me else f"by {by}"


def call(tool: str, args: object) -> str:
    """A call as it will be made, on one line."""
    if not isinstance(args, dict):
        return f"{tool}({'' if args is None else msgspec.json.encode(args).decode()})"
    pairs: dict[str, object] = args  # pyright: ignore[reportUnknownVariableType]
    given = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in pairs.items())
    return f"{tool}({', '.join(given)})"


def short(text: str, limit: int = 200) -> str:
    """The text on one line, cut where it is too long for one."""
    flat = " ".join(text[: 4 * limit].split())
    return flat if len(flat) <= limit and len(text) <= 4 * limit else f"{flat[: limit - 1]}…"


def declared(effect: str, *, undoable: bool) -> str:
    """What a call will do to the world, and whether that can be taken back: “acts once, has no
    undo”. Said where somebody decides about it."""
    said = next((word for name, word in EFFECT.items() if name == effect), effect)
    undo = "can be undone" if undoable else "" if effect == "none" else "has no undo"
    return ", ".join(filter(None, (said, undo)))


def policy(effect: Effect, run_in: RunIn, *, undoable: bool, tool: str, is_open: bool) -> list[str]:
    """What a step declares: its effect, its undo, and what a stop can do to it. When it is over,
    only the undo still matters.

    A plain step declares nothing, so that it has no undo is not said of it.
    """
    undo = "can be undone" if undoable else "has no undo" if tool and effect == "once" else ""
    said = (EFFECT[effect], undo, STOPS[run_in]) if is_open else (undo,)
    return [word for word in said if word]


def ladder(rungs: Mapping[str, float]) -> str:
    """How far the ladder was climbed, and when: “terminated after 3 ms, killed after 25 ms”."""
    return ", ".join(f"{rung.replace('_', ' ')} after {duration(ms)}" for rung, ms in rungs.items())


def still_running(names: Sequence[str]) -> str:
    return f"still running: {', '.join(names)}" if names else ""


def frozen(names: Sequence[str]) -> str:
    return f"frozen as long as its process lives: {', '.join(names)}" if names else ""
