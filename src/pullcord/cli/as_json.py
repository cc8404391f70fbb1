"""JSON with nothing in it that a terminal would obey."""

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from pullcord.core.text.visible import visible_json

if TYPE_CHECKING:
    from pullcord.core.acks import Ack


def to_json(value: Any) -> str:
    """One line of JSON. What acts or hides is escaped: nothing in it moves a cursor."""
    return visible_json(msgspec.json.encode(value).decode()) + "\n"


def print_ack(asked: Any, ack: "Ack") -> None:
    """What a program is told of a control."""
    said = {
        "run": asked.run,
        "verdict": ack.verdict,
        "seq": ack.seq,
        "state": ack.state,
        "reason": ack.reason,
        "message": ack.message,
    }
    sys.stdout.write(to_json(said))
