"""The vocabulary of every surface: for an effect, a rung, a bill, a tally, and formats of numbers.

Each word exists once, here. A surface lays the words out, and has none of its own for these things.
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
"""What a stop can do to a step, by the place where the step runs."""
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
"""How a step was stopped, by the rung of the ladder that stopped it."""
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
    tone: str = ""  # its colour, where there are colours: that of a state


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
    """Return a time as 00:42, or as 1:02:03 from an hour on."""
    seconds = max(int(ms), 0) // 1000
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes:02}:{seconds % 60:02}"


def left(ms: float) -> str:
    """Return the time that is left, in days from two days on."""
    hours = ms // 3_600_000
    return clock(ms) if hours < 48 else f"{hours // 24:.0f} days"


def duration(ms: float) -> str:
    """Return a duration: 340 ms, 4.2 s, 03:10."""
    if ms < 1000:
        return f"{max(ms, 0):.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else clock(ms)


def dollars(micros: int) -> str:
    """Return an amount: $1.20, $0.0012, under $0.0001."""
    if 0 < micros < 100:
        return "under $0.0001"
    digits = 4 if 0 < micros < 10_000 else 2  # a tenth of a cent is not nothing
    return f"${micros / 1e6:.{digits}f}"


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: 1 step, 2,000 steps."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {many or f'{one}s'}"


def times(spent: Mapping[str, int]) -> str:
    """Return where the time went: 00:42 working, 01:10 waiting.

    Leaves out waiting and paused time of less than a second.
    """
    words = (("working_ms", "working"), ("waiting_ms", "waiting"), ("paused_ms", "paused"))
    found = [(spent.get(field, 0), word) for field, word in words]
    return ", ".join(f"{clock(ms)} {word}" for ms, word in found if ms >= 1000 or word == "working")


def tokens(read: int | None, wrote: int | None) -> str:
    """Return 1,200 tokens in, 340 out. Leaves out a number that is unknown or zero."""
    said = [f"{n:,} tokens {way}" for n, way in ((read, "in"), (wrote, "out")) if n]
    return ", ".join(said) if len(said) < 2 else f"{said[0]}, {wrote:,} out"


def bill(
    read: int | None, wrote: int | None, usd_micros: int | None, *, estimated: bool = False
) -> str:
    """Return the cost of a call. It says if the price is unknown, and never counts it as zero."""
    price = "price unknown" if usd_micros is None else dollars(usd_micros) if usd_micros else ""
    said = ", ".join(filter(None, (tokens(read, wrote), price)))
    return f"about {said}" if estimated and said else said or "free of charge"


def price(usd_micros: int, unknown_calls: int) -> str:
    """Return a sum: $0.31 and 2 calls of unknown price."""
    known = dollars(usd_micros) if usd_micros or not unknown_calls else ""
    unknown = f"{count(unknown_calls, 'call')} of unknown price" if unknown_calls else ""
    return " and ".join(filter(None, (known, unknown)))


def tally(counts: Mapping[str, int]) -> str:
    """Return the number of steps under each heading: 2 done (1 has no undo) · 1 undone."""
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
    """Return the actor's name, with the source that acted for them unless it is self-evident."""
    return by if source in _SELF_EVIDENT else f"{by} ({source.replace('_', ' ')})"


def by_whom(by: str, source: str, me: str = "") -> str:
    """Return who stopped a run: “by you”, “by its limits”. Empty if it was not stopped."""
    if not by:
        return ""
    if source == "limit":
        return "by its limits"
    return "by you" if by == me else f"by {by}"


def call(tool: str, args: object) -> str:
    """Return a call as it will be made, on one line."""
    if not isinstance(args, dict):
        return f"{tool}({'' if args is None else msgspec.json.encode(args).decode()})"
    pairs: dict[str, object] = args  # pyright: ignore[reportUnknownVariableType]
    given = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in pairs.items())
    return f"{tool}({', '.join(given)})"


def short(text: str, limit: int = 200) -> str:
    """Return the text on one line, cut at `limit` characters."""
    flat = " ".join(text[: 4 * limit].split())
    return flat if len(flat) <= limit and len(text) <= 4 * limit else f"{flat[: limit - 1]}…"


def declared(effect: str, *, undoable: bool) -> str:
    """Return the effect of a call, and whether it can be undone: “acts once, has no undo”.

    For surfaces where a person decides about the call.
    """
    said = next((word for name, word in EFFECT.items() if name == effect), effect)
    undo = "can be undone" if undoable else "" if effect == "none" else "has no undo"
    return ", ".join(filter(None, (said, undo)))


def policy(effect: Effect, run_in: RunIn, *, undoable: bool, tool: str, is_open: bool) -> list[str]:
    """Return what a step declares: its effect, its undo, and what a stop can do to it.

    When the step is over, only the undo still matters. A plain step declares nothing, so the words
    do not say that it has no undo.
    """
    undo = "can be undone" if undoable else "has no undo" if tool and effect == "once" else ""
    said = (EFFECT[effect], undo, STOPS[run_in]) if is_open else (undo,)
    return [word for word in said if word]


def ladder(rungs: Mapping[str, float]) -> str:
    """Return each rung of a stop with its time: “terminated after 3 ms, killed after 25 ms”."""
    return ", ".join(f"{rung.replace('_', ' ')} after {duration(ms)}" for rung, ms in rungs.items())


def still_running(names: Sequence[str]) -> str:
    """Return the words for what is still running. Empty if nothing is."""
    return f"still running: {', '.join(names)}" if names else ""


def frozen(names: Sequence[str]) -> str:
    """Return the words for what a pause has frozen. Empty if nothing is."""
    return f"frozen as long as its process lives: {', '.join(names)}" if names else ""
