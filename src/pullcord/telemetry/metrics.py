"""The metrics: how many runs a process carries, how long requests and stops take, what is used."""

from opentelemetry import metrics

from pullcord.core.events import Event, Spent
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.telemetry.attributes import VERBS, source_of

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)


class Metrics:
    """The instruments."""

    def __init__(self, version: str, provider: metrics.MeterProvider | None = None) -> None:
        meter = metrics.get_meter("pullcord", version, provider)
        self._runs = meter.create_up_down_counter(
            "pullcord.runs", "{run}", "Runs that this process has in memory, by state"
        )
        self._stops = meter.create_counter(
            "pullcord.stops", "{stop}", "Stops that were asked for, by verb and source"
        )
        self._stopping = meter.create_histogram(
            "pullcord.stop.duration",
            "s",
            "From when a stop was asked for until it had taken hold",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._asking = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )

    def carries(self, run: Run, state: RunState, by: int) -> None:
        """One run more, or less, in this state."""
        self._runs.add(by, {"pullcord.run.state": state.value, "gen_ai.agent.name": run.agent})

    def asked(self, run: Run, event: Event) -> None:
        if verb := VERBS.get(type(event)):
            said = {"pullcord.verb": verb, "pullcord.source": source_of(event)}
            self._stops.add(1, said | {"gen_ai.agent.name": run.agent})

    def took_hold(self, run: Run) -> None:
        """A stop of the run has taken hold in the state it is in now."""
        cancel, pause, limit = run.cancel, run.pause, run.reached
        match run.state:
            case RunState.CANCELLED if cancel:
                verb, source, since, until = "cancel", cancel.source, *_times(cancel)
            case RunState.PAUSED if pause:
                verb, source, since, until = "pause", pause.source, *_times(pause)
            case RunState.STOPPED if limit:
                verb, source, since, until = "stop", "limit", *_times(limit)
            case _:
                return
        said = {"pullcord.verb": verb, "pullcord.source": source}
        if since and until:
            self._stopping.record((until - since) / 1000, said)

    def was_asked(self, model: str, seconds: float, error: str = "") -> None:
        """A request to a model has come to its end."""
        said = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
        self._asking.record(seconds, said | ({"error.type": error} if error else {}))

    def spent(self, model: str, spent: Spent) -> None:
        said = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
        for kind, tokens in (("input", spent.tokens_in), ("output", spent.tokens_out)):
            if tokens is not None:
                self._tokens.record(tokens, said | {"gen_ai.token.type": kind})


def _times(stop: object) -> tuple[int, int]:
    return getattr(stop, "asked_at_ms", 0), getattr(stop, "effect_at_ms", 0)
