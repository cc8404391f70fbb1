"""Standard input, output and error, as they may be: closed, full, or with nobody at the other end.
What a command does must not depend on who reads what it says."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

_NAMES: Final = ("stdin", "stdout", "stderr")


def open_closed() -> None:
    """Have all three of them. Else the next file that is opened, a store say, would take the
    number of one, and be written into by whoever prints."""
    for fd, name in enumerate(_NAMES):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free
        if getattr(sys, name) is None:
            kept: Any = {"encoding": "utf-8", "errors": "replace", "closefd": False}
            setattr(sys, name, open(fd, "w" if fd else "r", **kept))  # noqa: SIM115


class Guarded:
    """A stream whose trouble is kept from whoever writes: once it cannot be written to, nothing
    more is, and `error` says why. Of output that nobody reads any more, whoever writes is told
    (`tells_of_pipes`): there is no sense in going on, if it only tells."""

    def __init__(self, file: Any, *, tells_of_pipes: bool) -> None:
        self._file = file
        self._tells_of_pipes = tells_of_pipes
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError as error:
            self._mute(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            self._mute(error)

    def _mute(self, error: OSError) -> None:
        self.error = self.error or error
        mute(self._file)
        if self._tells_of_pipes and isinstance(error, BrokenPipeError):
            raise error


@contextmanager
def guarded(*, tells_of_pipes: bool) -> Generator[Guarded]:
    """Standard output, and standard error as well, while a command is carried out."""
    before = sys.stdout, sys.stderr
    out = Guarded(sys.stdout, tells_of_pipes=tells_of_pipes)
    sys.stdout, sys.stderr = cast(Any, (out, Guarded(sys.stderr, tells_of_pipes=False)))
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before


def put(file: Any, text: str) -> None:
    """Write it at once. If nobody reads it any more, the work goes on all the same."""
    with suppress(BrokenPipeError):
        file.write(text)
        file.flush()


def mute(file: Any) -> None:
    """Write nothing there from now on, also not what is waiting to be written."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, file.fileno())
    os.close(null)
