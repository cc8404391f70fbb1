"""Where the runs are: what a screen asks of a store on this machine, or of a server elsewhere."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import NamedTuple, Protocol

from pullcord.core.acks import Ack
from pullcord.core.commands import Command
from pullcord.core.receipts import Receipt
from pullcord.core.show.panel import Panel
from pullcord.core.states import RunState
from pullcord.journal.stored_runs.run_records import Item
from pullcord.journal.views.inbox import Inbox


class RunUpdate(NamedTuple):
    """What has happened in a run, as viewers see it. `is_anew`: from its first record on, because
    not all of what was told before may be shown any more."""

    items: Sequence[Item]
    is_anew: bool = False


class ListUpdate(NamedTuple):
    """The runs that have changed, as they are. `is_fresh`: from here on nothing is missed, and
    what came before has to be read. `trouble`: why nothing is heard just now."""

    panels: Sequence[Panel] = ()
    is_fresh: bool = False
    trouble: str = ""


class Source(Protocol):
    """The runs. Every call raises `PullcordError` with a sentence for whoever looks."""

    @property
    def name(self) -> str:
        """Where this is, in words."""
        ...

    async def listed(
        self, states: Iterable[RunState], *, before: str | None, limit: int
    ) -> list[Panel]:
        """Return the newest runs in these states; page on with `before`, a run id."""
        ...

    async def panels(self, *run_ids: str) -> list[Panel]:
        """Return these runs as they are."""
        ...

    def changes(self) -> AsyncGenerator[ListUpdate]:
        """Yield what has become of runs, soon after it has, for ever. First: `is_fresh`."""
        ...

    async def switched_off(self) -> list[str]:
        """Return what the kill switch is engaged for, by whom and why, each in a sentence without
        an end."""
        ...

    def follow(self, run_id: str) -> AsyncGenerator[RunUpdate]:
        """Yield all of a run from its first record on, as viewers see it, then what happens."""
        ...

    async def waiting(self, run_id: str) -> Inbox:
        """Return what of this run waits for a person."""
        ...

    async def receipt(self, run_id: str) -> Receipt:
        """Return what the run has left behind so far."""
        ...

    async def command(self, run_id: str, command: Command) -> Ack:
        """Have a control decided. Returns when it is durable; a refusal is an answer."""
        ...
