"""Who may do what. Five rights, each including those before it, for one run or for all."""

from typing import Final, Literal, TypeAlias, get_args

import msgspec

from pullcord.core.commands import Right as Right

RIGHTS: Final[tuple[Right, ...]] = get_args(Right)
How: TypeAlias = Literal["session", "link", "token", "host"]
OF_LINKS: Final[tuple[Right, ...]] = ("view", "stop")
"""The widest right that a link has is to stop its run: anybody may come to have it."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody may do here, and the name that is written beside what they do.

    `view` looks; `stop` also pauses, lets go on as it was, and cancels; `control` also starts,
    redirects, answers and undoes; `approve` also allows calls and raises limits; `admin` also
    gives rights to others. `run`: only there.
    """

    by: str
    right: Right
    run: str | None = None
    how: How = "host"

    def allows(self, right: Right, run: str | None = None) -> bool:
        """Whether this is enough for something that needs `right`, about `run` or about all."""
        is_enough = RIGHTS.index(self.right) >= RIGHTS.index(right)
        return is_enough and (self.run is None or self.run == run)
