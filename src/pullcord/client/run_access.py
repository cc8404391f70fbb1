"""The interface through which verbs reach runs, in a store or on a server."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pullcord.core.acks import Ack
from pullcord.core.commands import Command
from pullcord.core.states import NEEDS_OWNER, RunState

if TYPE_CHECKING:
    from pullcord.core.events import Record
    from pullcord.core.receipts import Receipt
    from pullcord.core.show.panel import Panel
    from pullcord.core.stops import StopShown
    from pullcord.journal.stored_runs.run_records import Cursor, Item
    from pullcord.journal.views.inbox import Inbox

T = TypeVar("T")


class Glance(NamedTuple):
    """The part of a run that a control needs."""

    state: RunState
    driven: bool  # a living process drives it
    still: str = ""  # why that process does not move, if known

    @property
    def is_alone(self) -> bool:
        """Whether the run needs a process to drive it, and has none."""
        return self.state in NEEDS_OWNER and not self.driven


class RunAccess(Protocol):
    """Reads and commands runs: `LocalRuns` of a store here, `ServerRuns` of a server."""

    where: str  # path of the store, or address of the server

    def find(self, said: str) -> str:
        """Return the id of the run that a whole id or its unique beginning names.

        Raises:
            InvalidInput: several runs fit, or it cannot be an id.
        """
        ...

    def command(self, run_id: str, command: Command) -> Ack:
        """Send a command and return its answer. A run without a process stops at once."""
        ...

    def glance(self, run_id: str) -> Glance: ...

    def questions(self, run_id: str) -> dict[str, str]:
        """Return each open question's id, with the digest of the call that it is about."""
        ...

    def panel(self, run_id: str) -> "Panel": ...

    def listed(self, states: Iterable[RunState], limit: int) -> "list[Panel]":
        """Return the panels of runs in these states, newest first."""
        ...

    def ids(self, states: Iterable[RunState], limit: int) -> list[str]:
        """Return only the ids of such runs, newest first."""
        ...

    def records(self, run_id: str, after: int = 0, limit: int | None = None) -> "list[Record]":
        """Return the run's records as viewers see them."""
        ...

    def receipt(self, run_id: str) -> "Receipt": ...

    def waiting(self, run_id: str | None) -> "Inbox":
        """Return everything that waits for a person, in one run or in all of them."""
        ...

    def stream(self, run_id: str, after: "Cursor") -> "Iterator[Item]":
        """Yield everything after that place, until the run has ended."""
        ...

    def note_shown(self, run_id: str, said: "StopShown") -> None:
        """Record how much this terminal had shown at a stop. A server does so itself."""
        ...

    def wait(self, run_id: str, holds: Callable[[], T | None], timeout_s: float | None) -> T | None:
        """Return the first value of `holds` that is not None. None: the time is over."""
        ...

    def begin(self, verb: str, run_id: str | None, said: dict[str, Any]) -> str:
        """Start a run (`run`), or one that follows from another; return its id.

        Raises:
            InvalidInput: in a store, the process that drives a run starts it.
        """
        ...
