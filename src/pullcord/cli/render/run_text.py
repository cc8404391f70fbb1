"""How a run is put into words in a terminal. The same signs and words as on every surface."""

import os
import sys
from collections.abc import Container, Iterator
from contextvars import ContextVar
from typing import Final

import msgspec

from pullcord.core.receipts import Receipt, StepLine
from pullcord.core.resting import needs_no_agent_to_end
from pullcord.core.run import Run
from pullcord.core.show.receipt_words import receipt_words
from pullcord.core.show.words import HEADINGS, STOPS, UNDO, by_whom, still_running
from pullcord.core.states import OFFERED, TABLE, RunState
from pullcord.core.text.visible import visible

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


def why(run: Run) -> str:
    """Who stopped it and why, if somebody did."""
    stop = run.cancel or run.pause
    if run.reached and not run.cancel:
        return f" {by_whom('limits', 'limit')} · {line(run.reached.says)}"
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
        note += f" · {STOPS['thread']}" if known.run_in == "thread" else ""
        note += f" · {line(still_running(known.still_running))}" if known.still_running else ""
        note += f" · {UNDO[known.undo]}" if known.undo else ""
        yield f"  {seq:>4} {_STEP_SIGN[known.status]} {line(known.name, 60)}{note}"


def _named(step: StepLine) -> str:
    """Its name; with its id, where somebody may want to do something about it."""
    is_open = step.heading in ("could_not_undo", "in_doubt")
    return f"{line(step.said, 100)} ({step.step})" if is_open else line(step.said, 100)


def receipt_lines(made: Receipt) -> Iterator[str]:
    """The receipt, a line for each thing that it says."""
    reason = f" · “{line(made.reason)}”" if made.reason else ""
    by = line(by_whom(made.by, made.source), 60)
    yield f"{state(made.state)}{f' {by}' if by else ''}{reason}"
    ids: dict[str, list[str]] = {}
    for step in made.steps:
        if not step.model:
            ids.setdefault(step.heading, []).append(_named(step))
    of_word = {heading.word: heading.name for heading in HEADINGS if heading.name != "no_undo"}
    for told in receipt_words(made):
        if told.word == "stopped by":
            continue  # said above
        names = ids.get(of_word.get(told.word, "")) if told.names else None
        said = ", ".join(names or [line(name, 100) for name in told.names])
        says = line(told.says, 1000)
        yield f"  {told.word:<14} {': '.join(filter(None, (said, says)))}"
