"""The process that tools in Python are forked from. It has imported their modules once, and has
one thread, because a copy of a process has only one.

The first call of a module imports it by itself: if that hangs, fails or starts a thread, only that
call has to do with it. When it went well, the zygote imports the module too.
"""

import gc
import os
import select
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from pullcord.warden.fences import fence_of
from pullcord.warden.finding import import_at
from pullcord.warden.holder import hold
from pullcord.warden.inside import mark
from pullcord.warden.kernel import (
    close_all_but,
    collect_the_dead,
    die_with_parent,
    reset_signals,
    wake_when_a_child_dies,
)
from pullcord.warden.roots import Pipes, call_function
from pullcord.warden.wire import Channel, Message

_KNOWN_ALREADY: Final = "pullcord.warden.worker"


def serve(channel: Channel, sys_path: list[str], argv: list[str], warden: int) -> NoReturn:
    """Fork a holder for each call that comes. Ends with the warden.

    `sys_path` and `argv` are those of the runtime's process: a module that is imported here finds
    what it found there.
    """
    mark()
    die_with_parent(warden)
    close_all_but([channel.fileno()])
    reset_signals()
    woken = wake_when_a_child_dies()
    sys.path[:] = sys_path
    sys.argv[:] = argv
    with suppress(ImportError):
        __import__(_KNOWN_ALREADY)
    Zygote(channel, woken).loop()


class Zygote:
    def __init__(self, channel: Channel, woken: int) -> None:
        self._channel = channel
        self._woken = woken
        self._known: set[str] = set()
        self._hopeless: set[str] = set()  # modules that each call has to import by itself
        self._learning: dict[int, Message] = {}  # where a first call says how its import went
        self._poll = select.poll()
        for fd in (channel.fileno(), woken):
            self._poll.register(fd, select.POLLIN)
        gc.disable()
        gc.freeze()

    def loop(self) -> NoReturn:
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._woken:
                    collect_the_dead(self._woken)
                elif fd in self._learning:
                    self._learn(fd)
                else:
                    self._take_call()

    def _take_call(self) -> None:
        try:
            received = self._channel.receive()
        except EOFError:
            os._exit(0)
        if received is None:
            return
        spec, (status, *fds) = received
        pipes = Pipes(*fds)
        keep = list(fds)
        said = learnt = -1
        if spec["function"]["module"] not in self._known | self._hopeless:
            said, learnt = os.pipe()
            keep.append(learnt)
        if os.fork() == 0:
            hold(
                fence_of(spec["fence"]),
                lambda: call_function(pipes, learnt),
                status,
                keep,
            )
        for fd in (status, *keep):
            os.close(fd)
        if said >= 0:
            self._learning[said] = spec
            self._poll.register(said, select.POLLIN)

    def _learn(self, fd: int) -> None:
        """A first call says how long its import took; nothing, if it failed or is not alone."""
        spec = self._learning.pop(fd)
        self._poll.unregister(fd)
        took_ms = os.read(fd, 16)
        os.close(fd)
        module = spec["function"]["module"]
        if took_ms.isdigit() and module not in self._known | self._hopeless:
            self._hopeless.add(module)
            with suppress(BaseException), _within(0.5 + 5 * int(took_ms) / 1000):
                import_at(spec["function"])
                self._known.add(module)
                self._hopeless.discard(module)
                gc.freeze()


@contextmanager
def _within(bound_s: float) -> Generator[None]:
    """An import that hangs here, and did not in the call, is given up."""

    def give_up(*_: object) -> NoReturn:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, bound_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
