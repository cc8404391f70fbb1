"""Seals everything before the journal writes it: references take the place of secrets."""

from operator import is_
from typing import TypeVar

import msgspec

from pullcord.core.commands import Command, Forget, check_command
from pullcord.core.events import Event, TextEnded
from pullcord.core.stops import Act
from pullcord.core.text.sealing import sealed
from pullcord.core.text.secrets import Secrets
from pullcord.core.values import check_id
from pullcord.journal.change_checks import check_change
from pullcord.journal.rules.ledger import Change, Order

C = TypeVar("C", bound=Command | Forget)
E = TypeVar("E", bound=Event)


class Seal:
    """Everything that the journal writes passes through here first."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def event(self, event: E) -> E:
        """Return the event as the journal writes it."""
        return sealed(event, self._secrets, streamed=(TextEnded,))

    def changes(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Return the changes as the journal writes them, checked again.

        An id with a reference in it is no id, so the check refuses it.
        """
        return tuple(map(self._change, changes)) if self._secrets else changes

    def command(self, command: C) -> C:
        """Return the command as the journal writes it, checked again."""
        return check_command(sealed(command, self._secrets)) if self._secrets else command

    def act(self, act: Act) -> Act:
        """Return the act as the stop log keeps it."""
        return sealed(act, self._secrets) if self._secrets else act

    def text(self, text: str) -> str:
        """Return a name, a version or a text, with a reference for each registered secret."""
        return self._secrets.seal(text)

    def _change(self, change: Change) -> Change:
        check_id(self.text(change.run_id))
        if isinstance(change, Order):
            written: Change = Order(change.run_id, sealed(change.command, self._secrets))
        else:
            events = tuple(self.event(event) for event in change.events)
            if all(map(is_, events, change.events)):
                return change
            written = msgspec.structs.replace(change, events=events)
        check_change(written)
        return written
