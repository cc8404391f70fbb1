"""The warden: one loop, one thread. `python -m pullcord.warden.main FD RUNTIME_PID RUNS`.

It starts nothing while the flag of the kill switch is raised, and ends everything when the flag
is raised, when it is told to, or when the runtime is gone: killed, crashed or closed.

It knows how long the runtime's lease allows it to act. When that is over, because the runtime
stands still or cannot reach its store, it freezes what it holds, by itself, and starts nothing; a
renewal thaws it. What it holds for a run that another owner has taken over, it kills.
"""

import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Final, NoReturn

from pullcord.killswitch.asking import Asked
from pullcord.killswitch.flags import Flags
from pullcord.killswitch.mark import mark_of
from pullcord.warden.claims import Claims
from pullcord.warden.fences import Fences, spec_of
from pullcord.warden.holder import hold
from pullcord.warden.kernel import (
    adopt_orphans,
    children_of,
    close_all_but,
    collect_the_dead,
    descendants_of,
    is_alive,
    send,
    wake_when_a_child_dies,
)
from pullcord.warden.roots import Pipes, run_command
from pullcord.warden.tree import Tree
from pullcord.warden.wire import Channel, Message, pair
from pullcord.warden.zygote import serve

_FLAG_S: Final = 0.2  # how often the flag is looked at while something is running
_LAST_S: Final = 2.0
_LAST_TRIES: Final = 50
_ASKED_S: Final = 2.5  # how long whoever has pulled the kill switch waits for its answer
_ORDERS_MAX: Final = 32
_TAKEN: Final = "another process has taken its run over"


class Warden:
    def __init__(self, channel: Channel, above: list[int], woken: int, claims: Claims) -> None:
        self._channel = channel
        self._claims = claims
        self._above = above  # pidfds of those without whom it has no business
        self._woken = woken
        self._trees: dict[int, Tree] = {}  # by the descriptor of its holder's line
        self._by_call: dict[str, Tree] = {}
        self._unclosed: list[Tree] = []
        self._fences = Fences("sweep")
        self._zygote: Channel | None = None
        self._zygote_pid = 0
        self._sys_path: list[str] = []
        self._argv: list[str] = []
        self._flags = Flags("")
        self._asked = Asked("", within_s=_ASKED_S)
        self._epochs: dict[str, int] = {}  # of runs that others have taken over
        self._until = 0.0  # how long the runtime may act, by boot time; 0: for ever
        self._lapse_kill_s = 0.0
        self._poll = select.poll()
        asked = [claims.fileno()] if claims.fileno() >= 0 else []
        for fd in (channel.fileno(), *above, woken, *asked):
            self._poll.register(fd, select.POLLIN)

    # --- the loop ---

    def loop(self) -> NoReturn:
        while True:
            for fd, _ in self._poll.poll(self._patience_ms()):
                if fd in (*self._above, self._channel.fileno()):
                    self._hear_runtime(gone=fd in self._above)
                elif fd == self._woken:
                    collect_the_dead(self._woken)
                elif fd == self._asked.fileno():
                    self._asked.hear()
                elif fd == self._claims.fileno():
                    pass  # heard below, with those who connected before and ask only now
                elif fd in self._trees:
                    tree = self._trees[fd]
                    tree.hear(refuse=self._refusal(tree))
                    if tree.is_silent:
                        self._poll.unregister(fd)
                    self._tidy(tree, fd)
            now = time.monotonic()
            for fd, tree in list(self._trees.items()):
                if tree.due is not None and tree.due <= now:
                    tree.tick(now)
                    self._tidy(tree, fd)
            for run, epoch in self._claims.hear():
                self._epochs[run] = max(epoch, self._epochs.get(run, 0))
            self._mind_the_lease()
            for tree in list(self._trees.values()):
                if refusal := self._refusal(tree):
                    tree.hurry(refusal)
            self._claims.answer(self._left_by_run())
            self._asked.answer([t.call for t in self._trees.values() if self._refusal(t)])
            self._unclosed = [tree for tree in self._unclosed if not tree.fence.close()]
            self._flush()

    def _patience_ms(self) -> float | None:
        due = [tree.due for tree in self._trees.values() if tree.due is not None]
        wait_s = min(due) - time.monotonic() if due else None
        if self._channel.is_behind or (self._zygote is not None and self._zygote.is_behind):
            wait_s = min(wait_s or 0.01, 0.01)
        if self._trees and self._flags:
            wait_s = min(_FLAG_S, wait_s) if wait_s is not None else _FLAG_S
        if self._trees and self._until:  # (a timeout does not count the time of a suspend)
            left_s = self._until - _boot_s() if self._until > _boot_s() else _FLAG_S
            wait_s = min(left_s, _FLAG_S, _FLAG_S if wait_s is None else wait_s)
        if self._unclosed or self._asked.is_asked or self._claims.is_asked:
            wait_s = min(0.05, wait_s) if wait_s is not None else 0.05
        return None if wait_s is None else max(wait_s, 0.0) * 1000

    def _hear_runtime(self, *, gone: bool) -> None:
        if gone:
            self._end_everything()
        try:
            for _ in range(_ORDERS_MAX):  # in one go: what is due has its turn
                if not (received := self._channel.receive()):
                    break
                self._obey(*received)
        except EOFError:
            self._end_everything()

    def _obey(self, order: Message, fds: list[int]) -> None:
        tree = self._by_call.get(order.get("call", ""))
        match order["do"]:
            case "hello":
                self._fences.close()
                self._fences = Fences(order["fence"], mark=mark_of(order["store"]))
                self._sys_path, self._flags = order["sys_path"], Flags(order["store"])
                self._argv = _argv_in(fds)
                self._asked = Asked(order["name"], within_s=_ASKED_S)
                self._until, self._lapse_kill_s = order["until"], order["lapse_kill_s"]
                if self._asked.fileno() >= 0:
                    self._poll.register(self._asked.fileno(), select.POLLIN)
                self._say(
                    {
                        "is": "ready",
                        "fence": self._fences.kind,
                        "why_not": self._fences.why_not,
                        "home": self._fences.home,
                    }
                )
                self._wake_zygote()
            case "start":
                self._start(order, fds)
            case "lease":
                self._until = max(order["until"], self._until)
            case "lost":
                self._epochs[order["run"]] = max(
                    order["epoch"] + 1, self._epochs.get(order["run"], 0)
                )
            case "stop" if tree:
                tree.stop(order["grace_s"])
            case "hurry" if tree:
                tree.hurry()
            case "freeze" if tree:
                tree.freeze(order["n"])
            case "thaw" if tree:
                tree.thaw()
            case _:
                pass  # about a call that has ended meanwhile
        if tree:
            self._tidy(tree)

    # --- starting ---

    def _refusal(self, tree: Tree) -> str:
        if tree.epoch < self._epochs.get(tree.run, 0):
            return _TAKEN
        return self._flags.refusal(*tree.whose)

    def _mind_the_lease(self) -> None:
        """Freeze what is held while the runtime may not act; kill it only if it says so."""
        if not self._until or not self._trees:
            return
        over_s = _boot_s() - self._until
        for tree in self._trees.values():
            tree.suspend() if over_s >= 0 else tree.resume()
        if self._lapse_kill_s and over_s >= self._lapse_kill_s:
            for tree in self._trees.values():
                tree.hurry("the lease of its owner has lapsed")

    def _left_by_run(self) -> dict[str, list[str]]:
        """What is held for runs that others have taken over."""
        left: dict[str, list[str]] = {}
        for tree in self._trees.values():
            if tree.epoch < self._epochs.get(tree.run, 0):
                left.setdefault(tree.run, []).append(tree.call)
        return left

    def _start(self, order: Message, fds: list[int]) -> None:
        call = order["call"]
        try:
            whose = [(agent, thread) for agent, thread in order["whose"]]
            if refusal := self._flags.refusal(*whose):
                raise OSError(0, refusal)
            if order["epoch"] < self._epochs.get(order["run"], 0):
                raise OSError(0, _TAKEN)
            fence = self._fences.new(call)
            mine, theirs = socket.socketpair()
            tree = Tree(call, fence, mine, self._say, self._strays)
            tree.whose, tree.run, tree.epoch = whose, order["run"], order["epoch"]
            self._trees[mine.fileno()] = tree
            self._by_call[call] = tree
            self._poll.register(mine.fileno(), select.POLLIN)
            if order["function"] is None:
                tree.holder = self._fork_holder(tree, theirs.fileno(), fds)
                theirs.close()
            else:
                spec = {**order, "fence": spec_of(fence)}
                self._wake_zygote().send(spec, [theirs.detach(), *fds])
                fds = []
        except OSError as error:
            why = error.strerror or str(error)
            self._say({"call": call, "is": "ended", "began": False, "why": why})
        finally:
            for fd in fds:
                with suppress(OSError):
                    os.close(fd)

    def _fork_holder(self, tree: Tree, status: int, fds: list[int]) -> int:
        pipes = Pipes(*fds)
        pid = os.fork()
        if pid == 0:
            hold(tree.fence, lambda: run_command(pipes), status, fds)
        return pid

    def _wake_zygote(self) -> Channel:
        if self._zygote is not None and is_alive(self._zygote_pid):
            return self._zygote
        if self._zygote is not None:
            self._zygote.close()
        mine, theirs = pair()
        me = os.getpid()
        self._zygote_pid = os.fork()
        if self._zygote_pid == 0:
            try:
                serve(Channel(theirs), self._sys_path, self._argv, me)
            finally:
                os._exit(1)
        theirs.close()
        self._zygote = Channel(mine)
        return self._zygote

    # --- ending ---

    def _tidy(self, tree: Tree, fd: int = -1) -> None:
        if not tree.is_over or tree.call not in self._by_call:
            return
        del self._by_call[tree.call]
        place = next(number for number, known in self._trees.items() if known is tree)
        with suppress(KeyError):
            self._poll.unregister(place)
        del self._trees[place]
        send(self._strays(), signal.SIGKILL)
        if not tree.fence.close():
            self._unclosed.append(tree)

    def _strays(self) -> set[int]:
        """Whose holder was killed by somebody becomes our child. Nobody vouches for it."""
        collect_the_dead(self._woken)
        ours = {self._zygote_pid, *(tree.holder for tree in self._trees.values())}
        strays = {child for child in children_of(os.getpid()) if child not in ours}
        return {pid for child in strays for pid in {child} | descendants_of(child) if is_alive(pid)}

    def _end_everything(self) -> NoReturn:
        """Nobody is left to be told. Kill until nothing is left, within a bound, and end. On a busy
        machine the time may be over before anything was done: so often it is tried at least."""
        until, tries = time.monotonic() + _LAST_S, _LAST_TRIES
        self._fences.close()  # what can be killed as one is
        while self._trees and (tries > 0 or time.monotonic() < until):
            tries -= 1
            for fd, tree in list(self._trees.items()):
                tree.hurry("the warden is gone")
                tree.hear(refuse="the runtime is gone")
                tree.tick(time.monotonic())
                self._tidy(tree, fd)
            time.sleep(0.002)
        if self._zygote_pid:
            send([self._zygote_pid], signal.SIGKILL)
            self._zygote_pid = 0  # what its imports have started are strays from here on
        while (self._strays() or not self._fences.close()) and time.monotonic() < until:
            send(self._strays(), signal.SIGKILL)
            collect_the_dead(self._woken)
            time.sleep(0.002)
        os._exit(0)

    # --- telling ---

    def _say(self, message: Message) -> None:
        with suppress(OSError):
            self._channel.send(message)

    def _flush(self) -> None:
        for channel in (self._channel, self._zygote):
            with suppress(OSError):
                if channel is not None:
                    channel.flush()


def _boot_s() -> float:
    """Time that also passes while the machine is suspended, as leases count it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def main() -> NoReturn:
    fd, runtime, runs = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends with its runtime, not before
    above = [os.pidfd_open(os.getpid())]
    with suppress(OSError):
        above.append(os.pidfd_open(runtime))
    if os.getppid() != runtime:
        os._exit(1)
    adopt_orphans()
    claims = Claims(runs)
    if warden := os.fork():
        _guard(warden, claims)
    woken = wake_when_a_child_dies()
    adopt_orphans()
    Warden(Channel(socket.socket(fileno=fd)), above, woken, claims).loop()


def _argv_in(files: list[int]) -> list[str]:
    """The words that the runtime's program was started with: in a file, for they may be long."""
    with open(files[0], encoding="utf-8") as file:
        return json.load(file)


def _guard(warden: int, claims: Claims) -> NoReturn:
    """Outlive the warden, should somebody kill it: what it held falls to us, and ends with it."""
    close_all_but([claims.fileno()])
    while os.WIFSTOPPED(os.waitpid(warden, os.WUNTRACED)[1]):
        send([warden], signal.SIGCONT)
    until = time.monotonic() + _LAST_S
    while children_of(os.getpid()) and time.monotonic() < until:
        send(descendants_of(os.getpid()), signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)
    os._exit(0)


if __name__ == "__main__":
    main()
