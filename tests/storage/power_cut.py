"""A child's story: one disk image, written to again and again until its power is cut.

Run as a program in a private mount namespace: `python -m tests.storage.power_cut FOLDER CUTS SEED`.
Tells each cut as one line of JSON. With `--write PATH LIFE` it is the process that dies of it:
every commit extends two runs, and every acknowledgement goes through a pipe, past the disk.
"""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from pullcord.core.events import Created, Spent
from pullcord.errors import PullcordError
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from tests.storage.children import module
from tests.storage.disks import cut_power, loop_devices_of, make_ext4, mounted_image
from tests.storage.looks import Seen, is_sound, look, reopened
from tests.storage.writers import claimed, say

MOST_ACKS: Final = 600  # about 1,200 pages of log: some cuts fall behind or into a checkpoint
_TIMEOUT_S: Final = 60


class Cut(msgspec.Struct, kw_only=True):
    """One cut, seen from outside and then from the disk that came back."""

    life: int
    acked: int  # the last commit acknowledged before the cut
    acked_late: int  # the last one acknowledged at all: see the test's docstring
    failure: str  # what the writer was told in the end
    exit_status: int
    present: tuple[int, int]  # commits found in each of the two runs
    others_intact: bool  # the runs of earlier lives are as they were found then
    sound: bool
    loop_left: str = ""


def names(life: int) -> tuple[str, str]:
    return f"left-{life}", f"right-{life}"


# --- the process that dies of it --------------------------------------------------------------


async def _write(path: str, life: int) -> None:
    pair = names(life)
    async with Journal.open(path) as journal:
        created = [(run, Created(agent="a", thread=run)) for run in pair]
        await journal.append(
            *(Append(run_id=run, events=[born], expected_seq=0) for run, born in created)
        )
        say("acked 1")
        for run in pair:
            await claimed(journal, run)
        for seq in range(2, sys.maxsize):
            event = Spent(tokens_in=seq)
            await journal.append(
                *(Append(run_id=run, events=[event], expected_seq=seq, epoch=1) for run in pair)
            )
            say(f"acked {seq}")


def _write_until_the_end(path: str, life: int) -> None:
    try:
        asyncio.run(_write(path, life))
    except PullcordError as error:
        say(f"failed {type(error).__name__}: {error}")


# --- the story --------------------------------------------------------------------------------


class _Heard(NamedTuple):
    before: int
    after: int
    failure: str
    exit_status: int


def _live(disk: Path, life: int, after_acks: int) -> _Heard:
    """Let a writer write, cut the power after so many acknowledgements, hear it out."""
    command = module("power_cut", "--write", disk / "runs.db", life)
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as writer:
        assert writer.stdout
        said = b""
        while said.count(b"\n") < after_acks and (more := os.read(writer.stdout.fileno(), 65536)):
            said += more
        cut_power(disk)
        rest = said + writer.stdout.read()
        failure = rest.partition(b"failed ")[2].decode().strip()
        return _Heard(_last(said), _last(rest), failure, writer.wait(_TIMEOUT_S))


def _last(said: bytes) -> int:
    """The last commit acknowledged in what the writer said."""
    acked = [line for line in said.splitlines(keepends=True) if line.startswith(b"acked ")]
    return max((int(line.split()[1]) for line in acked if line.endswith(b"\n")), default=0)


def _commits(seen: Seen, run_id: str) -> int:
    """How many of the writer's commits are in the run; its claim is one record more."""
    records = len(seen.hashes.get(run_id, ()))
    return records - 1 if records > 1 else records


def _one_cut(image: Path, disk: Path, life: int, after_acks: int, before: Seen) -> tuple[Cut, Seen]:
    with mounted_image(image, disk):
        heard = _live(disk, life, after_acks)
    with mounted_image(image, disk):
        seen = reopened(disk / "runs.db", look)
        left, right = names(life)
        cut = Cut(
            life=life,
            acked=heard.before,
            acked_late=heard.after,
            failure=heard.failure,
            exit_status=heard.exit_status,
            present=(_commits(seen, left), _commits(seen, right)),
            others_intact=all(seen.hashes.get(run) == rows for run, rows in before.hashes.items()),
            sound=is_sound(disk / "runs.db"),
        )
    cut.loop_left = loop_devices_of(image)
    return cut, seen


def main(folder: Path, cuts: int, seed: int) -> None:
    image, disk = folder / "image", folder / "disk"
    disk.mkdir()
    make_ext4(image, size_mib=64)
    rng = random.Random(seed)
    seen = Seen({}, {})
    for life in range(cuts):
        cut, seen = _one_cut(image, disk, life, rng.randrange(1, MOST_ACKS), seen)
        say(msgspec.json.encode(cut).decode())


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        _write_until_the_end(sys.argv[2], int(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
