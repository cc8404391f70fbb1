"""Pulling the switch: raise the flag, hear from everybody who could start something, end who does
not answer, end the tools whose warden is gone, and say what is left. No event loop, no database:
neither is to be trusted here.
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
from pullcord.killswitch.mark import end_marked, mark_of
from pullcord.killswitch.presence import Present, present
from pullcord.killswitch.pulled import Left, Pulled
from pullcord.process import is_gone, is_here

ANSWER_S: Final = 1.5  # a runtime that has not answered by then is not answering
_WARDEN_S: Final = 3.0
_DEATH_S: Final = 2.0
_AGAIN_S: Final = 0.02  # until one with too many before us is asked again


def pull(flags: Flags, folder: str, scope: Scope, note: Note) -> Pulled:
    """Engage the switch.

    `folder`: where the store's runtimes announce themselves.

    Raises:
        OSError: the flag could not be raised: nothing is stopped.
    """
    began = time.monotonic()
    flags.raise_it(scope, note)
    killed, left = list[int](), list[Left]()
    try:
        runtimes = present(folder)
    except OSError as error:  # whoever it is looks at the flag before every start, as we all do
        runtimes = []
        left.append(Left("whoever drives runs of this store", f"{folder}: {error.strerror}"))
    patience = {one.address: ANSWER_S for one in runtimes}
    answers = ask(patience | {one.warden: _WARDEN_S for one in runtimes})
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
    ended = end_marked(mark_of(flags.store), orphans_only=bool(scope.kind))
    killed += ended.killed
    why = "it outlives SIGKILL"
    left += [Left(f"process {pid}, of a tool", why) for pid in ended.survivors]
    if not ended.is_known:
        why = "the kernel does not tell in time what is running"
        left.append(Left("whatever is left of tools without a warden", why))
    took_ms = round((time.monotonic() - began) * 1000)
    return Pulled(len(runtimes), killed, left, took_ms, note)


def _named(who: Present, what: str, why: str) -> Left:
    return Left(f"{what} in process {who.pid}" if what else f"process {who.pid}", why)


def _why_not_killed(who: Present, scope: Scope) -> str:
    """Empty: it was."""
    if who.pid == os.getpid():
        return "is this very process"
    if not is_here(who.owner):
        return "is in another container, where its number means nothing here"
    if not who.is_killable:
        return "has not agreed to be killed (Timing.killable)"
    if scope.kind:
        return "is not killed for a part of its work; engage the switch for everything"
    return "" if _kill(who) else "could not be killed"


def ask(addresses: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Ask all of them at once. Return what each has answered within its time; nothing for one
    that is there and silent, and nobody who is not there."""
    answers: dict[str, dict[str, Any]] = {}
    began, poll = time.monotonic(), select.poll()
    with ExitStack() as opened:
        unheard, waiting = dict(addresses), dict[int, tuple[str, socket.socket]]()
        while unheard or waiting:
            for address in list(unheard):
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                opened.enter_context(sock)
                sock.setblocking(False)
                try:
                    sock.connect(f"\0{address}")
                except ConnectionRefusedError:  # nobody is there: a warden that was never needed
                    del unheard[address]
                    continue
                except OSError:  # somebody is, and has too many before us
                    answers[address] = {}
                    sock.close()
                    continue
                waiting[sock.fileno()], answers[address] = (address, sock), {}
                poll.register(sock, select.POLLIN)
                del unheard[address]
            passed_s = time.monotonic() - began
            unheard = {one: until for one, until in unheard.items() if until > passed_s}
            for fd in [fd for fd, (one, _) in waiting.items() if addresses[one] <= passed_s]:
                poll.unregister(fd)
                del waiting[fd]
            ends = [*unheard.values(), *(addresses[one] for one, _ in waiting.values())]
            left_s = min(ends, default=passed_s) - passed_s
            for fd, _ in poll.poll(min(left_s, _AGAIN_S if unheard else left_s) * 1000):
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
        if not is_here(who.owner):  # (asked after it is held: the number is not another's by now)
            return is_gone(who.owner)
        with suppress(OSError):
            signal.pidfd_send_signal(watched, signal.SIGKILL)
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(_DEATH_S * 1000))
    finally:
        os.close(watched)
