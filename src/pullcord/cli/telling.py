"""A run in words, record by record, as it happens or as it happened."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from pullcord.cli.as_json import to_json
from pullcord.cli.words import call, coloured, diff, line, plain
from pullcord.core.events import (
    TAGS,
    Answered,
    Asked,
    Completed,
    Event,
    Failed,
    Forgotten,
    ItemRewritten,
    ItemStarted,
    Paused,
    PauseRequested,
    QuestionAsked,
    Record,
    Redirected,
    Rung,
    Spent,
    StepFailed,
    StepFinished,
    StepInterrupted,
    StepStarted,
    StepUndone,
    Stopped,
    TextEnded,
    UndoFailed,
    UndoStarted,
    encode_event,
)
from pullcord.core.limits import caps_in
from pullcord.core.values import load as value_of
from pullcord.journal.reader import Reader
from pullcord.journal.reading import Cursor
from pullcord.journal.store import LiveText

Write: TypeAlias = Callable[[str], None]
_RUNG: Final[dict[Rung, str]] = {
    "cooperative": "at a checkpoint",
    "task_cancel": "its task was cancelled",
    "transport_closed": "the connection was closed",
    "stop_requested": "it was asked to stop; the other side has not confirmed it",
    "terminated": "its processes were told to end",
    "killed": "its processes were killed",
    "abandoned": "it was left behind",
}


class Telling:
    """A run, told line by line as it happens. `says` takes what it says, `tells` the rest."""

    def __init__(
        self,
        run_id: str,
        *,
        as_json: bool = False,
        says: Write | None = None,
        tells: Write | None = None,
        reader: Reader | None = None,
    ) -> None:
        self._run_id = run_id
        self._as_json = as_json
        self._says, self._tells = says or _print, tells or says or _print
        self._live: dict[str, int] = {}  # how much of each part was told as it came
        self._is_midline = False
        self._part = ""  # whose text was told last
        self._last = ""  # its last character
        self._held: list[Record] = []  # what is told when the text before it is all there
        self.last_words = ""  # the last thing that was said whole
        self._reader = reader

    def tell(self, cursor: Cursor, item: Record | LiveText) -> None:
        if self._reader:
            self._reader.comes(item)
        self._tell(cursor, item)
        if self._reader:
            self._reader.has(item)

    def _tell(self, cursor: Cursor, item: Record | LiveText) -> None:
        if self._as_json:
            return self._says(self._json(cursor, item))
        if isinstance(item, LiveText):
            self._turn_to(item.part)
            self._live[item.part] = item.offset + len(item.text)
            self._speak(item.part, item.text)
        elif isinstance(item.event, TextEnded):
            self._text_ended(item.event)
        elif self._is_of_open_text(item.event):
            self._held.append(item)
        else:
            self.end_line()
            self._tells(f"{told(item)}\n")
        return None

    def _is_of_open_text(self, event: Event) -> bool:
        """Whether it says that the one who is speaking has finished: the answer of a model is
        recorded as soon as it is there, and the end of its text when all of it was shown."""
        if not self._is_midline or not isinstance(event, StepFinished | Spent):
            return False
        return bool(event.step) and f"-{event.step}-" in self._part

    def _json(self, cursor: Cursor, item: Record | LiveText) -> str:
        shown: dict[str, Any] = {"id": str(cursor), "run": self._run_id}
        if isinstance(item, Record):
            shown |= record_line(item)
        else:
            shown |= {"part": item.part, "offset": item.offset, "text": item.text}
        return to_json(shown)

    def _text_ended(self, event: TextEnded) -> None:
        if event.complete and not event.step:
            self.last_words = event.text
        is_said = self._live.get(event.part) == len(event.text)
        if is_said and event.complete and event.part != self._part:
            return  # somebody else is speaking by now
        self._turn_to(event.part)
        if rest := event.text[self._live.get(event.part, 0) :]:
            self._speak(event.part, rest)
        if not event.complete:
            self._says(coloured(" ■ cut here", "2"))
            self._is_midline = True
        self.end_line()

    def _speak(self, part: str, text: str) -> None:
        """What was said, as it is; what was only thought, fainter."""
        shown = plain(text, after=self._last)
        self._says(coloured(shown, "2") if part.startswith("think-") else shown)
        self._last, self._is_midline = text[-1:], not text.endswith("\n")

    def _turn_to(self, part: str) -> None:
        """Two that speak do not speak in one line."""
        if part != self._part:
            self.end_line()
            self._part = part

    def end_line(self) -> None:
        """Something else comes next, here or elsewhere."""
        if self._is_midline:
            self._says("\n")
        self._is_midline, self._last = False, ""
        held, self._held = self._held, []
        for record in held:
            self._tells(f"{told(record)}\n")


def _print(text: str) -> None:
    print(text, end="", flush=True)


def point_out(asked: Any, run_id: str, item: Record | LiveText) -> None:
    """What a person can do about what has just happened."""
    if asked.json or not isinstance(item, Record):
        return
    match item.event:
        case QuestionAsked(kind="approval", question=question):
            print(f"      pullcord approve {run_id} {question}", file=sys.stderr)
        case QuestionAsked(kind="question" | "doubt", question=question):
            print(f"      pullcord answer {run_id} {question} VALUE", file=sys.stderr)
        case PauseRequested(limits=limits) if limits:
            for cap in caps_in(limits):
                print(f"      pullcord raise {run_id} {cap}=...", file=sys.stderr)
        case Paused():
            print(f"      pullcord resume {run_id}", file=sys.stderr)
        case _:
            pass


def record_line(record: Record) -> dict[str, Any]:
    """A record as JSON shows it."""
    event = msgspec.Raw(encode_event(record.event))
    said = {"seq": record.seq, "at_ms": record.at_ms, "epoch": record.epoch, "event": event}
    return said | ({"drift_ms": record.drift_ms} if record.drift_ms else {})


def told(record: Record) -> str:
    """One record in one line."""
    event = record.event
    when = time.strftime("%H:%M:%S", time.localtime(record.at_ms / 1000))
    return f"{coloured(f'{record.seq:>4} {when}', '2')}  {in_words(event)}"


def _bill(spent: Spent) -> str:
    """What a call has cost, as far as anybody knows."""
    about = "about " if spent.estimated else ""
    read, wrote = ("?" if n is None else f"{n:,}" for n in (spent.tokens_in, spent.tokens_out))
    cost = "cost unknown"
    if spent.cost_usd_micros is not None:
        cost = f"${spent.cost_usd_micros / 1e6:.4f}"
    return f"{about}{read} tokens read, {wrote} written, {cost}"


def in_words(event: Any) -> str:
    """What happened, without when."""
    name = TAGS[type(event)].replace("_", " ")
    match event:
        case ItemRewritten():
            return f"{name}\n{diff(event.before, event.after)}"
        case StepStarted(model=model) if model:
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            return f"◆ asking {line(model)}{again}"
        case StepFinished(step=step) if step.startswith("model-"):
            return "◆ answered"
        case Spent():
            return f"  {_bill(event)}"
        case StepStarted():
            return f"● {line(event.name)}" + (
                f" (attempt {event.attempt})" if event.attempt > 1 else ""
            )
        case StepFinished():
            return f"✓ {line(json.dumps(value_of(event.result)), 60)}"
        case StepFailed():
            where = f" ({line(event.at)})" if event.at else ""
            return f"✕ {name}: {line(event.error, 1000)}{where}"
        case Failed():
            return f"✕ {name}: {line(event.error, 1000)}"
        case ItemStarted():
            return f"▸ {line(event.text)}"
        case QuestionAsked(kind="approval"):
            said: Any = value_of(event.details) or {}
            return f"? may it be done: {call(event.tool, said.get('args'))} [{event.question}]"
        case Answered(verdict=verdict) if verdict:
            reason = f" “{line(event.reason)}”" if event.reason else ""
            return f"{verdict} by {plain(event.by)} [{event.question}]{reason}"
        case UndoStarted():
            again = f" (attempt {event.attempt}, after {line(event.error)})" if event.error else ""
            return f"↶ undoing {event.step}{again}"
        case StepUndone():
            return f"↶ undone {event.step}"
        case UndoFailed():
            return f"✕ {event.step} could not be undone: {line(event.error, 1000)}"
        case StepInterrupted(rung=rung):
            left = f" · still running: {line(', '.join(event.still_running), 200)}"
            how = f" · {_RUNG[rung]}" if rung else ""
            return f"■ stopped{how}{left if event.still_running else ''}"
        case Paused(frozen=frozen) if frozen:
            return f"{name} · frozen as long as its process lives: {line(', '.join(frozen))}"
        case QuestionAsked():
            return f"? {line(event.text, 200)} [{event.question}]"
        case Redirected():
            return f"↪ {plain(event.by)}: “{line(event.instruction)}”"
        case Stopped():
            return f"⊘ stopped by its limits: {', '.join(event.leaves)}"
        case Completed():
            return f"✓ completed {line(json.dumps(value_of(event.result)), 60)}"
        case TextEnded():
            return f"“{line(event.text)}”" + ("" if event.complete else " ■ cut here")
        case Forgotten():
            return f"∅ all before this was deleted by {plain(event.by)}: {line(event.reason)}"
        case Asked():
            reason = f" “{line(event.reason)}”" if event.reason else ""
            return f"{name} by {plain(event.by)}{reason}"
        case _:
            return name
