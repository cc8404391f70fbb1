"""`python -m tests.switch.full_disk FOLDER`, in a mount namespace of its own: the store's disk is
full to the last byte when the switch is pulled."""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.storage.disks import mount
from tests.switch.store_with_processes import StoreWithProcesses


def fill(folder: Path) -> None:
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


def main(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", disk)
    home = StoreWithProcesses(folder)
    home.store, home.flags = disk / "runs.db", type(home.flags)(str(disk / "runs.db"))
    try:
        home.opens("beats=2", "tools=2")
        home.has_begun(beat=20, works=2)
        fill(disk)
        pulled = home.pulls()
        acknowledged_ns = time.monotonic_ns()
        assert not home.living()
        assert not [at for _, at in home.starts() if at > acknowledged_ns]
        assert os.path.exists(f"{home.store}.kill-switch")
        print(pulled.asked, pulled.killed, pulled.left)
    finally:
        home.close()
        home.until(lambda: not home.living())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
