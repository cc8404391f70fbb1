"""When a run was working, held, waiting or queued: for the picture, not for any decision."""

from typing import Final

from pullcord.core.events import TAGS, Record
from pullcord.tui.seen import Stretch

_TURNS: Final[dict[str, str | dict[str, str]]] = {
    # record → the pace from there on; by the pace before it, where that matters
    "created": "queued",
    "claimed": {"queued": "working", "waiting": "working", "pausing": "paused"},
    "requeued": "queued",
    "blocked": "waiting",
    "answered": {"waiting": "queued"},
    "child_ended": {"waiting": "queued"},
    "redirected": {"waiting": "queued"},
    "pause_requested": {"queued": "paused", "working": "pausing", "waiting": "paused"},
    "paused": "paused",
    "resumed": {"pausing": "working", "paused": "queued"},
    "limit_reached": "stopping",
    "cancel_requested": "cancelling",
    "completed": "over",
    "cancelled": "over",
    "stopped": "over",
    "failed": "over",
}


def turn(stretches: list[Stretch], record: Record) -> None:
    """Begin another stretch, if with this record the run is in another state."""
    known = _TURNS.get(TAGS[type(record.event)])
    last = stretches[-1] if stretches else None
    now = known.get(last.pace if last else "") if isinstance(known, dict) else known
    if now is None or (last and (last.pace == now or (last.to_ms and now != "over"))):
        return
    if last and not last.to_ms:
        last.to_ms = record.at_ms
    if now != "over":
        stretches.append(Stretch(now, record.at_ms))
