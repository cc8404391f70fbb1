"""One run, as a terminal looks at it and commands it: through the journal, without a loop."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullcord.cli.local_runs import LocalRuns
from pullcord.core.commands import Command
from pullcord.core.show.panel import Panel
from pullcord.journal.stored_runs.run_records import Cursor, Item
from pullcord.journal.views.for_people import ForPeople
from pullcord.journal.views.inbox import Card, Open


class RunSeen(NamedTuple):
    """The run as it is now, and what of it and its children waits for a person's word."""

    panel: Panel
    cards: list[Card]
    questions: list[Open]


class LocalRun:
    """`hold_s`: how long a pause lets a model finish its answer."""

    def __init__(self, here: LocalRuns, run_id: str, *, after: Cursor, hold_s: float) -> None:
        self._here = here
        self._run_id = run_id
        self._hold_s = hold_s
        self._after = after

    def look(self) -> RunSeen:
        def look(at: ForPeople) -> RunSeen:
            waiting = at.family_inbox(self._run_id)
            return RunSeen(at.panel(self._run_id), waiting.cards, waiting.questions)

        return self._here.look(look, hold_s=self._hold_s)

    def news(self) -> Sequence[Item]:
        """What has happened since the last time, as viewers may see it."""
        items, _ = self._here.look(lambda look: look.news(self._run_id, self._after))
        self._after = items[-1][0] if items else self._after
        return items

    def ask(self, run_id: str, command: Command) -> Any:
        """Return the answer, durable. A stop also takes hold of a run whose process is gone."""
        return self._here.command(run_id, command)
