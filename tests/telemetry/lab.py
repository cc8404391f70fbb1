"""A program with OpenTelemetry's own SDK, which keeps everything in memory."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from pullcord.telemetry import Telemetry


class Lab:
    """What was exported."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.traces = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.traces.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def observer(self) -> Telemetry:
        return Telemetry(self.traces, self.meters)

    def spans(self, begins: str = "") -> list[Any]:
        """In the order in which they began."""
        found = self._exporter.get_finished_spans()
        ours = [span for span in found if span.name.startswith(begins)]
        return sorted(ours, key=lambda span: span.start_time or 0)

    def one(self, begins: str) -> Any:
        [span] = self.spans(begins)
        return span

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def everything(self) -> str:
        """All of it as text, to look for what must not be in it."""
        data = self._reader.get_metrics_data()
        return "\n".join(span.to_json() for span in self.spans()) + (data.to_json() if data else "")
