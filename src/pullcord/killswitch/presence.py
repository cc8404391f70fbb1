"""Who drives runs of a store on this machine, and by which names they can be asked.

A runtime makes an empty file in the store's side folder: its name says all there is to say, so
that a full disk keeps nobody from being found.
"""

import os
from contextlib import suppress
from typing import Final, NamedTuple

from pullcord.process import is_gone

_MINE: Final = ".runtime"
_KILLABLE: Final = ".killable"


class Present(NamedTuple):
    """A runtime. `owner` is the name by which it holds runs."""

    owner: str
    is_killable: bool  # its process may be ended, if nothing less stops it

    @property
    def pid(self) -> int:
        return int(self.owner.split("-")[1])

    @property
    def address(self) -> str:
        return f"pullcord-{self.owner}"

    @property
    def warden(self) -> str:
        """The address of its warden."""
        return f"pullcord-{self.owner}-warden"

    @property
    def file(self) -> str:
        return f"{self.owner}{_KILLABLE if self.is_killable else ''}{_MINE}"


def announce(folder: str, who: Present) -> None:
    """Be there for others.

    Raises:
        OSError: nobody can know of it.
    """
    os.close(os.open(os.path.join(folder, who.file), os.O_CREAT | os.O_WRONLY, 0o644))


def leave(folder: str, who: Present) -> None:
    with suppress(OSError):
        os.unlink(os.path.join(folder, who.file))


def present(folder: str) -> list[Present]:
    """Everybody who is there. What the dead have left behind is tidied up."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found: list[Present] = []
    for name in names:
        owner, mine, rest = name.removesuffix(_MINE).partition(_KILLABLE)
        if not name.endswith(_MINE) or rest or len(owner.split("-")) != 4:
            continue
        who = Present(owner, bool(mine))
        leave(folder, who) if is_gone(owner) else found.append(who)
    return found
