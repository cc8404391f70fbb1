"""The runtime's side of the warden: start a process tool, read its output, stop or freeze it.

Orders are packets on a socket. Any thread may send them, also while the event loop is blocked. A
call ends when the warden reports that its whole process tree is gone. It does not wait for a pipe
that a grandchild may hold open.
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
    """The warden's report of a call's end: nothing of it is left except `survivors`."""

    began: bool
    status: int | None = None  # exit status of the process itself, or minus a signal
    rung: Rung = ""
    left: int = 0  # processes that it had left running, and that were killed
    survivors: list[int] = msgspec.field(default_factory=list[int])
    ladder_ms: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    why: str = ""
    answer: bytes = b""  # the contents of its result pipe


class NotStarted(Exception):
    """The warden started nothing."""


class Process:
    """One process tool. `ended` is done when the warden reports that nothing of it is left."""

    def __init__(
        self, call: str, send: Callable[[Message], None], news: Callable[[], None]
    ) -> None:
        self.call = call
        self.ended: asyncio.Future[ToolEnd] = asyncio.get_running_loop().create_future()
        self.is_frozen = False  # as the warden reports; a thaw resets it
        self._last_order = 0
        self._lock = threading.Lock()
        self._send = send
        self._news = news
        self._answer = bytearray()
        self._readers: dict[int, Callable[[bytes], None]] = {}

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM to the tree, and SIGKILL after the grace. Any thread may call this."""
        self._order("stop", grace_s=grace_s)

    def hurry(self) -> None:
        self._order("hurry")

    def freeze(self) -> None:
        """Freeze the process tree. `is_frozen` says when that is done."""
        self._order("freeze")

    def thaw(self) -> None:
        self._order("thaw")

    def _order(self, what: str, **how: float) -> None:
        with self._lock, suppress(OSError):  # the warden is gone, and the process with it
            if what in ("freeze", "thaw"):
                self._last_order += 1
                self.is_frozen = False
            self._send({"do": what, "call": self.call, "n": self._last_order, **how})

    # --- reports and output ---

    def listen(self, fd: int, take: Callable[[bytes], None] | None) -> None:
        """Read this pipe for as long as the call lasts. `take` None: it carries the answer."""
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
                with self._lock:  # not if a thaw came before the report
                    self.is_frozen = message["n"] == self._last_order
            case "ended":
                self.end(message)
            case _:
                pass
        self._news()

    def end(self, message: Message) -> None:
        """Read the rest of the pipes and close them, even if a grandchild still holds them open."""
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
    """All process tools of one runtime. The first of them starts the warden."""

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
        """Prepare the processes. The first `start` starts the warden.

        - `store`: the store whose kill switch counts.
        - `name`: the name by which others ask the warden what is left of its tools, also while this
          process stands still.
        - `runs`: the name by which others tell it that a run was taken over.
        - `lapse_kill_s`: how long its tools stay frozen after the lease has lapsed, before it kills
          them. 0: for ever.
        - `secrets`: tools inherit these only on request.
        """
        self._fence, self._name, self._runs = fence, name, runs
        self._lapse_kill_s, self._secrets = lapse_kill_s, secrets or Secrets()
        self._until_s = 0.0
        self._store = os.path.abspath(store) if store else ""
        self._mark = entry(mark_of(self._store), owner := new_owner())
        # Steps' processes carry a mark also if the store is in memory: this process finds them.
        self.mark_for_steps = self._mark or entry(os.urandom(8).hex(), owner)
        self._channel: Channel | None = None
        self._warden: subprocess.Popen[bytes] | None = None
        self._ready: asyncio.Future[Message] | None = None
        self._calls: dict[str, Process] = {}
        self._number = 0
        self._home = ""
        self._leaving: set[asyncio.Future[None]] = set()  # wardens that have not ended yet
        self._lock = threading.Lock()
        self.kind = ""  # of the warden's fences; empty before there is a warden

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
        """Ask the warden to start a process, and return its `Process`.

        - `what`: an `argv` or a `function`.
        - `began`: called with the process in the instant before the order. If it returns False,
          nothing is ordered.
        - `whose`: the names by which the kill switch knows the caller.
        - `run`, `epoch`: the lease of the call.
        - `env`: variables to add to the inherited ones.
        - `needs_env`: variables to inherit although they hold a secret.

        Raises:
            NotStarted: `began` returned False, or there is no warden.
        """
        await self._wake()
        self._number += 1
        process = Process(f"c{self._number}", self._order, news)
        order = {"do": "start", "call": process.call, "function": what.get("function")}
        order |= {"whose": list(whose), "run": run, "epoch": epoch}
        found = for_tools(self._secrets, needs=needs_env, given=env)
        marks = f"{os.environ.get(WORKER, '')} {self._mark}".strip()  # of our own, if we are a tool
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
        """Tell the warden until when its tools may run, by boot time. Any thread may call this."""
        self._until_s = until_s
        with suppress(OSError):  # no warden yet: the next one learns it when it starts
            self._order({"do": "lease", "until": until_s})

    def lost(self, run: str, epoch: int) -> None:
        """Tell the warden to kill the tools of a run that another owner has. From any thread."""
        with suppress(OSError):
            self._order({"do": "lost", "run": run, "epoch": epoch})

    async def aclose(self) -> None:
        """Let go of the warden. It ends the running tools and itself."""
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
        with theirs, shared():  # it outlives the step that first needs it
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
        """Send the rest of the orders, as soon as the socket takes them."""
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
        """Drop the warden, which is gone or no longer needed. Its tools die with it."""
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
        """End its calls when the warden has ended. Before that, it or its guard ends its tools."""
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
    """Return where another process finds a function. None: it is a closure or made at run time."""
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
        name += ".__wrapped__"  # a decorator has replaced the function under its name
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" and not file:
        return None
    home = _name_of(module)
    return {"module": home, "file": os.path.abspath(file) if file else "", "name": name}


def can_be_shipped(function: Any) -> bool:
    """Return whether another process finds this function: it is at the top of a module."""
    return address_of(function) is not None


def _name_of(module: ModuleType) -> str:
    """Return the name by which a module can be imported.

    `python -m` runs a module as `__main__`, but it has a name of its own. With that name its
    relative imports work, and a package's `__main__` is found.
    """
    spec = module.__spec__ if module.__name__ == "__main__" else None
    return spec.name if spec else module.__name__


def encoded(given: Any) -> bytes:
    return json.dumps(given).encode() if isinstance(given, dict) else msgspec.json.encode(given)


def _filed(given: bytes) -> int:
    """Return a file in memory with these bytes, at its beginning."""
    file = os.memfd_create("given", os.MFD_CLOEXEC)
    while given:
        given = given[os.write(file, given) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _here() -> str:
    """Return this process's working directory, even if it is deleted. (Its use then fails.)"""
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
    """Return the variables that `PULLCORD_SECRETS` names."""
    return [name.strip() for name in os.environ.get(_NAMED, "").split(",") if name.strip()]


def for_tools(
    secrets: Secrets, *, needs: Collection[str] = (), given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a tool's environment. `needs`: names that it asks for; `given`: added variables."""
    withheld = {*named_secrets(), *_CREDENTIALS} - set(needs)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in withheld and (name in needs or not secrets.are_in(value))
    }
    both = {**inherited, **(given or {})}
    return {name: value for name, value in both.items() if not name.startswith(_OURS)}
