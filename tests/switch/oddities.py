"""Things that may lie where a file of ours belongs."""

import os
import socket
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Final

HUGE_BYTES: Final = 10 * 1024**3


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    """The terminal of whoever has none, where no device can be made."""
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero, which never ends
    except PermissionError:
        path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as listening:  # (107 bytes are few)
        listening.bind(path.name)


def _link_to_a_fifo(path: Path) -> None:
    there = path.with_name(f"{path.name}.elsewhere")
    os.mkfifo(there)
    path.symlink_to(there)


def _link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _folder(path: Path) -> None:
    path.mkdir()


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE_BYTES)


def _unreadable(path: Path) -> None:
    path.touch(mode=0o000)


ODDITIES: Final[dict[str, Callable[[Path], None]]] = {
    "a pipe": _fifo,
    "a device": _device,
    "a socket": _socket,
    "a link to a pipe": _link_to_a_fifo,
    "a link to nowhere": _link_to_nowhere,
    "a folder": _folder,
    "a huge file": _huge,
    "an unreadable file": _unreadable,
}


def put(path: Path, oddity: str) -> None:
    """Put it there, in place of whatever was."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.before"))
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    ODDITIES[oddity](path)
