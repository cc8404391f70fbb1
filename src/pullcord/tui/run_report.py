"""What one run did, made of its records and its live text as they come. Decides nothing.

The same parts as on the page: the items of a plan, each with what happened while it was under
way; the stretches of time; who pressed what.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from pullcord.core.events import (
    TAGS,
    Answered,
    Cancelled,
    CancelRequested,
    Completed,
    Event,
    Failed,
    ItemRewritten,
    ItemStarted,
    Paused,
    PauseRequested,
    PlanEnded,
    Planned,
    QuestionAsked,
    QuestionWithdrawn,
    Record,
    Redirected,
    Resumed,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    Stopped,
    TextEnded,
)
from pullcord.core.run import output_part
from pullcord.core.show.story import Names, Told, tell
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import Item
from pullcord.tui.shown_items import (
    Section,
    ShownNote,
    ShownQuestion,
    ShownStep,
    ShownText,
    Stretch,
)

_DECIDES: Final = (StepFinished, StepFailed, StepInterrupted, StepInDoubt)


class RunReport:
    """What one run did so far."""

    def __init__(self) -> None:
        self.sections = [Section()]
        self.texts: list[ShownText] = []
        self.stretches: list[Stretch] = []
        self.seq = 0  # the last record that is in it
        self.began_ms = 0
        self.at_ms = 0
        self.result = ""
        self.error = ""
        self.is_over = False
        self._current = self.sections[0]
        self._steps: dict[str, ShownStep] = {}
        self._parts: dict[str, ShownText] = {}
        self._asked: dict[str, ShownQuestion] = {}
        self._outputs: set[str] = set()
        self._names = Names()
        self._stop: ShownNote | None = None  # a pause or cancel that is not in effect yet

    def take(self, items: Iterable[Item]) -> None:
        """Add what has happened."""
        for _, what in items:
            if isinstance(what, LiveText):
                self._part(what.part).text += what.text
            else:
                self.seq, self.at_ms = what.seq, what.at_ms
                self.began_ms = self.began_ms or what.at_ms
                turn(self.stretches, what)
                self._record(what, tell(what, self._names))

    def notes(self) -> Iterator[ShownNote | ShownQuestion]:
        """Who pressed, said or answered what, in order."""
        for section in self.sections:
            for entry in section.entries:
                if (isinstance(entry, ShownNote) and entry.is_press) or isinstance(
                    entry, ShownQuestion
                ):
                    yield entry

    def worked_ms(self, from_ms: int, to_ms: int) -> int:
        """How much of this time the run was not paused: what is frozen does not work."""
        held = ((s.from_ms, s.to_ms or to_ms) for s in self.stretches if s.pace == "paused")
        inside = (min(to_ms, to) - max(from_ms, since) for since, to in held)
        return to_ms - from_ms - sum(ms for ms in inside if ms > 0)

    # --- one record ---

    def _record(self, record: Record, told: Told) -> None:
        event, at_ms = record.event, record.at_ms
        for step in self._steps.values() if told.open else ():
            step.says = step.says if step.to_ms else told.open
        match event:
            case Planned() | ItemRewritten() | ItemStarted() | PlanEnded():
                self._planned(event, at_ms)
            case TextEnded():
                self._text_ended(event)
            case QuestionAsked():
                self._question(event, told, at_ms)
            case Answered():
                self._answered(event, told)
            case QuestionWithdrawn(question=question):
                self._settle(question, "withdrawn", told.says)
            case Paused() | Cancelled():
                self._in_effect(told, at_ms)
                self._end(event, at_ms)
            case Completed() | Stopped() | Failed():
                self._end(event, at_ms)
            case StepStarted():
                self._started(event, told, at_ms)
            case _ if not told.tone:
                self._step_changed(event, told, at_ms)
            case _:
                self._note(event, told, at_ms)

    # --- plans ---

    def _planned(self, event: Any, at_ms: int) -> None:
        match event:
            case Planned():
                for number, item in enumerate(event.items, start=1):
                    status = "done" if number <= event.started else "queued"
                    made = Section(number, event.plan, item.id, item.title, status)
                    self.sections.append(made)
            case ItemRewritten() if section := self._section(event.plan, event.item):
                section.before.append(event.before)
                section.text = event.after
            case ItemStarted() if section := self._section(event.plan, event.item):
                self._close(event.plan, "done", at_ms)
                section.text, section.status, section.from_ms = event.text, "running", at_ms
                self._current = section
            case PlanEnded():
                self._close(event.plan, "done", at_ms)
                self._current = Section()
                self.sections.append(self._current)
            case _:
                pass

    def _section(self, plan: str, item: str) -> Section | None:
        return next((s for s in self.sections if s.plan == plan and s.item == item), None)

    def _close(self, plan: str, status: Literal["done", "interrupted"], at_ms: int) -> None:
        for section in self.sections:
            if section.number and section.status == "running" and plan in ("", section.plan):
                section.status, section.to_ms = status, at_ms

    # --- steps ---

    def _started(self, event: StepStarted, told: Told, at_ms: int) -> None:
        self._outputs.add(output_part(event.step, event.attempt))
        if (step := self._steps.get(event.step)) is None:
            self._steps[event.step] = step = ShownStep(
                told.about, at_ms, is_model=bool(event.model)
            )
            self._current.entries.append(step)
        step.from_ms, step.to_ms = at_ms, 0
        step.sign, step.says, step.facts = told.sign, told.says, told.facts

    def _step_changed(self, event: Any, told: Told, at_ms: int) -> None:
        if (step := self._steps.get(getattr(event, "step", ""))) is None:
            return
        if isinstance(event, Spent):
            step.bill = told.says
            return
        step.sign, step.says, step.facts = told.sign, told.says, told.facts
        if isinstance(event, _DECIDES):
            step.to_ms = at_ms

    # --- text ---

    def _part(self, part: str) -> ShownText:
        if (known := self._parts.get(part)) is None:
            is_output = part in self._outputs
            kind = "output" if is_output else "thought" if part.startswith("think-") else "said"
            self._parts[part] = known = ShownText(kind)
            self.texts.append(known)
            self._current.entries.append(known)
        return known

    def _text_ended(self, event: TextEnded) -> None:
        said = self._part(event.part)
        said.text, said.state = event.text, "whole" if event.complete else "cut"

    # --- questions ---

    def _question(self, event: QuestionAsked, told: Told, at_ms: int) -> None:
        self._asked[event.question] = asked = ShownQuestion(at_ms, event.kind, told.says)
        asked.answer = ", ".join(told.facts)
        if event.kind != "timer":
            self._current.entries.append(asked)

    def _answered(self, event: Answered, told: Told) -> None:
        reason = f" “{told.reason}”" if told.reason else ""
        self._settle(event.question, "answered", f"{told.by} {told.says}".strip() + reason)
        if asked := self._asked.get(event.question):
            asked.is_no = told.sign == "✕"

    def _settle(self, question: str, status: Literal["answered", "withdrawn"], says: str) -> None:
        asked = self._asked.get(question)
        if asked and asked.status == "open":
            asked.status, asked.answer = status, says

    def _withdraw_open(self, *kinds: str) -> None:
        for question, asked in self._asked.items():
            if asked.kind in kinds or not kinds:
                self._settle(question, "withdrawn", "")

    # --- presses ---

    def _note(self, event: Event, told: Told, at_ms: int) -> None:
        is_press = told.tone == "press"
        says = f"{told.about} {told.says}".strip()
        note = ShownNote(at_ms, told.sign, says, told.by, told.reason, is_press=is_press)
        self._current.entries.append(note)
        match event:
            case PauseRequested():
                self._stop = note
            case CancelRequested():
                self._stop = note
                self._withdraw_open()
            case Redirected():
                self._withdraw_open("question", "approval")
            case Resumed():
                self._stop = None
            case _:
                pass

    def _in_effect(self, told: Told, at_ms: int) -> None:
        if self._stop:
            self._stop.then, self._stop.how = told.says, told.facts
            self._stop.took_ms = at_ms - self._stop.at_ms
            self._stop = None

    def _end(self, event: Any, at_ms: int) -> None:
        if isinstance(event, Paused):
            return
        self.is_over = True
        self._close("", "done" if isinstance(event, Completed) else "interrupted", at_ms)
        self._withdraw_open()
        raw = bytes(getattr(event, "result", b"null"))[:2000].decode(errors="replace")
        self.result = "" if raw == "null" else raw
        self.error = getattr(event, "error", "")


_TURNS: Final[dict[str, str | dict[str, str]]] = {
    # record → the pace from there on; by the pace before it, where that matters
    "created": "queued",
    "claimed": {"queued": "working", "waiting": "working", "pausing": "paused"},
    "requeued": "queued",
    "blocked": "waiting",
    "answered": {"waiting": "queued"},
    "child_ended": {"waiting": "queued"},
    "redirected": {"waiting": "queued"},
    "pause_requested": {"queued": "paused", "working": "pausing", "waiting": "paused"},
    "paused": "paused",
    "resumed": {"pausing": "working", "paused": "queued"},
    "limit_reached": "stopping",
    "cancel_requested": "cancelling",
    "completed": "over",
    "cancelled": "over",
    "stopped": "over",
    "failed": "over",
}


def turn(stretches: list[Stretch], record: Record) -> None:
    """Begin another stretch, if with this record the run is in another state."""
    known = _TURNS.get(TAGS[type(record.event)])
    last = stretches[-1] if stretches else None
    now = known.get(last.pace if last else "") if isinstance(known, dict) else known
    if now is None or (last and (last.pace == now or (last.to_ms and now != "over"))):
        return
    if last and not last.to_ms:
        last.to_ms = record.at_ms
    if now != "over":
        stretches.append(Stretch(now, record.at_ms))
