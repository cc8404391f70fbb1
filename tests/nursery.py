"""Forks the commands of tests from a process that has already imported Pullcord: a nursery.

`python -m pullcord pause r1` spends nine tenths of its time on starting Python and importing. The
tests start it hundreds of times. A nursery does both once per test process, and forks a child for
each command. The child takes over the arguments, folder, environment, streams, session and terminal
of that command, and runs the module as `python -m` does.

`start` and `run` replace `subprocess.Popen` and `subprocess.run`. They take a module and its words
in place of a command line. Use them where a test checks what a command does. Start a real process
(`sys.executable`) where a test checks imports, shadowed modules, the time of a start, the view of a
shell or of `/proc/PID/cmdline`, or anything that happens before `main`.

`start` itself starts a real process if the environment of a command differs from the nursery's in a
variable that Python or a library reads before `main` (`PYTHONHASHSEED`, `LC_ALL`, …).
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TextIO

import pullcord

ROOT: Final = Path(__file__).parents[1]
AT_A_TERMINAL: Final = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""A program that makes its stdin its controlling terminal and becomes Python with its words."""
_READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC", "TZ", "TEXTUAL")
_LEFT_OUT: Final = ("opentelemetry", "pydantic", "pydantic_ai")
"""Pullcord looks for these in `sys.modules`: loaded here, they would seem loaded by the user."""
_HEADER: Final = struct.Struct("!I")  # the length of an order
_STATUS: Final = struct.Struct("!i")  # a process id, then its wait status


class Order(NamedTuple):
    """A command for a nursery to fork. The command's three streams are sent with it."""

    module: str
    words: list[str]
    folder: str
    environment: dict[str, str]
    has_own_session: bool
    has_terminal: bool  # its first stream is its controlling terminal


# --- in the test process ---


def start(
    module: str,
    *words: str,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    start_new_session: bool = False,
    has_terminal: bool = False,
    preloaded: tuple[str, ...] = (),
) -> "subprocess.Popen[str]":
    """Start `python -m module words`, and return its process. Pipes carry text.

    `has_terminal` makes its stdin its controlling terminal, as a shell does; that needs a session
    of its own. `preloaded`: use a separate nursery, which has imported these modules too.
    """
    environment = dict(os.environ if env is None else env)
    nursery = _nursery(preloaded)
    if not nursery.suits(environment):
        before = ["-c", AT_A_TERMINAL] if has_terminal else []
        return subprocess.Popen(
            [sys.executable, *before, "-m", module, *words],
            env=environment,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=start_new_session or has_terminal,
        )
    order = Order(
        module, list(words), str(Path(cwd or ".").absolute()), environment,
        start_new_session or has_terminal, has_terminal,
    )  # fmt: skip
    return Forked(nursery, order, stdin, stdout, stderr)


def run(
    module: str,
    *words: str,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    given: str | None = None,
    timeout_s: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m module words` to its end.

    Kills it after `timeout_s`, and raises `subprocess.TimeoutExpired`.
    """
    stdin = None if given is None else subprocess.PIPE
    process = start(
        module, *words, env=env, cwd=cwd, stdin=stdin,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            out, err = process.communicate(given, timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess([module, *words], process.returncode, out, err)


class Nursery:
    """The forking process, as the test process sees it. It ends with the test process."""

    def __init__(self, preloaded: Sequence[str]) -> None:
        self._environment = dict(os.environ)
        self._environment.pop("PYTHONPATH", None)  # each command brings its own
        self._turn = threading.Lock()
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *preloaded],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._line.close()
        self._process.wait()

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Return whether a real interpreter would start with the same settings as the nursery."""

        def read(given: Mapping[str, str]) -> dict[str, str]:
            return {
                name: value
                for name, value in given.items()
                if name.startswith(_READ_AT_START) and name != "PYTHONPATH"
            }

        return read(environment) == read(self._environment)

    def fork(self, order: Order, streams: Sequence[int], status: int) -> None:
        """Make the nursery fork a child. It writes the child's id, then its end, to `status`."""
        text = json.dumps(order).encode()
        with self._turn:
            socket.send_fds(self._line, [_HEADER.pack(len(text))], [*streams, status])
            self._line.sendall(text)


@cache
def _nursery(preloaded: tuple[str, ...]) -> Nursery:
    return Nursery(preloaded)


class Forked(subprocess.Popen[str]):
    """A child of the nursery. Only the nursery can wait for it, and reports how it ended."""

    def __init__(
        self,
        nursery: Nursery,
        order: Order,
        stdin: int | IO[Any] | None,
        stdout: int | IO[Any] | None,
        stderr: int | IO[Any] | None,
    ) -> None:
        self._nursery, self._order, self._status = nursery, order, -1
        command = [sys.executable, "-m", order.module, *order.words]
        super().__init__(command, stdin=stdin, stdout=stdout, stderr=stderr, text=True)

    def _execute_child(self, *given: Any) -> None:
        """Fork the child. Popen passes the pipes' ends, alike in Python 3.11 to 3.13."""
        ends: tuple[int, ...] = given[10:16]
        theirs = (ends[0], ends[3], ends[5])
        streams = [mine if fd == -1 else fd for mine, fd in enumerate(theirs)]
        self._status, status = os.pipe()
        try:
            self._nursery.fork(self._order, streams, status)
        finally:
            os.close(status)
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]
        self._child_created = True
        self.pid = self._told()

    def _told(self) -> int:
        told = os.read(self._status, _STATUS.size)
        assert told, "the nursery has ended; its error output says why"
        return _STATUS.unpack(told)[0]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        if self._ended(timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _ended(self, within_s: float | None) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None and select.select([self._status], [], [], within_s)[0]:
                self.returncode = os.waitstatus_to_exitcode(self._told())
                os.close(self._status)
            return self.returncode


# --- in the nursery ---


def _serve(line: socket.socket) -> Order:
    """Fork a child for each order. Returns only in a child, which has its streams by then."""
    children = selectors.DefaultSelector()
    children.register(line, selectors.EVENT_READ)
    while True:
        for key, _ in children.select():
            if key.fileobj is line:
                header, fds, _, _ = socket.recv_fds(line, _HEADER.size, 4)
                if not header:
                    os._exit(0)  # the test process has ended
                *streams, status = fds
                text = line.recv(_HEADER.unpack(header)[0], socket.MSG_WAITALL)
                if not (pid := os.fork()):
                    for fd, stream in enumerate(streams):
                        os.dup2(stream, fd)
                    children.close()
                    line.close()
                    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                    return Order(*json.loads(text))
                os.write(status, _STATUS.pack(pid))
                for stream in streams:
                    os.close(stream)
                children.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))
            else:
                pid, status = key.data
                children.unregister(key.fd)
                os.close(key.fd)
                _tell(status, os.waitpid(pid, 0)[1])


def _tell(status: int, ended: int) -> None:
    try:
        os.write(status, _STATUS.pack(ended))
    except BrokenPipeError:
        pass  # its test did not wait for it
    finally:
        os.close(status)


def _become(order: Order) -> None:
    """Run the command in this process, up to the end of its module."""
    if order.has_own_session:
        os.setsid()
    if order.has_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order.environment)
    os.chdir(order.folder)
    more = order.environment.get("PYTHONPATH", "")
    sys.path[:] = [order.folder, *filter(None, more.split(":")), *sys.path]
    importlib.invalidate_caches()
    sys.orig_argv = [sys.executable, "-m", order.module, *order.words]
    sys.argv = ["-m", *order.words]
    sys.stdin = sys.__stdin__ = _stream(0, "r", sys.stdin)
    sys.stdout = sys.__stdout__ = _stream(1, "w", sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, "w", sys.stderr)
    try:
        runpy.run_module(order.module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _leaving.append(end.code or 0)
    else:
        _leaving.append(0)


_leaving: Final[list[int]] = []  # the status, if the command has ended by itself


def _leave() -> None:
    """End a child at once, as the last of its `atexit` calls, after its threads.

    Otherwise the interpreter would take down every module, and so copy all the memory that the
    child shares with the nursery. If the output cannot be written, the interpreter reports that.
    """
    if _leaving:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return
        os._exit(_leaving[0])


def _stream(fd: int, mode: str, like: TextIO) -> TextIO:
    """Return a standard stream as a starting interpreter makes it. `like`: the nursery's own."""
    assert isinstance(like, TextIOWrapper)
    is_unbuffered = like.write_through  # PYTHONUNBUFFERED
    return TextIOWrapper(
        open(fd, f"{mode}b", 0 if is_unbuffered and mode == "w" else -1, closefd=False),
        encoding=like.encoding,
        errors=like.errors,
        newline="\n",
        line_buffering=not is_unbuffered and (fd == 2 or os.isatty(fd)),
        write_through=is_unbuffered,
    )


def _preload() -> None:
    """Import all of Pullcord, and the modules that a server imports when it starts.

    Skips every module that needs one of `_LEFT_OUT`.
    """
    for name in _LEFT_OUT:
        sys.modules[name] = None  # type: ignore[assignment]  # importing it fails
    for found in pkgutil.walk_packages(pullcord.__path__, "pullcord."):
        if not found.name.endswith(".__main__"):
            with suppress(ImportError):
                importlib.import_module(found.name)
    for name in ("uvicorn.lifespan.off", "uvicorn.protocols.http.auto"):
        importlib.import_module(name)
    for name in _LEFT_OUT:
        del sys.modules[name]


def _main(line: int, *preloaded: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the tests
    atexit.register(_leave)
    del sys.path[0]  # the folder of this file
    _preload()
    sys.path.insert(0, str(ROOT))
    for name in preloaded:
        importlib.import_module(name)
    del sys.path[0]
    gc.collect()
    gc.freeze()
    _become(_serve(socket.socket(fileno=line)))


if __name__ == "__main__":
    _main(int(sys.argv[1]), *sys.argv[2:])
