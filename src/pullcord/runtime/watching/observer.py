"""Who looks on while runs are driven. It is told what is recorded, and changes nothing.

With OpenTelemetry in the program it is `pullcord.telemetry`, else nobody, and nothing is loaded
for it: a program that has not loaded OpenTelemetry has nowhere to send anything.
"""

import logging
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from pullcord.core.events import Created, Record
from pullcord.core.run import Run
from pullcord.journal.journal import Journal
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord import telemetry
else:
    telemetry = lazy_import("pullcord.telemetry")

_log: Final = logging.getLogger("pullcord.runtime")
_FAILED: Final = "Telemetry failed. The run is not affected; the rest of this life is not seen."


class Life(Protocol):
    """One life of a run: from where a process claims it until it rests, or is let go."""

    trace: str  # by which the lives after it find it; empty: they do not

    def began(self, run: Run, /) -> None:
        """The claim was granted. Without this, nothing of it has happened."""
        ...

    def saw(self, run: Run, records: Sequence[Record], /) -> None:
        """These were recorded together, by this process or another, and led to `run`."""
        ...

    def again(self, run: Run, /) -> "Life":
        """The life after this one, should the same process get to claim the run once more."""
        ...

    def ended(self, run: Run, /) -> None:
        """This process has let go of it. Safe to call twice."""
        ...

    def inside(self, step: str = "", /) -> AbstractContextManager[object]:
        """While inside, what is begun belongs to this step, or to the agent itself."""
        ...


class Observer(Protocol):
    def life(self, run: Run, /) -> Life: ...
    def here(self) -> str:
        """What a run that is started now belongs to; empty: nothing."""
        ...


class _Unobserved:
    trace = ""

    def began(self, _run: Run) -> None: ...
    def saw(self, _run: Run, _records: Sequence[Record]) -> None: ...
    def ended(self, _run: Run) -> None: ...
    def again(self, _run: Run) -> Life:
        return self

    def inside(self, _step: str = "") -> AbstractContextManager[object]:
        return nullcontext()


UNSEEN: Final[Life] = _Unobserved()


def traced(born: Created, observer: Observer | None) -> Created:
    """With what a run belongs to that is started here and now."""
    here = observer.here() if observer else ""
    return msgspec.structs.replace(born, trace=here) if here else born


async def life_of(observer: Observer | None, journal: Journal, run_id: str) -> Life:
    """The next life of a run, should this process get to claim it."""
    if observer is None:
        return UNSEEN
    run = await journal.load(run_id)
    return _Harmless.made(lambda: observer.life(run))


class _Harmless:
    """A life whose observer may fail: an exporter is somebody's code. Then nobody looks on."""

    def __init__(self, life: Life) -> None:
        self._life, self.trace = life, life.trace

    @classmethod
    def made(cls, make: Callable[[], Life]) -> Life:
        try:
            return cls(make())
        except Exception:
            _log.exception(_FAILED)
            return UNSEEN

    def began(self, run: Run) -> None:
        self._try(lambda life: life.began(run))

    def saw(self, run: Run, records: Sequence[Record]) -> None:
        self._try(lambda life: life.saw(run, records))

    def again(self, run: Run) -> Life:
        return self.made(lambda: self._life.again(run))

    def ended(self, run: Run) -> None:
        self._try(lambda life: life.ended(run))

    @contextmanager
    def inside(self, step: str = "") -> Generator[None]:
        with ExitStack() as entered:
            self._try(lambda life: entered.enter_context(life.inside(step)))
            yield

    def _try(self, do: Callable[[Life], object]) -> None:
        try:
            do(self._life)
        except Exception:
            self._life = UNSEEN
            _log.exception(_FAILED)


def observer() -> Observer | None:
    """OpenTelemetry, if this program has loaded it."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    return telemetry.Telemetry()
