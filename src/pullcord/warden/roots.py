"""What the process of a tool itself does: become a command, or call a Python function."""

import gc
import importlib
import importlib.util
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn, TextIO

from pullcord.warden.frames import own_place, own_traceback
from pullcord.warden.inside import importing, refusal
from pullcord.warden.kernel import children_of
from pullcord.warden.wire import Message

MAIN: Final = "__pullcord_main__"
_ERROR_CHARS: Final = 4000
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
        _answer(pipes.result, {"error": _described(error), "began": False})
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
        worker: Any = importlib.import_module("pullcord.warden.worker")
        answer = worker.carry_out(function, given)
    except NotImported as error:
        said = {"error": str(error), "at": error.at, "traceback": error.traceback, "began": False}
        answer = json.dumps(said).encode()
    except BaseException as error:
        answer = json.dumps({"error": _described(error), "began": False}).encode()
    _write_all(pipes.result, answer)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)


class NotImported(Exception):
    """The function of a tool could not be had: its module raised, or has no such name."""

    def __init__(self, address: Message, error: BaseException) -> None:
        self.at, self.traceback = own_place(error), own_traceback(error)
        module = os.path.basename(address["file"]) or address["module"]
        where = f" ({self.at})" if self.at else ""
        why = refusal() or f"{_described(error)}{where}"
        what = address["name"]
        super().__init__(
            f"NotStarted: {what!r} was not called: its process could not import {module}: {why} "
            f"Nothing of {what!r} was begun."
        )


def found(address: Message) -> Any:
    """Return the function at an address.

    Raises:
        NotImported: it cannot be had, for whatever reason.
    """
    try:
        importing(address["file"] or address["module"])
        function = find(address)
        importing("")
    except BaseException as error:
        raise NotImported(address, error) from error
    return function


def find(address: Message) -> Any:
    """Return what stands at an address: a module, perhaps its file, and a name in it."""
    found: Any = import_at(address)
    for name in address["name"].split("."):
        found = getattr(found, name)
    return found


def import_at(address: Message) -> Any:
    """Return the module, imported by name if that leads to the same file, or else from the file."""
    name, file = address["module"], address["file"]
    if name != "__main__":
        if name in sys.modules:
            return sys.modules[name]
        spec = None
        with suppress(ImportError):  # of a package above it; what it raises itself is its own word
            spec = importlib.util.find_spec(name)
        if spec and (not file or _is_same(spec.origin, file)):
            return importlib.import_module(name)
    known = MAIN if name == "__main__" else name
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file or name} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[known]
            raise
    return sys.modules[known]


def _is_same(origin: str | None, file: str) -> bool:
    with suppress(OSError):
        return origin is not None and os.path.samefile(origin, file)
    return False


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


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_ERROR_CHARS]
    except BaseException:
        return f"{type(error).__name__}: it cannot say what it is"
