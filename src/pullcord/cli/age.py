"""How long ago: `90d`, as people write it."""

import re
from typing import Final

from pullcord.errors import InvalidInput

_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """Raises:
    InvalidInput: it is not an age.
    """
    found = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if found is None:
        raise InvalidInput(
            f"{text[:40]!r} is not an age: it looks like 90d, with m, h, d or w for minutes, "
            "hours, days or weeks. Nothing was deleted."
        )
    return int(found[1]) * _UNITS[found[2]]
