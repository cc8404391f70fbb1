"""What it is to be told something: by whom a hook is reached, and what may come of it."""

from typing import Protocol

from pullcord.core.notices import Moved, Notice


class Unreached(Exception):
    """It was not told, and should be later: not before `wait_s`."""

    def __init__(self, why: str, *, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class NoticeRefused(Exception):
    """It does not want to be told this, and would not later."""


class Recipient(Protocol):
    """Whoever is told, one notice at a time."""

    within_s: float  # how long telling it may take
    tries: int | None  # how often the same thing is tried; None: as long as it is of interest

    async def tell(self, id: str, notice: Moved | Notice, /) -> None:
        """Return when it was told. `id` is the same however often this is told.

        Raises:
            Unreached, Refused: it was not. Anything else is its own error.
        """
        ...

    def close(self) -> None: ...
