"""What a verb needs of wherever the runs are: a file or a server, it does not know which."""

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
    """As much of a run as a control needs to know."""

    state: RunState
    driven: bool  # a living process holds it
    still: str = ""  # why that process does not move, if that is known

    @property
    def is_alone(self) -> bool:
        """It needs a process to drive it, and has none."""
        return self.state in NEEDS_OWNER and not self.driven


class RunAccess(Protocol):
    """Runs, looked at and commanded. `Desk` is a store of this machine, `ServerRuns` a server."""

    where: str  # the path or address of it

    def find(self, said: str) -> str:
        """The run that is meant: its whole id, or as much of it as makes it the only one.

        Raises:
            InvalidInput: it may be several, or cannot be an id.
        """
        ...

    def command(self, run_id: str, command: Command) -> Ack:
        """Have it decided. A stop of a run that nobody drives is brought to rest at once."""
        ...

    def glance(self, run_id: str) -> Glance: ...

    def questions(self, run_id: str) -> dict[str, str]:
        """What it asks: the id of each open question, with the digest of the call it is about."""
        ...

    def panel(self, run_id: str) -> "Panel": ...

    def listed(self, states: Iterable[RunState], limit: int) -> "list[Panel]":
        """Newest first."""
        ...

    def ids(self, states: Iterable[RunState], limit: int) -> list[str]:
        """Only their ids, newest first."""
        ...

    def records(self, run_id: str, after: int = 0, limit: int | None = None) -> "list[Record]":
        """Its journal, as viewers see it."""
        ...

    def receipt(self, run_id: str) -> "Receipt": ...

    def waiting(self, run_id: str | None) -> "Inbox":
        """What waits for a person, in one run or in all of them."""
        ...

    def stream(self, run_id: str, after: "Cursor") -> "Iterator[Item]":
        """What has happened after that place and what happens, until the run has ended."""
        ...

    def note_shown(self, run_id: str, said: "StopShown") -> None:
        """Keep what had been shown in this terminal when a stop was heard of. A server knows it
        by itself."""
        ...

    def wait(self, run_id: str, holds: Callable[[], T | None], timeout_s: float | None) -> T | None:
        """Return what `holds` returns as soon as it is something. None: the time is over."""
        ...

    def begin(self, verb: str, run_id: str | None, said: dict[str, Any]) -> str:
        """Start a run (`run`), or one that follows from another; return its id.

        Raises:
            InvalidInput: in a store, a run begins in the process that drives it.
        """
        ...
