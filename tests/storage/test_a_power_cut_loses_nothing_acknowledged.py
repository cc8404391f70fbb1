"""P1(b): after a power cut every acknowledged record is there, and no transaction is half there.

The cut is *simulated*: an ext4 image on a loop device is shut down by ioctl without flushing its
log. That drops every page the kernel had not written yet; it does not drop the volatile cache of
a real disk. Acknowledgements leave the writer through a pipe; those that were out when the cut
began must hold. The writer outlives a simulated cut by an instant, which no real one would
allow: a sync that races with the shutdown may tell it "done" about what is lost (seen with a bare
fdatasync on a bare file, without SQLite, in 1 of 12 cuts). Such late words are counted apart.
"""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.storage.campaign import FULL, fresh_seed
from tests.storage.children import PRIVATE, answer, module, need_mounts
from tests.storage.disks import make_ext4
from tests.storage.power_cut import Cut

CUTS: Final = 40 if FULL else 2


@pytest.mark.campaign
def test_a_power_cut_at_any_instant_keeps_everything_acknowledged(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    mountpoint = tmp_path / "mountpoint"
    mountpoint.mkdir()
    need_mounts(mountpoint, "-t tmpfs pullcord-test", "mkfs.ext4", "losetup")
    make_ext4(probe, size_mib=8)
    need_mounts(mountpoint, f"-o loop {probe}")
    command = module("power_cut", tmp_path, CUTS, fresh_seed())
    told = answer([*PRIVATE, *command], timeout_s=CUTS * 30)
    cuts = [msgspec.json.decode(line, type=Cut) for line in told.splitlines()]
    for cut in cuts:
        print(cut)
        # The writer heard of it; whoever reads a disk that is going away may find nonsense there.
        assert cut.failure.startswith(("StorageFailed: ", "StoreRefused: ")), cut
        assert cut.exit_status == 0, cut
        left, right = cut.present
        assert left == right, cut  # each commit extends both runs, or neither
        assert cut.acked <= left <= cut.acked_late + 1, cut  # at most the one under way is extra
        assert cut.others_intact, cut
        assert cut.sound, cut
        assert cut.loop_left == "", cut
    acked, present = sum(cut.acked for cut in cuts), sum(cut.present[0] for cut in cuts)
    late = sum(cut.acked_late > cut.acked for cut in cuts)
    print(
        f"{len(cuts)} cuts: {acked} commits acknowledged before them, {present} present, 0 lost; "
        f"a late word in {late} cuts"
    )
    assert len(cuts) == CUTS
