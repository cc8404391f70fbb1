"""A run in words, record by record, as it happens or as it happened."""

import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from pullcord.cli.as_json import to_json
from pullcord.cli.render.run_text import coloured, diff, line, plain
from pullcord.core.events import (
    Event,
    ItemRewritten,
    Paused,
    PauseRequested,
    QuestionAsked,
    Record,
    Spent,
    StepFinished,
    TextEnded,
    encode_event,
)
from pullcord.core.limits import caps_in
from pullcord.core.show import story
from pullcord.core.show.story import Names
from pullcord.core.show.words import CUT
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import Cursor
from pullcord.journal.views.local_viewer import LocalViewer

Write: TypeAlias = Callable[[str], None]
_LONGEST: Final = 1200  # characters of one line; an error is cut earlier


class Narration:
    """A run, told line by line as it happens. `says` takes what it says, `tells` the rest."""

    def __init__(
        self,
        run_id: str,
        *,
        as_json: bool = False,
        says: Write | None = None,
        tells: Write | None = None,
        reader: LocalViewer | None = None,
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
        self._names = Names()

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
            self._names.learn(item.event)
            self._held.append(item)
        else:
            self.end_line()
            self._tells(f"{told_line(item, self._names)}\n")
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
            self._says(coloured(f" {CUT}", "2"))
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
            self._tells(f"{told_line(record, self._names)}\n")


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


def told_line(record: Record, names: Names) -> str:
    """One record in one line, with its number and its time."""
    when = time.strftime("%H:%M:%S", time.localtime(record.at_ms / 1000))
    return f"{coloured(f'{record.seq:>4} {when}', '2')}  {in_words(record, names)}"


def in_words(record: Record, names: Names) -> str:
    """What happened, without when; what a redirect has changed, in two lines more."""
    said = line(story.line(story.tell(record, names)), _LONGEST)
    event = record.event
    return (
        f"{said}\n{diff(event.before, event.after)}" if isinstance(event, ItemRewritten) else said
    )
