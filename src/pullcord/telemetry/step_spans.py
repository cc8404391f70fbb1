"""The steps of one life as spans: requests to models, calls of tools, plain steps, and undoing."""

import time
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from pullcord.core.events import (
    Event,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    UndoFailed,
    UndoStarted,
)
from pullcord.telemetry.attributes import kind_of_error, of_step
from pullcord.telemetry.metrics import Metrics


class _Open(NamedTuple):
    span: Span
    model: str
    since_s: float


class StepSpans:
    """What is under way in one life, by step."""

    def __init__(self, tracer: Tracer, measures: Metrics) -> None:
        self._tracer, self._measures = tracer, measures
        self._open: dict[str, _Open] = {}
        self._models: dict[str, str] = {}  # of decided steps, until their cost is known
        self._undoing: dict[str, Span] = {}

    def of(self, step: str) -> Span | None:
        found = self._open.get(step)
        return found.span if found else None

    def saw(self, event: Event, spent: dict[str, Spent], *, within: Span | None) -> None:
        match event:
            case StepStarted():
                self._begin(event, within)
            case StepFinished():
                self._end(event.step, "finished", spent)
            case StepFailed():
                self._end(event.step, "failed", spent, error=kind_of_error(event.error))
            case StepInterrupted():
                self._end(event.step, "interrupted", spent, rung=event.rung)
            case StepInDoubt():
                self._end(event.step, "in_doubt", spent, error="in_doubt")
            case Spent() if model := self._models.pop(event.step, ""):
                self._measures.spent(model, event)
            case UndoStarted():
                self._undo(event, within)
            case StepUndone():
                self._undone(event.step)
            case UndoFailed():
                self._undone(event.step, error=kind_of_error(event.error))
            case _:
                pass

    def leave(self) -> None:
        """The process lets go of them: what becomes of each is decided in another life."""
        for step in list(self._open):
            self._end(step, "left", {})
        for step in list(self._undoing):
            self._undone(step)

    def _begin(self, event: StepStarted, within: Span | None) -> None:
        name, attributes = of_step(event)
        kind = SpanKind.CLIENT if event.model else SpanKind.INTERNAL
        span = self._tracer.start_span(
            name, context=_in(within), kind=kind, attributes=dict(attributes)
        )
        self._open[event.step] = _Open(span, event.model, time.monotonic())

    def _end(
        self, step: str, outcome: str, spent: dict[str, Spent], *, error: str = "", rung: str = ""
    ) -> None:
        known = self._open.pop(step, None)
        if known is None:
            return  # begun in another life
        span = known.span
        span.set_attribute("pullcord.step.outcome", outcome)
        if rung:
            span.set_attribute("pullcord.step.rung", rung)
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        if known.model:
            self._measures.was_asked(known.model, time.monotonic() - known.since_s, error)
            self._models[step] = known.model
            if cost := spent.get(step):
                _say_cost(span, cost)
        span.end()

    def _undo(self, event: UndoStarted, within: Span | None) -> None:
        self._undone(event.step, error=kind_of_error(event.error) if event.error else "")
        attributes = {"pullcord.step.id": event.step, "pullcord.step.attempt": event.attempt}
        self._undoing[event.step] = self._tracer.start_span(
            "undo", context=_in(within), attributes=attributes
        )

    def _undone(self, step: str, error: str = "") -> None:
        if span := self._undoing.pop(step, None):
            if error:
                span.set_attribute("error.type", error)
                span.set_status(Status(StatusCode.ERROR))
            span.end()


def _say_cost(span: Span, cost: Spent) -> None:
    if cost.tokens_in is not None:
        span.set_attribute("gen_ai.usage.input_tokens", cost.tokens_in)
    if cost.tokens_out is not None:
        span.set_attribute("gen_ai.usage.output_tokens", cost.tokens_out)
    if cost.cost_usd_micros is not None:
        span.set_attribute("pullcord.cost_usd", cost.cost_usd_micros / 1_000_000)
    if cost.estimated:
        span.set_attribute("pullcord.usage.estimated", True)


def _in(span: Span | None) -> Context:
    return trace.set_span_in_context(span, Context()) if span else Context()
