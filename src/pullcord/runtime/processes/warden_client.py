"""The runtime's side of the warden: start a process tool, read what it writes, stop or freeze it.

Orders are packets on a socket and may be given from any thread, also while the event loop is
blocked. Nothing here waits for a pipe that a grandchild may hold open: what ends a call is the
warden's word that its whole tree is gone.
"""

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from pullcord.core.events import Rung
from pullcord.core.text.secrets import Secrets
from pullcord.killswitch.flags import Whose
from pullcord.killswitch.mark import WARDEN, WORKER, entry, mark_of
from pullcord.process import new_owner
from pullcord.runtime.processes.started_work import shared
from pullcord.warden.fences import clear_cgroup
from pullcord.warden.wire import Channel, Message, pair

_SOURCE: Final = str(Path(__file__).parent.parent.parent.parent)
_MAIN: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from pullcord.warden.main import main; main()"
)
_READ_BYTES: Final = 64 * 1024
_ANSWER_MAX_BYTES: Final = 20 * 1024 * 1024
_LOST: Final = "the warden is gone"


class ToolEnd(msgspec.Struct, kw_only=True):
    """How a call ended, by the warden's word: nothing of it is left but `survivors`."""

    began: bool
    status: int | None = None  # of the process itself: an exit status, or minus a signal
    rung: Rung = ""
    left: int = 0  # processes that it had left behind, and that were killed
    survivors: list[int] = msgspec.field(default_factory=list[int])
    ladder_ms: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    why: str = ""
    answer: bytes = b""  # what it wrote to its result pipe


class NotStarted(Exception):
    """The warden started nothing."""


class Process:
    """One process tool. `ended` is done when the warden says that nothing of it is left."""

    def __init__(
        self, call: str, send: Callable[[Message], None], news: Callable[[], None]
    ) -> None:
        self.call = call
        self.ended: asyncio.Future[ToolEnd] = asyncio.get_running_loop().create_future()
        self.is_frozen = False  # by the warden's word, and nobody has thawed it since
        self._last_order = 0
        self._lock = threading.Lock()
        self._send = send
        self._news = news
        self._answer = bytearray()
        self._readers: dict[int, Callable[[bytes], None]] = {}

    def stop(self, grace_s: float) -> None:
        """SIGTERM to the tree, SIGKILL after the grace. From any thread."""
        self._order("stop", grace_s=grace_s)

    def hurry(self) -> None:
        self._order("hurry")

    def freeze(self) -> None:
        """Let nothing of it run. `is_frozen` when that holds."""
        self._order("freeze")

    def thaw(self) -> None:
        self._order("thaw")

    def _order(self, what: str, **how: float) -> None:
        with self._lock, suppress(OSError):  # the warden is gone, and the process with it
            if what in ("freeze", "thaw"):
                self._last_order += 1
                self.is_frozen = False
            self._send({"do": what, "call": self.call, "n": self._last_order, **how})

    # --- what comes from it ---

    def listen(self, fd: int, take: Callable[[bytes], None] | None) -> None:
        """Read this pipe for as long as the call lasts. None: it is the answer."""
        os.set_blocking(fd, False)
        self._readers[fd] = take or self._take_answer
        asyncio.get_running_loop().add_reader(fd, self._read, fd)

    def _take_answer(self, data: bytes) -> None:
        if len(self._answer) <= _ANSWER_MAX_BYTES:
            self._answer += data

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._readers[fd](data)
            return True
        self._stop_reading(fd)
        return False

    def _stop_reading(self, fd: int) -> None:
        if self._readers.pop(fd, None):
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)

    def hear(self, message: Message) -> None:
        match message["is"]:
            case "frozen":
                with self._lock:  # not, if it was thawed while the word was on its way
                    self.is_frozen = message["n"] == self._last_order
            case "ended":
                self.end(message)
            case _:
                pass
        self._news()

    def end(self, message: Message) -> None:
        """Take what is left in the pipes; whoever may still hold them has no more to say."""
        for fd in list(self._readers):
            for _ in range(1024):  # all that a pipe can hold, and more
                if not self._read(fd):
                    break
            self._stop_reading(fd)
        if not self.ended.done():
            ended = msgspec.convert({k: v for k, v in message.items() if k != "is"}, ToolEnd)
            ended.answer = bytes(self._answer)
            self.ended.set_result(ended)


class Processes:
    """All process tools of one runtime. The warden is started with the first of them."""

    def __init__(
        self,
        *,
        fence: str = "auto",
        store: str = "",
        name: str = "",
        runs: str = "",
        lapse_kill_s: float = 0.0,
        secrets: Secrets | None = None,
    ) -> None:
        """`store`: whose kill switch counts. `name`: by which the warden can be asked what is left
        of its tools, also while this process stands still; `runs`: by which it is told that a run
        was taken over. `lapse_kill_s`: how long what it holds stays frozen after the lease has
        lapsed, before it is killed; 0: for ever. `secrets`: what none of them inherits unasked."""
        self._fence, self._name, self._runs = fence, name, runs
        self._lapse_kill_s, self._secrets = lapse_kill_s, secrets or Secrets()
        self._until_s = 0.0
        self._store = os.path.abspath(store) if store else ""
        self._mark = entry(mark_of(self._store), owner := new_owner())
        # What steps start carries a mark also if the store is in memory: it is found from here.
        self.mark_for_steps = self._mark or entry(os.urandom(8).hex(), owner)
        self._channel: Channel | None = None
        self._warden: subprocess.Popen[bytes] | None = None
        self._ready: asyncio.Future[Message] | None = None
        self._calls: dict[str, Process] = {}
        self._number = 0
        self._home = ""
        self._leaving: set[asyncio.Future[None]] = set()  # wardens that are not gone yet
        self._lock = threading.Lock()
        self.kind = ""  # of the fences that the warden makes; empty while there is none

    async def start(
        self,
        what: Message,
        given: bytes,
        *,
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
        news: Callable[[], None],
        began: Callable[[Process], bool],
        env: Mapping[str, str] | None = None,
        needs_env: Collection[str] = (),
        cwd: str | None = None,
        whose: Sequence[Whose] = (),
        run: str = "",
        epoch: int = 0,
    ) -> Process:
        """Ask the warden for it and return what stands for it.

        `what` is an `argv` or a `function`. `began` is called in the instant before the order is
        given, with what can stop it; if it says no, there is no order. `whose`: by what the kill
        switch knows whom it is called for; `run`, `epoch`: by which lease. `env`: what it finds in
        its environment besides what it inherits; `needs_env`: what of that it is given although it
        holds a secret.

        Raises:
            NotStarted: it said no, or there is no warden to be had.
        """
        await self._wake()
        self._number += 1
        process = Process(f"c{self._number}", self._order, news)
        order = {"do": "start", "call": process.call, "function": what.get("function")}
        order |= {"whose": list(whose), "run": run, "epoch": epoch}
        found = for_tools(self._secrets, needs=needs_env, given=env)
        marks = f"{os.environ.get(WORKER, '')} {self._mark}".strip()  # ours, if we are a tool, too
        found |= {"PULLCORD_CALL": f"{os.getpid()}-{process.call}"}
        found |= {WORKER: marks} if marks else {}
        spec = {**what, "env": found, "cwd": cwd or _here()}
        if not began(process):
            raise NotStarted("it was stopped before it began")
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        files = [_filed(json.dumps(spec).encode()), _filed(given)]
        for (read, _), take in zip(pipes, (out, err, None), strict=True):
            process.listen(read, take)
        self._calls[process.call] = process
        fds = [*files, *(write for _, write in pipes)]
        try:
            self._order(order, fds)
        except OSError as error:
            self._finish(process, {"began": False, "why": f"the warden was not told: {error}"})
        return process

    def licensed(self, until_s: float) -> None:
        """Tell the warden how long it may let things run, by boot time. From any thread."""
        self._until_s = until_s
        with suppress(OSError):  # there is none: the next one is told when it is started
            self._order({"do": "lease", "until": until_s})

    def lost(self, run: str, epoch: int) -> None:
        """Another owner has this run: the warden kills what it holds for it. From any thread."""
        with suppress(OSError):
            self._order({"do": "lost", "run": run, "epoch": epoch})

    async def aclose(self) -> None:
        """Let go of the warden. It ends whatever is still running, and itself."""
        if self._channel is not None:
            self._lose(self._channel)
        if self._leaving:
            await asyncio.wait(self._leaving)

    # --- the warden ---

    async def _wake(self) -> None:
        if self._ready is None:
            try:
                self._begin()
            except OSError as error:
                self._ready = None
                raise NotStarted(f"there can be no warden: {error.strerror or error}") from None
        assert self._ready is not None
        try:
            message = await asyncio.shield(self._ready)
        except EOFError:
            self._ready = None
            raise NotStarted(f"{_LOST}: it ended before it was ready") from None
        self.kind, self._home = message["fence"], message["home"]

    def _begin(self) -> None:
        if os.readlink("/proc/self") != str(os.getpid()):
            why = "/proc shows the processes of another PID namespace (unshare --mount-proc)"
            raise OSError(errno.ENOTSUP, why)
        loop = self._loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        mine, theirs = pair()
        os.set_inheritable(theirs.fileno(), True)
        for sock in (mine, theirs):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024 * 1024)
        with theirs, shared():  # it outlives the step that needs it first
            self._warden = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    _MAIN,
                    _SOURCE,
                    str(theirs.fileno()),
                    str(os.getpid()),
                    self._runs,
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, WARDEN: self._mark},
            )
        channel = self._channel = Channel(mine)
        loop.add_reader(channel.fileno(), self._hear, channel)
        self._order(
            {
                "do": "hello",
                "fence": self._fence,
                "store": self._store,
                "name": self._name,
                "until": self._until_s,
                "lapse_kill_s": self._lapse_kill_s,
                "sys_path": _paths(),
            },
            [_filed(json.dumps(sys.argv).encode())],  # of any length
        )

    def _order(self, message: Message, fds: list[int] | None = None) -> None:
        with self._lock:
            if self._channel is None:
                raise BrokenPipeError(_LOST)
            self._channel.send(message, fds or ())
            if self._channel.is_behind:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._catch_up, self._channel)

    def _catch_up(self, channel: Channel) -> None:
        """Send what did not fit as soon as it does."""
        with self._lock, suppress(OSError):
            if channel is not self._channel:
                return
            channel.flush()
            if channel.is_behind:
                self._loop.add_writer(channel.fileno(), self._catch_up, channel)
            else:
                self._loop.remove_writer(channel.fileno())

    def _hear(self, channel: Channel) -> None:
        try:
            while received := channel.receive():
                message, _ = received
                if message["is"] == "ready":
                    if self._ready and not self._ready.done():
                        self._ready.set_result(message)
                elif process := self._calls.get(message["call"]):
                    if message["is"] == "ended":
                        self._finish(process, message)
                    else:
                        process.hear(message)
        except EOFError:
            self._lose(channel)

    def _finish(self, process: Process, message: Message) -> None:
        self._calls.pop(process.call, None)
        process.hear({**message, "is": "ended"})

    def _lose(self, channel: Channel) -> None:
        """The warden is gone, or let go of. What it held dies with it; a cgroup needs help."""
        if channel is not self._channel:
            return
        asyncio.get_running_loop().remove_reader(channel.fileno())
        asyncio.get_running_loop().remove_writer(channel.fileno())
        with self._lock:
            self._channel = None
            channel.close()
        if self._ready and not self._ready.done():
            self._ready.set_exception(EOFError())
            self._ready.exception()
        else:
            self._ready = None
        if self._warden is not None:
            self._bury(self._warden, self._home, list(self._calls.values()))

    def _bury(self, warden: "subprocess.Popen[bytes]", home: str, calls: list[Process]) -> None:
        """Its calls have ended when it has: it, or its guard, does not go before they are gone."""
        loop = asyncio.get_running_loop()
        gone: asyncio.Future[None] = loop.create_future()
        self._leaving.add(gone)
        watched = os.pidfd_open(warden.pid)

        def is_gone() -> None:
            loop.remove_reader(watched)
            os.close(watched)
            warden.wait()
            if home:
                clear_cgroup(home)
            for process in calls:
                self._finish(process, {"began": True, "why": _LOST})
            self._leaving.discard(gone)
            gone.set_result(None)

        loop.add_reader(watched, is_gone)


def address_of(function: Any) -> dict[str, str] | None:
    """Where another process finds a function. None: nowhere, it is a closure or made on the fly."""
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not name or module is None or "<" in name:
        return None
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not function and getattr(found, "__pullcord_tool__", None) is not function:
        if getattr(found, "__wrapped__", None) is not function:
            return None
        name += ".__wrapped__"  # a decorator has put something of its own in the function's place
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" and not file:
        return None
    home = _name_of(module)
    return {"module": home, "file": os.path.abspath(file) if file else "", "name": name}


def can_be_shipped(function: Any) -> bool:
    """Return whether another process finds this function: it stands at the top of a module."""
    return address_of(function) is not None


def _name_of(module: ModuleType) -> str:
    """By what name it can be imported. What `python -m` runs is called `__main__`, and has another:
    by that its relative imports work, and a package's `__main__` is found."""
    spec = module.__spec__ if module.__name__ == "__main__" else None
    return spec.name if spec else module.__name__


def encoded(given: Any) -> bytes:
    return json.dumps(given).encode() if isinstance(given, dict) else msgspec.json.encode(given)


def _filed(given: bytes) -> int:
    """A file in memory, to be read from its beginning."""
    file = os.memfd_create("given", os.MFD_CLOEXEC)
    while given:
        given = given[os.write(file, given) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _here() -> str:
    """Where this process is, also if that is there no more: whoever goes there is told."""
    try:
        return os.getcwd()
    except OSError:
        return os.readlink("/proc/self/cwd").removesuffix(" (deleted)")


def _paths() -> list[str]:
    with suppress(OSError):
        here = os.getcwd()
        return [path or here for path in sys.path]
    return list(sys.path)


_OURS: Final = "PULLCORD_"
_NAMED: Final = "PULLCORD_SECRETS"
_CREDENTIALS: Final = frozenset({"PGPASSWORD"})


def named_secrets() -> list[str]:
    """The variables that `PULLCORD_SECRETS` names."""
    return [name.strip() for name in os.environ.get(_NAMED, "").split(",") if name.strip()]


def for_tools(
    secrets: Secrets, *, needs: Collection[str] = (), given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return what a tool finds. `needs`: what it asks for by name; `given`: what it is handed."""
    withheld = {*named_secrets(), *_CREDENTIALS} - set(needs)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in withheld and (name in needs or not secrets.are_in(value))
    }
    both = {**inherited, **(given or {})}
    return {name: value for name, value in both.items() if not name.startswith(_OURS)}
