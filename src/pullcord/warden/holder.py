"""The process at the top of one tool's tree. It starts the tool when it is told to, adopts what
the tool lets go of, collects the dead, and says how the tool ended. It does nothing else."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from pullcord.killswitch.mark import become_worker
from pullcord.warden.fences import Fence
from pullcord.warden.kernel import (
    adopt_orphans,
    close_all_but,
    die_with_parent,
    reset_signals,
    show_own_numbers,
)

GO = b"g"


def hold(fence: Fence, root: Callable[[], NoReturn], status: int, keep: list[int]) -> NoReturn:
    """What a process that was just forked does for the rest of its life.

    `status` is the line to the warden; `keep` are the descriptors that the tool needs.
    """
    parent = os.getppid()
    try:
        reset_signals()
        os.setsid()
        die_with_parent(parent)
        adopt_orphans()
        close_all_but([status, *keep])
        line = socket.socket(fileno=status)
        line.setblocking(True)
        fence.enter()
        _say(line, f"ready {os.getpid()}")
        if line.recv(1) == GO:
            if fence.needs_init and os.fork():
                _wait_for_init(line, keep)
            if fence.needs_init:
                die_with_parent()
                show_own_numbers()
            _start(root, line, keep)
    except OSError as error:
        with suppress(OSError, UnboundLocalError):
            _say(line, f"failed {error}")  # pyright: ignore[reportPossiblyUnboundVariable]
    finally:
        os._exit(1)


def _start(root: Callable[[], NoReturn], line: socket.socket, keep: list[int]) -> NoReturn:
    pid = os.fork()
    if pid == 0:
        line.close()
        os.setsid()
        die_with_parent()
        become_worker()
        root()
    _say(line, "started")
    for fd in keep:
        os.close(fd)
    while True:
        try:
            ended, status = os.wait()
        except ChildProcessError:
            os._exit(0)
        if ended == pid:
            left = _has_children()
            _say(line, f"exit {os.waitstatus_to_exitcode(status)} {int(left)}")
            if not left:
                os._exit(0)


def _wait_for_init(line: socket.socket, keep: list[int]) -> NoReturn:
    line.close()
    for fd in keep:
        os.close(fd)
    with suppress(ChildProcessError):
        os.wait()
    os._exit(0)


def _has_children() -> bool:
    """Whether anything is left, now that the tool itself is gone. Corpses do not count."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def _say(line: socket.socket, text: str) -> None:
    with suppress(BrokenPipeError):
        line.send(text.encode() + b"\n")
