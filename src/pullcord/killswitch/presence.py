"""Who drives runs of a store on this machine, and by which names they can be asked.

A runtime makes an empty file in the store's side folder: its name says all there is to say, so
that a full disk keeps nobody from being found. It holds the file's lock as long as it lives: in
another container its number says nothing here, and the lock still does.
"""

import fcntl
import os
from contextlib import suppress
from typing import Final, NamedTuple

from pullcord.process import is_gone, is_here
from pullcord.regular_file import open_regular

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


def announce(folder: str, who: Present) -> int:
    """Be there for others, as long as what is returned is open.

    Raises:
        OSError: nobody can know of it.
    """
    file = open_regular(os.path.join(folder, who.file), os.O_CREAT | os.O_WRONLY, 0o644)
    with suppress(OSError):  # then it counts as there until somebody knows better
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def leave(folder: str, who: Present) -> None:
    with suppress(OSError):
        os.unlink(os.path.join(folder, who.file))


def present(folder: str) -> list[Present]:
    """Everybody who is there. What the dead have left behind is tidied up.

    Raises:
        OSError: nobody can say who is there.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found: list[Present] = []
    for name in names:
        owner, mine, rest = name.removesuffix(_MINE).partition(_KILLABLE)
        if not name.endswith(_MINE) or rest or len(owner.split("-")) != 4:
            continue
        who = Present(owner, bool(mine))
        is_over = is_gone(owner) or (not is_here(owner) and _is_let_go(folder, who))
        leave(folder, who) if is_over else found.append(who)
    return found


def _is_let_go(folder: str, who: Present) -> bool:
    """Whether nobody holds its file any more."""
    try:
        file = open_regular(os.path.join(folder, who.file))
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(file)
