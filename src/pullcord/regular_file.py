"""Opens a file of ours under whose name anything may lie. Never waits, never follows a link.

A tool, or another user, who may write to the folder of a store may put a pipe, a device or an
endless file there. A plain `open` of a pipe waits for a writer that never comes. So the file is
opened without blocking, and the opened file (not the name) is checked.
"""

import errno
import os
import stat
from typing import Final

_HARMLESS: Final = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
}


def open_regular(
    path: str | os.PathLike[str],
    flags: int = os.O_RDONLY,
    mode: int = 0o600,
    *,
    follow: bool = False,
) -> int:
    """Return a descriptor of a regular file, or refuse. `follow`: a link may lead to it.

    Raises:
        OSError: it cannot be opened, or it is something else; `strerror` says what.
    """
    try:  # a device is not even opened: for some, that alone is an act
        found = os.stat(path, follow_symlinks=follow)
    except FileNotFoundError:
        pass
    else:
        _refuse_irregular(found.st_mode, path)
    file = os.open(path, flags | _HARMLESS | (0 if follow else os.O_NOFOLLOW), mode)
    try:
        _refuse_irregular(os.fstat(file).st_mode, path)  # it may have been exchanged meanwhile
    except OSError:
        os.close(file)
        raise
    return file


def first_bytes(path: str | os.PathLike[str], count: int) -> bytes:
    """Return at most so many bytes from its beginning.

    Raises:
        OSError: see `open_regular`.
    """
    file = open_regular(path)
    try:
        return _read(file, count)
    finally:
        os.close(file)


def whole(path: str | os.PathLike[str], most: int, *, follow: bool = False) -> bytes:
    """Return all that is in it.

    Raises:
        OSError: see `open_regular`; or it has more than `most` bytes.
    """
    file = open_regular(path, follow=follow)
    try:
        if os.fstat(file).st_size <= most and len(read := _read(file, most + 1)) <= most:
            return read
    finally:
        os.close(file)
    raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", os.fspath(path))


def _read(file: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0 and (part := os.read(file, min(count, 1 << 20))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _refuse_irregular(mode: int, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise OSError(errno.EINVAL, f"it is {kind}, where a file belongs", os.fspath(path))
