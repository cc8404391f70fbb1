"""How a run is put into words in a terminal. The same signs and words as on every surface."""

import os
import sys
from collections.abc import Container, Iterator
from contextvars import ContextVar
from typing import Final

import msgspec

from pullcord.core.receipts import Receipt, StepLine
from pullcord.core.resting import needs_no_agent_to_end
from pullcord.core.run import Run, Times
from pullcord.core.states import OFFERED, TABLE, RunState
from pullcord.core.visible import visible

SIGN: Final = {state: row.sign for state, row in TABLE.items()}
_COLOUR: Final = {
    RunState.RUNNING: "34",
    RunState.PAUSING: "33",
    RunState.PAUSED: "33",
    RunState.WAITING: "35",
    RunState.STOPPING: "33",
    RunState.STOPPED: "33",
    RunState.FAILED: "31",
    RunState.COMPLETED: "32",
}
_STEP_SIGN: Final = {
    "started": "●",
    "finished": "✓",
    "failed": "✕",
    "interrupted": "■",
    "in_doubt": "?",
}
_UNDO: Final = {
    "": "",
    "wanted": " · to be undone",
    "started": " · being undone",
    "undone": " · undone",
    "failed": " · could not be undone",
}
_HEADINGS: Final = (
    "done",
    "undone",
    "could_not_undo",
    "in_doubt",
    "failed",
    "interrupted",
    "still_running",
    "under_way",
)
_PAINTS: Final[ContextVar[bool | None]] = ContextVar("paints", default=None)
_ONE_LINE: Final = {ord("\n"): "\\n", ord("\t"): "\\t"}
plain = visible  # text that an agent made, fit for a terminal


def line(text: str, limit: int = 100) -> str:
    """The same on one line, and not too long."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def coloured(text: str, code: str) -> str:
    is_terminal = _PAINTS.get()
    if is_terminal is None:
        is_terminal = sys.stdout.isatty()
    is_plain = not text or os.environ.get("NO_COLOR") or not is_terminal
    return text if is_plain else f"\033[{code}m{text}\033[0m"


def paint(is_terminal: bool) -> None:
    """From here on this thread writes to a terminal or does not, whatever standard output is."""
    _PAINTS.set(is_terminal)


def tinted(text: str, of: RunState) -> str:
    """In the colour of a state, where it has one."""
    return coloured(text, _COLOUR[of]) if of in _COLOUR else text


def state(of: RunState) -> str:
    return tinted(f"{SIGN[of]} {TABLE[of].label}", of)


def clock(ms: int) -> str:
    seconds = max(ms, 0) // 1000
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes:02}:{seconds % 60:02}"


def times(spent: Times) -> str:
    parts = [f"{clock(spent.working_ms)} working"]
    parts += [f"{clock(spent.waiting_ms)} waiting"] if spent.waiting_ms >= 1000 else []
    parts += [f"{clock(spent.paused_ms)} paused"] if spent.paused_ms >= 1000 else []
    return " · ".join(parts)


def why(run: Run) -> str:
    """Who stopped it and why, if somebody did."""
    stop = run.cancel or run.pause
    if run.reached and not run.cancel:
        return f" by its limits · {line(run.reached.says)}"
    if stop is None:
        return f" · {line(run.error, 1000)}" if run.error else ""
    return f" by {line(stop.by, 60)}" + (f" · “{line(stop.reason)}”" if stop.reason else "")


def offers(run: Run, *, is_alone: bool = False) -> list[str]:
    """The commands that make sense now. `is_alone`: no process drives it."""
    shown = [
        verb for verb in ("pause", "resume", "redirect", "cancel") if verb in OFFERED[run.state]
    ]
    if is_alone and run.state is RunState.CANCELLING:
        if run.cancel and run.cancel.undo and not needs_no_agent_to_end(run):
            shown.insert(0, "undo")
    elif is_alone and "resume" not in shown:
        shown.insert(0, "resume")
    if run.ended:
        shown = ["receipt", "fork", "continue"]
    words = {verb: f"pullcord {verb} {run.id} TEXT" for verb in ("redirect", "continue")}
    return [words.get(verb, f"pullcord {verb} {run.id}") for verb in shown]


def call(tool: str, args: object) -> str:
    """A call as it will be made, on one line: the true call, not what is said about it."""
    if not isinstance(args, dict):
        return f"{line(tool, 60)}({line(_json(args), 400)})"
    given = ", ".join(f"{name}={_json(value)}" for name, value in args.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return f"{line(tool, 60)}({line(given, 400)})"


def call_lines(tool: str, args: object) -> Iterator[str]:
    """The same in full, each argument on a line of its own: nothing of it is left out."""
    yield plain(tool).translate(_ONE_LINE)
    given: dict[str, object] = args if isinstance(args, dict) else {"arguments": args}  # pyright: ignore[reportUnknownVariableType]
    for name, value in given.items():
        yield f"  {plain(name).translate(_ONE_LINE)} = {plain(_json(value))}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def diff(before: str, after: str) -> str:
    """What a redirect has changed."""
    return (
        f"{coloured(f'- next  {line(before)}', '31')}\n{coloured(f'+ next  {line(after)}', '32')}"
    )


def plan_lines(run: Run, *, done: Container[str] = ()) -> Iterator[str]:
    """`done`: titles of items that are known to be finished, also the one it stands at."""
    for plan in run.plans.values():
        for number, item in enumerate(plan.items, start=1):
            begun = number <= plan.started
            is_current = number == plan.started and not plan.ended and item.title not in done
            sign = SIGN[run.state] if is_current else "✓" if begun else "○"
            yield f"  {sign} {number} {line(item.title)}"
            if item.id in plan.rewritten:
                yield f"      ↪ {line(plan.rewritten[item.id])}"


def step_lines(run: Run) -> Iterator[str]:
    for known in run.steps.values():
        seq = known.decided_seq or known.started_seq
        note = f" · attempt {known.attempt}" if known.attempt > 1 else ""
        note += f" · {known.settled} (a person's word)" if known.settled else ""
        note += " · it did happen, later" if known.late_seq else ""
        note += " · in a thread: it cannot be stopped" if known.run_in == "thread" else ""
        note += " · not all of it could be stopped" if known.still_running else ""
        note += _UNDO[known.undo]
        yield f"  {seq:>4} {_STEP_SIGN[known.status]} {line(known.name, 60)}{note}"


def _step_name(step: StepLine) -> str:
    """Its name; with its id, where somebody may want to do something about it."""
    is_open = step.heading in ("could_not_undo", "in_doubt")
    where = f"in {step.run}{', final' if step.final else ''}" if step.run else ""
    about = " ".join(filter(None, (step.step if is_open else "", where)))
    goes_on = f": {line(', '.join(step.still_running), 200)}" if step.still_running else ""
    return line(step.name, 60) + (f" ({about})" if about else "") + goes_on


def receipt_lines(made: Receipt) -> Iterator[str]:
    who = f" by {line(made.by, 60)}" if made.by else ""
    reason = f" · “{line(made.reason)}”" if made.reason else ""
    yield f"{state(made.state)}{who}{reason}"
    if made.error:
        yield f"  {'error':<15}{line(made.error, 1000)}"
    for heading in _HEADINGS:
        steps = [s for s in made.steps if s.heading == heading and not s.model]
        if steps or heading == "done":
            said = ", ".join(_step_name(step) for step in steps) or "nothing"
            yield f"  {heading.replace('_', ' '):<15}{said}"
        for step in steps:
            if heading == "failed" and step.error:
                yield f"  {'':<15}{line(step.name, 60)}: {line(step.error, 400)}"
        if heading == "done" and made.no_undo:
            names = ", ".join(line(name, 60) for name in made.no_undo)
            yield f"  {'has no undo':<15}{names}: done, and nothing says how to undo it"
    if made.not_attempted:
        yield f"  {'not attempted':<15}{', '.join(line(name, 60) for name in made.not_attempted)}"
    for text in made.partial_text:
        yield f"  {'partial text':<15}“{line(text, 70)}”"
    for text in made.attention:
        yield f"  {'look at':<15}{line(text, 300)}"
    for child in made.detached:
        yield f"  {'lives on':<15}{child} (detached)"
    if made.used:
        yield f"  {'limits':<15}{' · '.join(made.used)}"
    yield f"  {'time':<15}{times(made.times)}"
    if made.cost.usd_micros or made.cost.unknown_calls:
        calls = "call" if made.cost.unknown_calls == 1 else "calls"
        unknown = f" and {made.cost.unknown_calls} {calls} of unknown price"
        spent = f"${made.cost.usd_micros / 1e6:.2f}"
        yield f"  {'cost':<15}{spent}{unknown if made.cost.unknown_calls else ''}"
    if made.effect_at_ms:
        took = made.effect_at_ms - made.asked_at_ms
        yield f"  {'in effect':<15}{took} ms after it was asked ({made.rung or 'at rest'})"
