"""File systems of a child's own, mounted in its private mount namespace and gone with it."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_EXT4_IOC_SHUTDOWN: Final = 0x8004587D
_NO_LOG_FLUSH: Final = 2
_TIMEOUT_S: Final = 60


def mount(*arguments: object) -> None:
    """Mount, for this namespace only: the caller was started through `children.PRIVATE`."""
    subprocess.run(["mount", *map(str, arguments)], check=True, timeout=_TIMEOUT_S)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True, timeout=_TIMEOUT_S)


def make_ext4(image: Path, *, size_mib: int) -> None:
    with image.open("wb") as file:
        file.truncate(size_mib * 2**20)
    command = ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", str(image)]
    subprocess.run(command, check=True, timeout=_TIMEOUT_S)


@contextmanager
def mounted_image(image: Path, folder: Path) -> Generator[None]:
    """The image as a file system at `folder`.

    `mount -o loop` frees the loop device when the last mount of it goes, so not even a child
    that is killed leaves one behind.
    """
    mount("-o", "loop", image, folder)
    try:
        yield
    finally:
        unmount(folder)


def cut_power(folder: Path) -> None:
    """Stop the ext4 at `folder` at once: what it has not written yet, data or log, is dropped."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(fd, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(fd)


def loop_devices_of(image: Path) -> str:
    """The loop devices that still hold `image`, as losetup lists them; empty if none does."""
    done = subprocess.run(
        ["losetup", "-j", str(image)],
        check=True,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    return done.stdout.strip()
