"""The head of the stop log, noted outside the database: one line for each commit that added to it.

Who cuts off the end of the log, or puts an older copy of the store in its place, has to change
this file as well. It is written behind the commit: it may lag, and never leads.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from pullcord.errors import StorageFailed
from pullcord.journal.store import StopRow
from pullcord.lazy_import import lazy_import
from pullcord.regular_file import open_regular

if TYPE_CHECKING:
    import logging
else:
    logging = lazy_import("logging")  # a control that goes well does not load it

ANCHOR_ENV: Final = "PULLCORD_ANCHOR"
_LINE: Final = re.compile(r"stop ([1-9][0-9]{0,18}) ([0-9a-f]{64}) (-?[0-9]{1,18})")
_BEGINS: Final = re.compile(r"stop ([1-9][0-9]{0,18})(?: |$)")
_BARE: Final = re.compile(r"s|st|sto|stop|stop |stop [1-9][0-9]{0,18}")
_LINE_MAX: Final = 128
_FILE_MAX_BYTES: Final = 1024 * 1024 * 1024  # about ten million stops


class Anchored(NamedTuple):
    """One line: the number, the hash and the time of an entry of the log. The word before them
    tells the rest of a line that was broken in two from the beginning of one."""

    n: int
    hash: str
    at_ms: int

    def __str__(self) -> str:
        return f"stop {self.n} {self.hash} {self.at_ms}"


def anchored(row: StopRow) -> Anchored:
    return Anchored(row.n, row.hash.hex(), row.at_ms)


def anchor_of(store: Path) -> Path:
    """Where the anchor of this store is: beside it, or where `PULLCORD_ANCHOR` says. A folder
    there holds one file for each store, by the store's name."""
    name = store.name + ".anchor"
    elsewhere = os.environ.get(ANCHOR_ENV, "")
    if not elsewhere:
        return store.with_name(name)
    return Path(elsewhere) / name if os.path.isdir(elsewhere) else Path(elsewhere)


class Anchor:
    """The file, for who writes to the store."""

    def __init__(self, store: Path) -> None:
        self.path = anchor_of(store)
        self._is_behind = False

    def note(self, row: StopRow) -> None:
        """Add a line. Trouble with it is said once and fails nothing: the next line makes it
        good, because its hash covers all entries before it."""
        try:
            _append(self.path, f"{anchored(row)}\n".encode())
        except OSError as error:
            if not self._is_behind:
                self._say(row.n, error)
            self._is_behind = True
        else:
            self._is_behind = False

    def _say(self, n: int, error: OSError) -> None:
        logging.getLogger("pullcord.journal").warning(
            "The head of the stop log (entry %d) could not be noted in %s: %s. The stop itself is "
            "recorded. Until a line can be written, it would not be missed if somebody cut off the "
            "end of the log.",
            n,
            self.path,
            error.strerror or error,
        )


def _append(path: Path, line: bytes) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    fd = open_regular(path, flags, 0o644, follow=bool(os.environ.get(ANCHOR_ENV)))
    try:
        size = os.fstat(fd).st_size
        is_torn = size and os.pread(fd, 1, size - 1) != b"\n"
        data = b"\n" + line if is_torn else line  # what was torn stays a line of its own
        if os.write(fd, data) != len(data):
            raise OSError(errno.ENOSPC, "only a part of the line could be written")
    finally:
        os.close(fd)


class AnchorFile:
    """The file, for who checks it: as much of it as was there when it was opened.

    Opened before the store is looked at, it cannot lead by what is written meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            StorageFailed: something is there, and cannot be read.
        """
        self.path, self.size = path, -1
        if os.path.lexists(path):
            with self._opened() as file:
                self.size = os.fstat(file.fileno()).st_size

    def _opened(self) -> BinaryIO:
        try:
            file = open_regular(self.path, follow=True)
            if os.fstat(file).st_size <= _FILE_MAX_BYTES:
                return open(file, "rb")
            os.close(file)
            raise OSError(errno.EFBIG, f"it has more than {_FILE_MAX_BYTES:,} bytes")
        except OSError as error:
            raise StorageFailed(
                "Reading the anchor",
                path=str(self.path),
                why=error.strerror or str(error),
                instead="Nothing was checked. Name a copy of the anchor: --anchor FILE; or move "
                "that away, and check without one.",
            ) from None

    @property
    def is_there(self) -> bool:
        return self.size >= 0

    def lines(self) -> Iterator[tuple[int, str, bool]]:
        """Each line with its number, and whether it is whole: ends with a line's end."""
        if not self.is_there:
            return
        left, number = self.size, 0
        with self._opened() as file:
            while left > 0:
                line = file.readline(min(left, _LINE_MAX))
                if not line:
                    return
                left -= len(line)
                number += 1
                is_whole = line.endswith(b"\n")
                yield number, line.removesuffix(b"\n").decode("latin-1"), is_whole


def read_line(text: str) -> Anchored | None:
    """What a line says. None: it is no line of an anchor."""
    said = _LINE.fullmatch(text)
    return Anchored(int(said[1]), said[2], int(said[3])) if said else None


def begins_with(text: str) -> int:
    """The number of the entry that a line, or what there is of it, names; 0: none."""
    said = _BEGINS.match(text)
    return int(said[1]) if said else 0


def may_be_torn(text: str, like: Anchored | None) -> bool:
    """Whether this can be the first part of a line that was never written to its end; `like` is
    the line of the entry that it names."""
    if like is None:
        return bool(text) and _BARE.fullmatch(text) is not None
    return text != str(like) and str(like).startswith(text)
