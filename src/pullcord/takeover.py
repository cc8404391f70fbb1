"""Taking a run over: the owner before is to let go of it, in the world and not only in the journal.

An owner's warden listens under a name that others can tell from the owner's. Who has taken a run
over asks it to end every process that it holds for that run, and is answered when they are gone.
The warden's guard keeps the same socket open: nobody is there only when both are gone. Code inside
the old owner's process cannot be ended like that: it is named instead. If that process is dead,
what its steps had started may live: it is found by the mark it carries, and ended or named.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pullcord.lazy_import import lazy_import
from pullcord.process import is_gone, is_here

if TYPE_CHECKING:
    import json
    import socket
    from socket import socket as Socket

    from pullcord.killswitch import mark
else:
    mark = lazy_import("pullcord.killswitch.mark")
    json = lazy_import("json")
    socket = lazy_import("socket")  # only where somebody is asked: it is not cheap

ANSWER_S: Final = 3.0  # a warden needs two seconds at most to see what it killed die
QUESTION_BYTES_MAX: Final = 4096
Left: TypeAlias = Mapping[str, tuple[str, ...]]  # names of processes, by step


class Before(NamedTuple):
    """What of the owner before may still act for a run that was taken from it."""

    inside: bool = False  # code inside its process
    held: bool = False  # processes that its warden holds

    def may_act(self, run_in: str) -> bool:
        """Whether a step that was carried out there may still be acting."""
        return self.held if run_in == "process" else self.inside


def address_of(owner: str) -> str:
    """The name under which the warden of this owner can be asked to let go of a run."""
    return f"pullcord-{owner}-runs" if owner else ""


def end_what_is_left(owners: Mapping[str, Collection[str]], store: str) -> Mapping[str, Left]:
    """End the processes that steps of these runs have started and a dead owner has left on this
    machine. Return the names of what does not end, by run. Takes a moment.

    `owners`: those before, by run, the last one too if it was doing nothing; `store`: where its
    kill switch lies."""
    return mark.end_left(mark.mark_of(store), owners)


class Asking:
    """A question to the warden of an owner before. Asked when it is made, without waiting."""

    def __init__(self, owner: str, run_id: str, epoch: int) -> None:
        """`epoch`: of the owner that asks, who has claimed the run before. What was begun under an
        earlier one is to end: an answer to a question before the claim could be stale."""
        self._owner = owner
        self._sock = _connected(owner, ANSWER_S)
        if self._sock is not None:
            with suppress(OSError):
                self._sock.send(json.dumps({"run": run_id, "epoch": epoch}).encode())

    @property
    def is_answered(self) -> bool:
        """Whether `answer` returns at once."""
        return self._sock is None

    def answer(self) -> Before:
        """Wait for the warden, a few seconds at most. It ends what it holds, or does not answer.

        A warden and its guard that are gone have ended what they held. One on another machine is
        not asked: its lease and the margins are over, so it has frozen what it holds; but if that
        machine slept, it does so only a moment after it wakes.
        """
        held = False
        if self._sock is not None:
            try:
                said = self._sock.recv(QUESTION_BYTES_MAX)
                held = bool(json.loads(said)["left"]) if said else False
            except ConnectionResetError:
                held = False
            except (OSError, ValueError):
                held = True
            finally:
                self._sock.close()
                self._sock = None
        elif not is_here(self._owner):
            held = not is_gone(self._owner)
        return Before(not is_gone(self._owner), held)


def has_warden(owner: str) -> bool:
    """Whether the warden of this owner, or that one's guard, is there. Does not wait."""
    sock = _connected(owner)
    if sock is not None:
        sock.close()
    return sock is not None


def _connected(owner: str, within_s: float = 0.0) -> "Socket | None":
    """None: neither a warden nor its guard is there: never needed, or gone with all it held."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(within_s)
        sock.connect(f"\0{address_of(owner)}")
    except ConnectionRefusedError:
        sock.close()
        return None
    except OSError:
        pass  # too many before us: it will not answer in time
    return sock
