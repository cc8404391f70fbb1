"""Which run is meant, by as much of its id as somebody has typed."""

from collections.abc import Sequence

from pullcord.errors import InvalidInput


def the_one(said: str, found: Sequence[str]) -> str:
    """The one of those found, or what was said if there is none: whoever looks for it says so.

    Raises:
        InvalidInput: it may be several.
    """
    if len(found) < 2 or said in found:
        return found[0] if len(found) == 1 else said
    raise InvalidInput(
        f"{said} may be any of {', '.join(found[:3])}{' ...' if len(found) > 3 else ''}. "
        "Nothing was changed. Write more of the id."
    )
