"""Going on from a run that has ended: with something new, which somebody has to say."""

from typing import Any

from pullcord.errors import InvalidInput


def said_next(run_id: str, given: Any) -> Any:
    """What the next run on a thread is given.

    Raises:
        InvalidInput: nothing. What the run before was told is never sent again by itself: somebody
            may have stopped it for that.
    """
    if given is None or (isinstance(given, str) and not given.strip()):
        raise InvalidInput(
            f"Cannot continue run {run_id} without words: what it was told before is not sent "
            f"again. Nothing was started. Say what comes next: pullcord continue {run_id} TEXT; "
            f"or try the same again: pullcord fork {run_id}"
        )
    return given
