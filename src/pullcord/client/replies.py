"""Converts a server's replies to the values that a store returns. Only verbs that read load it."""

import msgspec

from pullcord.client.http import ServerEvent
from pullcord.core.events import Record, decode_event
from pullcord.core.fold import ends
from pullcord.core.receipts import Receipt as Receipt
from pullcord.core.show.panel import Panel
from pullcord.errors import ServerRefused
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import Cursor, Item
from pullcord.journal.views.inbox import Inbox as Inbox


class RunReply(msgspec.Struct):
    panel: Panel


class RunsReply(msgspec.Struct):
    runs: list[Panel]


class _Record(msgspec.Struct):
    seq: int
    at_ms: int
    epoch: int
    event: msgspec.Raw
    drift_ms: int = 0


class _Text(msgspec.Struct):
    part: str
    offset: int
    text: str


class RecordsReply(msgspec.Struct):
    records: list[_Record]


def record(run_id: str, said: _Record) -> Record:
    event = decode_event(bytes(said.event), run_id=run_id, seq=said.seq)
    return Record(run_id, said.seq, said.at_ms, said.epoch, event, said.drift_ms)


def is_the_end(told: Record | LiveText) -> bool:
    return isinstance(told, Record) and ends(told.event)


def item(run_id: str, event: ServerEvent) -> Item:
    """Return an event of a stream and its place.

    Raises:
        ServerRefused: it cannot be read.
    """
    seq, _, pos = event.id.partition(".")
    try:
        place = Cursor(int(seq), int(pos or 0))
        if event.kind == "record":
            return place, record(run_id, msgspec.json.decode(event.data, type=_Record))
        said = msgspec.json.decode(event.data, type=_Text)
    except (msgspec.DecodeError, ValueError) as error:
        raise ServerRefused(f"The server tells something that cannot be read: {error}.") from None
    return place, LiveText(place.pos, said.part, said.offset, said.text, place.seq)
