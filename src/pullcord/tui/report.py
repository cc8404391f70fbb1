"""What one run did, made of its records and its live text as they come. Decides nothing.

The same parts as on the page: the items of a plan, each with what happened while it was under
way; the stretches of time; who pressed what.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from pullcord.core.events import (
    Answered,
    Cancelled,
    CancelRequested,
    Claimed,
    Completed,
    Event,
    Failed,
    ItemRewritten,
    ItemStarted,
    LateResult,
    LimitReached,
    Paused,
    PauseRequested,
    PlanEnded,
    Planned,
    QuestionAsked,
    QuestionWithdrawn,
    Redirected,
    Resumed,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    Stopped,
    TextEnded,
    UndoFailed,
    UndoStarted,
)
from pullcord.core.events import Asked as AskedEvent
from pullcord.core.run import output_part
from pullcord.core.values import load as value_of
from pullcord.journal.reading import Item
from pullcord.journal.store import LiveText
from pullcord.tui.happened import as_json, bill, call_of, faint, pressed
from pullcord.tui.pace import turn
from pullcord.tui.seen import Asked, Note, Said, Section, Step, Stretch

_VERDICT: Final = {
    "approved": "approved it",
    "denied": "denied it",
    "edited": "changed the arguments",
}


class Report:
    """What one run did so far."""

    def __init__(self) -> None:
        self.sections = [Section()]
        self.texts: list[Said] = []
        self.stretches: list[Stretch] = []
        self.seq = 0  # the last record that is in it
        self.began_ms = 0
        self.at_ms = 0
        self.result = ""
        self.error = ""
        self.is_over = False
        self._current = self.sections[0]
        self._steps: dict[str, Step] = {}
        self._parts: dict[str, Said] = {}
        self._asked: dict[str, Asked] = {}
        self._outputs: set[str] = set()
        self._stop: Note | None = None  # a pause or cancel that is not in effect yet

    def take(self, items: Iterable[Item]) -> None:
        """Add what has happened."""
        for _, what in items:
            if isinstance(what, LiveText):
                self._part(what.part).text += what.text
            else:
                self.seq, self.at_ms = what.seq, what.at_ms
                self.began_ms = self.began_ms or what.at_ms
                if isinstance(what.event, Claimed):
                    self._taken_over(what.at_ms)
                turn(self.stretches, what)
                self._record(what.event, what.at_ms)

    def notes(self) -> Iterator[Note | Asked]:
        """Who pressed, said or answered what, in order."""
        for section in self.sections:
            for entry in section.entries:
                if (isinstance(entry, Note) and entry.is_press) or isinstance(entry, Asked):
                    yield entry

    # --- one record ---

    def _record(self, event: Event, at_ms: int) -> None:
        match event:
            case Planned() | ItemRewritten() | ItemStarted() | PlanEnded():
                self._planned(event, at_ms)
            case TextEnded():
                self._text_ended(event)
            case QuestionAsked():
                self._question(event, at_ms)
            case Answered():
                self._answered(event)
            case QuestionWithdrawn(question=question):
                self._settle(question, "withdrawn", event.why)
            case AskedEvent():
                self._press(event, at_ms)
            case Paused() | Cancelled():
                self._in_effect(at_ms)
                self._end(event, at_ms)
            case Completed() | Stopped() | Failed():
                self._end(event, at_ms)
            case StepStarted():
                self._started(event, at_ms)
            case Spent(step=step) if step in self._steps:
                self._steps[step].bill = bill(event)
            case _:
                self._step_changed(event, at_ms)
                self._told(event, at_ms)

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

    def _started(self, event: StepStarted, at_ms: int) -> None:
        self._outputs.add(output_part(event.step, event.attempt))
        if known := self._steps.get(event.step):
            known.attempt, known.status, known.to_ms = event.attempt, "running", 0
            known.from_ms, known.says = at_ms, ""
            return
        self._steps[event.step] = step = Step(
            event.name,
            at_ms,
            model=event.model,
            tool=event.tool,
            effect=event.effect,
            undoable=event.undoable,
            run_in=event.run_in,
            attempt=event.attempt,
        )
        self._current.entries.append(step)

    def _step_changed(self, event: Any, at_ms: int) -> None:
        if (step := self._steps.get(getattr(event, "step", ""))) is None:
            return
        match event:
            case StepFinished():
                step.status, step.to_ms, step.result = "done", at_ms, as_json(event.result)
            case StepFailed():
                maybe = " It may have had its effect." if event.happened else ""
                where = f" ({event.at})" if event.at else ""
                step.status, step.to_ms, step.says = "failed", at_ms, event.error + where + maybe
            case StepInterrupted():
                step.status = "interrupted" if event.began else "not_started"
                step.to_ms = at_ms
            case StepInDoubt():
                step.status, step.to_ms, step.says = "in_doubt", at_ms, event.why
            case LateResult() if not event.error:
                step.is_late = True
            case UndoStarted():
                step.undo = "undoing"
            case StepUndone():
                step.undo = "undone"
            case UndoFailed():
                step.undo, step.says = "failed", event.error
            case _:
                pass

    # --- text ---

    def _part(self, part: str) -> Said:
        if (known := self._parts.get(part)) is None:
            is_output = part in self._outputs
            kind = "output" if is_output else "thought" if part.startswith("think-") else "said"
            self._parts[part] = known = Said(kind)
            self.texts.append(known)
            self._current.entries.append(known)
        return known

    def _text_ended(self, event: TextEnded) -> None:
        said = self._part(event.part)
        said.text, said.state = event.text, "whole" if event.complete else "cut"

    # --- questions ---

    def _question(self, event: QuestionAsked, at_ms: int) -> None:
        says = event.text
        if event.kind == "approval":
            details: Any = value_of(event.details) or {}
            says = call_of(event.tool, details.get("args"))
        self._asked[event.question] = asked = Asked(at_ms, event.kind, says)
        if event.kind != "timer":
            self._current.entries.append(asked)

    def _answered(self, event: Answered) -> None:
        said = _VERDICT.get(event.verdict) or f"answered {as_json(event.value)}"
        reason = f" “{event.reason}”" if event.reason else ""
        answer = "Nobody answered in time" if event.verdict == "expired" else f"{event.by} {said}"
        self._settle(event.question, "answered", answer + reason)
        if asked := self._asked.get(event.question):
            asked.is_no = event.verdict in ("denied", "expired")

    def _settle(self, question: str, status: Literal["answered", "withdrawn"], says: str) -> None:
        asked = self._asked.get(question)
        if asked and asked.status == "open":
            asked.status, asked.answer = status, says

    def _withdraw_open(self, *kinds: str) -> None:
        for question, asked in self._asked.items():
            if asked.kind in kinds or not kinds:
                self._settle(question, "withdrawn", "")

    # --- presses ---

    def _press(self, event: Any, at_ms: int) -> None:
        sign, says = pressed(event)
        is_limit = event.source == "limit"
        by = "" if isinstance(event, LimitReached) else "Its limits" if is_limit else event.by
        note = Note(at_ms, sign, says, by, event.reason, is_press=True)
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

    def _in_effect(self, at_ms: int) -> None:
        if self._stop:
            self._stop.took_ms = at_ms - self._stop.at_ms
            self._stop = None

    def _taken_over(self, at_ms: int) -> None:
        if self.stretches and self.stretches[-1].pace == "working":
            says = "Its process was gone. Another one took it over."
            self._current.entries.append(Note(at_ms, "·", says))

    def _told(self, event: Any, at_ms: int) -> None:
        if says := faint(event):
            self._current.entries.append(Note(at_ms, "·", says))

    def _end(self, event: Any, at_ms: int) -> None:
        if isinstance(event, Paused):
            return
        self.is_over = True
        self._close("", "done" if isinstance(event, Completed) else "interrupted", at_ms)
        self._withdraw_open()
        self.result = as_json(getattr(event, "result", b"null"))
        self.error = getattr(event, "error", "")
