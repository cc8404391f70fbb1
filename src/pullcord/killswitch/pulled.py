"""What became of pulling the switch, as it is told, written down and repeated."""

from typing import NamedTuple

from pullcord.killswitch.flags import Note


class Left(NamedTuple):
    """Something that was not stopped, and why."""

    what: str
    why: str


class Pulled(NamedTuple):
    """What became of it, when it was acknowledged: from there on nothing starts."""

    asked: int  # processes that drive runs of this store
    killed: list[int]  # who did not answer, could not stop what it did, or had lost its warden
    left: list[Left]
    took_ms: int
    note: Note  # who has pulled it, and why
