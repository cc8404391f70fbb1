"""The lives of runs as spans: `invoke_agent` while it is carried on, and its steps inside.

A span must not stay open for days: it ends when the run rests, and the next life is a span of its
own in the same trace, with a link to the one before. Each life's claim keeps its identity in the
journal, so that is true across processes and restarts.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
)

from pullcord import __version__
from pullcord.core.events import (
    TAGS,
    Event,
    Failed,
    Record,
    Spent,
)
from pullcord.core.run import Run
from pullcord.core.states import TABLE, TERMINAL, RunState
from pullcord.telemetry.attributes import TOLD, kind_of_error, of_event, of_life
from pullcord.telemetry.metrics import Metrics
from pullcord.telemetry.step_spans import StepSpans

_AT_REST = frozenset((RunState.PAUSED, RunState.WAITING, RunState.QUEUED)) | TERMINAL


class Telemetry:
    """Looks on in a program that has loaded OpenTelemetry. Without providers: the program's."""

    def __init__(
        self, traces: trace.TracerProvider | None = None, meters: MeterProvider | None = None
    ) -> None:
        self._tracer = trace.get_tracer("pullcord", __version__, traces)
        self._measures = Metrics(__version__, meters)

    def life(self, run: Run) -> "Traced":
        return Traced(self._tracer, self._measures, run, before=run.life)

    def here(self) -> str:
        return here()


class Traced:
    """One life of a run. The span is begun before the claim, which is to name it; if the claim is
    not granted the span is not ended, and so never was."""

    def __init__(
        self,
        tracer: trace.Tracer,
        measures: Metrics,
        run: Run,
        *,
        before: str,
        told: Sequence[Event] = (),
    ) -> None:
        self._tracer, self._measures = tracer, measures
        self._under = run.trace  # what all lives of the run belong to
        self._before = before
        self._span: Span | None = None
        self._state = run.state
        self._is_carried = False
        self._untold = list(told)  # what happened while it was at rest
        self._steps = StepSpans(tracer, measures)
        self.trace = ""
        self._open(run)

    def began(self, run: Run) -> None:
        self._state, self._is_carried = run.state, True
        self._measures.carries(run, run.state, 1)
        if self._span:
            self._span.set_attribute("pullcord.run.epoch", run.epoch)
        for event in self._untold:
            self._tell(event)
        self._untold.clear()
        if self._state in (RunState.PAUSED, RunState.WAITING):
            self._close(run)

    def again(self, run: Run) -> "Traced":
        before = self.trace or self._before
        return Traced(self._tracer, self._measures, run, before=before, told=self._untold)

    def saw(self, run: Run, records: Sequence[Record]) -> None:
        spent = {r.event.step: r.event for r in records if isinstance(r.event, Spent)}
        for record in records:
            self._saw(run, record.event, spent)

    def ended(self, run: Run) -> None:
        if self._is_carried:
            self._is_carried = False
            self._measures.carries(run, self._state, -1)
        self._steps.leave()
        self._close(run)

    @contextmanager
    def inside(self, step: str = "") -> Generator[None]:
        span = self._steps.of(step) or self._span
        if span is None:
            yield
            return
        token = contexts.attach(trace.set_span_in_context(span))
        try:
            yield
        finally:
            contexts.detach(token)

    # --- its span ---

    def _open(self, run: Run) -> None:
        parent = as_context(self._under)
        links = [Link(found) for found in (as_context(self._before),) if found]
        self._span = self._tracer.start_span(
            f"invoke_agent {run.agent}",
            context=_under(parent) if parent else Context(),
            attributes=of_life(run),
            links=links,
        )
        self.trace = as_text(self._span.get_span_context())
        self._under = self._under or self.trace

    def _close(self, run: Run, error: str = "") -> None:
        span, self._span = self._span, None
        if span is None:
            return
        span.set_attribute("pullcord.run.state", self._state.value)
        if self._state in TERMINAL:
            span.set_attribute("pullcord.run.outcome", self._state.value)
        if self._state is RunState.FAILED:
            span.set_attribute("error.type", kind_of_error(error or run.error))
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _saw(self, run: Run, event: Event, spent: dict[str, Spent]) -> None:
        self._measures.asked(run, event)
        after = TABLE[self._state].on.get(TAGS[type(event)], self._state)
        before, self._state = self._state, after
        if after is not before and self._is_carried:
            self._measures.carries(run, before, -1)
            self._measures.carries(run, after, 1)
        if self._span is None and after not in _AT_REST:
            self._before = self.trace
            self._open(run)  # cancelled, say, while it was at rest
            for told in self._untold:
                self._tell(told)
            self._untold.clear()
        if isinstance(event, TOLD):
            self._tell(event)
        self._steps.saw(event, spent, within=self._span)
        if after is not before:
            if after is run.state:
                self._measures.took_hold(run)
            if after in _AT_REST:
                self._close(run, event.error if isinstance(event, Failed) else "")

    def _tell(self, event: Event) -> None:
        if self._span is None:
            self._untold.append(event)
        else:
            name, attributes = of_event(event)
            self._span.add_event(name, dict(attributes))


def _under(parent: trace.SpanContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


_FORM: Final = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def as_text(context: SpanContext) -> str:
    """Empty: there is no span."""
    if not context.is_valid:
        return ""
    flags = int(context.trace_flags)
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"


def as_context(text: str) -> SpanContext | None:
    """None: it is not the identity of a span."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    made = SpanContext(int(found[1], 16), int(found[2], 16), True, TraceFlags(int(found[3], 16)))
    return made if made.is_valid else None


def here() -> str:
    """Of the span that is current."""
    return as_text(trace.get_current_span().get_span_context())
