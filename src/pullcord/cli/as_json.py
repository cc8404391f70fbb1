"""JSON with nothing in it that a terminal would obey."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from pullcord.core.text.visible import visible, visible_json

if TYPE_CHECKING:
    from pullcord.core.acks import Ack


def to_json(value: Any) -> str:
    """One line of JSON. What acts or hides is escaped: nothing in it moves a cursor."""
    return visible_json(msgspec.json.encode(value).decode()) + "\n"


def print_said(asked: Any, value: Any, lines: Iterable[str]) -> None:
    """Print what a command has to say: as JSON if that was asked for, else in lines."""
    if asked.json:
        sys.stdout.write(to_json(value))
    else:
        print("\n".join(lines))


def print_refusal(asked: Any, ack: "Ack") -> None:
    """Print why a control does not count: as JSON, or for a person on standard error."""
    if asked.json:
        print_ack(asked, ack)
    else:
        print(visible(ack.message), file=sys.stderr)


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
