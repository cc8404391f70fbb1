"""Pulling the switch: raise the flag, hear from everybody who could start something, end who does
not answer, and say what is left. No event loop, no database: neither is to be trusted here.
"""

import json
import os
import select
import signal
import socket
import time
from contextlib import ExitStack, suppress
from typing import Any, Final

from pullcord.killswitch.flags import Flags, Note, Scope
from pullcord.killswitch.presence import Present, present
from pullcord.killswitch.pulled import Left, Pulled
from pullcord.process import is_gone

ANSWER_S: Final = 1.5  # a runtime that has not answered by then is not answering
_WARDEN_S: Final = 3.0
_DEATH_S: Final = 2.0


def pull(flags: Flags, folder: str, scope: Scope, note: Note) -> Pulled:
    """Engage the switch.

    `folder`: where the store's runtimes announce themselves.

    Raises:
        OSError: the flag could not be raised: nothing is stopped.
    """
    began = time.monotonic()
    flags.raise_it(scope, note)
    runtimes = present(folder)
    patience = {one.address: ANSWER_S for one in runtimes}
    answers = ask(patience | {one.warden: _WARDEN_S for one in runtimes})
    killed, left = list[int](), list[Left]()
    for one in runtimes:
        if is_gone(one.owner):
            continue
        answer = answers.get(one.address)
        going_on = answer["left"] if answer else [("", "it does not answer")]
        if not going_on:
            pass
        elif why_not := _why_not_killed(one, scope):
            left += [_named(one, what, f"{why}; the process {why_not}") for what, why in going_on]
        else:
            killed.append(one.pid)
        if one.warden in answers:
            tools = answers[one.warden].get("left", ["all"])
            why = "it outlives SIGKILL" if answers[one.warden] else "its warden does not answer"
            left += [Left(f"process tool {call} of process {one.pid}", why) for call in tools]
    return Pulled(len(runtimes), killed, left, round((time.monotonic() - began) * 1000))


def _named(who: Present, what: str, why: str) -> Left:
    return Left(f"{what} in process {who.pid}" if what else f"process {who.pid}", why)


def _why_not_killed(who: Present, scope: Scope) -> str:
    """Empty: it was."""
    if who.pid == os.getpid():
        return "is this very process"
    if not who.is_killable:
        return "has not agreed to be killed (Habits.killable)"
    if scope.kind:
        return "is not killed for a part of its work; engage the switch for everything"
    return "" if _kill(who) else "could not be killed"


def ask(addresses: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Ask all of them at once. Return what each has answered within its time; nothing for one
    that is there and silent, and nobody who is not there."""
    answers: dict[str, dict[str, Any]] = {}
    with ExitStack() as opened:
        began, poll = time.monotonic(), select.poll()
        waiting: dict[int, tuple[str, socket.socket]] = {}
        for address in addresses:
            sock = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            sock.setblocking(False)
            with suppress(OSError):  # nobody is there: a warden that was never needed, say
                sock.connect(f"\0{address}")
                waiting[sock.fileno()], answers[address] = (address, sock), {}
                poll.register(sock, select.POLLIN)
        while waiting:
            left_s = {fd: addresses[a] + began - time.monotonic() for fd, (a, _) in waiting.items()}
            for fd in [fd for fd, left in left_s.items() if left <= 0]:
                poll.unregister(fd)
                del waiting[fd]
            for fd, _ in poll.poll(max(min(left_s.values()), 0) * 1000) if waiting else ():
                address, sock = waiting.pop(fd)
                poll.unregister(fd)
                with suppress(OSError, ValueError):
                    answers[address] = json.loads(sock.recv(1024 * 1024))
    return answers


def _kill(who: Present) -> bool:
    """End it, and see it end. Its warden ends its tools, and itself."""
    try:
        watched = os.pidfd_open(who.pid)
    except OSError:
        return is_gone(who.owner)
    try:
        if is_gone(who.owner):  # (asked after it is held: the number is not another's by now)
            return True
        with suppress(OSError):
            signal.pidfd_send_signal(watched, signal.SIGKILL)
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(_DEATH_S * 1000))
    finally:
        os.close(watched)
