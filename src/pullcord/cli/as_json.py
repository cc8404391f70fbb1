"""JSON with nothing in it that a terminal would obey."""

from typing import Any

import msgspec

from pullcord.core.visible import visible_json


def to_json(value: Any) -> str:
    """One line of JSON. What acts or hides is escaped: nothing in it moves a cursor."""
    return visible_json(msgspec.json.encode(value).decode()) + "\n"
