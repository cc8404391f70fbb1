"""What the row of a run has to say, by its records.

The row is an index: commands, the kill switch too, find runs by it, and no chain covers it. So
whoever checks a store makes it anew. Of a record only its type is looked at, and of the few that
name an agent, a thread, a parent or an epoch also that: to fold every run would take too long. Who
holds a run, and when a timer of it is due, cannot be had like this, and is not compared.
"""

from typing import Final

import msgspec

from pullcord.core.events import TAGS, Claimed, Created, Forgotten, TakenOver
from pullcord.core.states import TABLE, RunState
from pullcord.journal.store import Kept

_BEGINS: Final = b'{"type":"'
_AT: Final = len(_BEGINS)
_KNOWN: Final = frozenset(tag.encode() for tag in TAGS.values())
_MOVES: Final = {
    state: {tag.encode(): after for tag, after in row.on.items()} for state, row in TABLE.items()
}
_NOTHING_OF_OURS: Final = "it is nothing that pullcord has written"


class _Names(msgspec.Struct):
    """What a record that creates, claims or forgets a run says of it."""

    agent: str = ""
    thread: str = ""
    parent: str | None = None
    state: str = ""
    epoch: int = 0


_names: Final = msgspec.json.Decoder(_Names)


class ExpectedRow:
    """The row of one run, made of its records, one after the other."""

    def __init__(self) -> None:
        self.is_forgotten = False
        self._is = _Names()
        self._state: RunState | None = None  # before the first, or behind one of a newer pullcord
        self._has_begun = False

    def add(self, payload: bytes) -> str:
        """Take the next record that says something. Returns why it cannot be the next, if so."""
        tag = payload[_AT : payload.find(b'"', _AT)] if payload.startswith(_BEGINS) else b""
        naming = _NAMING.get(tag)
        if self.is_forgotten:
            return "the run was forgotten before it"
        if not self._has_begun and naming not in (Created, Forgotten):
            return "the run was not created before it"
        if tag not in _KNOWN:
            self._state = None
            return "" if tag else _NOTHING_OF_OURS
        if self._state is not None:
            after = _MOVES[self._state].get(tag)
            if after is None:
                return f"it cannot be recorded of a run that is {self._state}"
            self._state = after
        return self._named(naming, payload) if naming else ""

    def _named(self, naming: type[Created | Claimed | Forgotten], payload: bytes) -> str:
        try:
            said = _names.decode(payload)
            if issubclass(naming, Claimed):
                self._is.epoch = said.epoch
                return ""
            self._is = said
            self._state = RunState(said.state) if naming is Forgotten else RunState.QUEUED
        except ValueError:
            return _NOTHING_OF_OURS
        self._has_begun, self.is_forgotten = True, naming is Forgotten
        return ""

    def differs(self, row: Kept) -> str:
        """What the row says that does not follow from the records; empty: it says the same."""
        state = row.state if self._state is None else str(self._state)
        theirs = (self._is.agent, self._is.thread, self._is.parent, state, self._is.epoch)
        for name, said, is_true in zip(_COMPARED, row[2:], theirs, strict=True):
            if said != is_true:
                return f"it says {name} {said}, and the records say {is_true}"
        return ""


_COMPARED: Final = ("agent", "thread", "parent", "state", "epoch")
_NAMING: Final[dict[bytes, type[Created | Claimed | Forgotten]]] = {
    TAGS[kind].encode(): kind for kind in (Created, Claimed, TakenOver, Forgotten)
}
