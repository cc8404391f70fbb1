"""Who has taken a run over, and asks this warden to end what it holds for it. See `takeover`."""

import json
import os
import socket
import time
from contextlib import suppress
from typing import Any, Final

from pullcord.killswitch.asking import listening, may_ask
from pullcord.takeover import ANSWER_S, QUESTION_BYTES_MAX

_ASKERS_MAX: Final = 64


class Claims:
    """Who asks for which run, to be told when nothing of it is left."""

    def __init__(self, name: str) -> None:
        """Made before the guard and the warden part, so that both hold it."""
        self._sock = listening(name)
        self._silent: list[tuple[socket.socket, float]] = []  # connected, and has not asked yet
        self._askers: list[tuple[socket.socket, float, str, int]] = []

    def fileno(self) -> int:
        return self._sock.fileno() if self._sock else -1

    @property
    def is_asked(self) -> bool:
        return bool(self._silent or self._askers)

    def hear(self) -> list[tuple[str, int]]:
        """Return what was asked since: the run, and the epoch of who has taken it."""
        now = time.monotonic()
        with suppress(OSError):
            while self._sock:
                asker, _ = self._sock.accept()
                if len(self._silent) + len(self._askers) < _ASKERS_MAX and may_ask(asker):
                    asker.setblocking(False)
                    self._silent.append((asker, now + ANSWER_S))
                else:
                    asker.close()
        asked: list[tuple[str, int]] = []
        for one in list(self._silent):
            asker, until = one
            if (question := _question(asker)) is None and now < until:
                continue
            self._silent.remove(one)
            if question:
                self._askers.append((asker, until, *question))
                asked.append(question)
            else:
                asker.close()
        return asked

    def answer(self, left: "dict[str, list[str]]") -> None:
        """Tell those for whose run nothing is left; `left`: what is, by run."""
        now = time.monotonic()
        for one in list(self._askers):
            asker, until, run_id, _ = one
            if run_id in left and now < until:
                continue
            self._askers.remove(one)
            said = {"pid": os.getpid(), "left": left.get(run_id, [])[:16]}
            with suppress(OSError):
                asker.send(json.dumps(said).encode())
            asker.close()


def _question(asker: socket.socket) -> tuple[str, int] | tuple[()] | None:
    """None: it has not asked yet. Empty: it never will."""
    try:
        said = asker.recv(QUESTION_BYTES_MAX)
        asked: dict[str, Any] = json.loads(said) if said else {}
        return (str(asked["run"]), int(asked["epoch"]))
    except BlockingIOError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return ()
