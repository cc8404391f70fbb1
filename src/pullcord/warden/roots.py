"""What the process of a tool itself does: become a command, or call a Python function."""

import gc
import json
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TextIO

from pullcord.lazy_import import lazy_import
from pullcord.warden.finding import NotImported, described, found
from pullcord.warden.kernel import children_of
from pullcord.warden.wire import Message

if TYPE_CHECKING:
    from pullcord.warden import worker
else:
    worker = lazy_import("pullcord.warden.worker")

_READ_BYTES: Final = 1 << 20


class Pipes(NamedTuple):
    """The descriptors that come with a call. `what`: a file that says what to do, and where;
    `given`: one with the arguments, or what is to be standard input."""

    what: int
    given: int
    out: int
    err: int
    result: int


def run_command(pipes: Pipes) -> NoReturn:
    """Become the command. What keeps it from becoming one is its result."""
    try:
        spec = json.loads(_read_all(pipes.what))
        _settle_in(spec, pipes)
        os.dup2(pipes.given, 0)
        os.set_inheritable(pipes.result, False)
        argv: list[str] = spec["argv"]
        os.execvpe(argv[0], argv, dict(os.environ))
    except BaseException as error:
        _answer(pipes.result, {"error": described(error), "began": False})
    finally:
        os._exit(127)


def call_function(pipes: Pipes, learnt: int = -1) -> NoReturn:
    """Call the function and answer what it returned or raised. `learnt`: where to say how long
    the import of its module took, if it has started no threads and no processes."""
    try:
        spec = json.loads(_read_all(pipes.what))
        _settle_in(spec, pipes)
        gc.enable()
        began = time.monotonic()
        function = found(spec["function"])
        if learnt >= 0:
            if len(os.listdir("/proc/self/task")) == 1 and not children_of("self"):
                os.write(learnt, b"%d" % ((time.monotonic() - began) * 1000))
            os.close(learnt)
        given = json.loads(_read_all(pipes.given))
        answer = worker.carry_out(function, given)
    except NotImported as error:
        said = {"error": str(error), "at": error.at, "traceback": error.traceback, "began": False}
        answer = json.dumps(said).encode()
    except BaseException as error:
        answer = json.dumps({"error": described(error), "began": False}).encode()
    _write_all(pipes.result, answer)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)


def _settle_in(spec: Message, pipes: Pipes) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(pipes.out, 1)
    os.dup2(pipes.err, 2)
    for fd in (nothing, pipes.what, pipes.out, pipes.err):
        if fd > 2:
            os.close(fd)
    environment: dict[str, str] = spec["env"]
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout, sys.stderr = _text(1), _text(2)
    try:
        os.chdir(spec["cwd"])
    except OSError as error:
        raise OSError(f"its working directory {spec['cwd']} cannot be used: {error}") from None


def _text(fd: int) -> TextIO:
    return open(fd, "w", buffering=1, errors="backslashreplace", closefd=False)


def _read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    parts: list[bytes] = []
    while part := os.read(fd, _READ_BYTES):
        parts.append(part)
    return b"".join(parts)


def _write_all(fd: int, answer: bytes) -> None:
    with suppress(OSError):
        while answer:
            answer = answer[os.write(fd, answer) :]


def _answer(fd: int, message: Message) -> None:
    _write_all(fd, json.dumps(message).encode())
