"""A child's story: a journal on a very small disk that fills up, and has room again later.

Run as a program in a private mount namespace: `python -m tests.storage.full_disk FOLDER`.
Tells what happened as one line of JSON.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

import msgspec

from pullcord.core.commands import Cancel
from pullcord.core.events import Created, Record, Spent
from pullcord.errors import PullcordError
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from tests.storage.disks import mount, unmount
from tests.storage.looks import folded, is_sound, records_of, reopened
from tests.storage.writers import claimed

CROWD: Final = tuple(f"crowd-{n}" for n in range(8))
CANCEL: Final = Cancel(by="ann", reason="too dear", key="k1")
AFTERWARDS: Final = 20


class Story(msgspec.Struct, kw_only=True):
    """What the journal said and held, in the order it happened."""

    acked: int = 0  # the last record of the run that was acknowledged before the disk was full
    append: str = ""  # each of these: the error, or what was answered in its place
    cancel: str = ""
    crowd: list[str] = []  # writers at the same time, who share a commit
    new_store: str = ""
    held_when_full: int = 0  # records of the run, read while the disk is full
    victim_when_full: str = ""
    crowd_when_full: int = 0
    acked_again: int = 0  # the same, with room again, through the same journal
    cancel_again: str = ""
    reopened: list[int] = []  # what each record of the run holds after a close and an open
    victim_reopened: str = ""
    crowd_reopened: int = 0
    sound: bool = False


async def _spend(journal: Journal, seq: int) -> int:
    event = Spent(tokens_in=seq + 1)
    await journal.append(Append(run_id="r1", events=[event], expected_seq=seq, epoch=1))
    return seq + 1


async def _create(journal: Journal, run_id: str) -> None:
    event = Created(agent="a", thread=run_id)
    await journal.append(Append(run_id=run_id, events=[event], expected_seq=0))


async def _cancelled(journal: Journal) -> str:
    try:
        return (await journal.command("victim", CANCEL)).verdict
    except PullcordError as error:
        return f"{type(error).__name__}: {error}"


def _new_store(path: Path) -> str:
    try:
        Journal.open(path)
    except PullcordError as error:
        return f"{type(error).__name__}: {error}"
    return "opened"


async def _while_full(story: Story, journal: Journal, folder: Path) -> None:
    story.cancel = await _cancelled(journal)
    everyone = [_create(journal, run_id) for run_id in CROWD]
    outcomes = await asyncio.gather(*everyone, return_exceptions=True)
    story.crowd = [type(outcome).__name__ for outcome in outcomes]
    story.new_store = _new_store(folder / "new.db")
    story.held_when_full = len(await journal.read("r1"))
    story.victim_when_full = (await journal.load("victim")).state
    story.crowd_when_full = len(await journal.runs()) - 2


async def _tell(folder: Path) -> Story:
    story = Story()
    filler = folder / "filler"
    filler.write_bytes(bytes(200 * 1024))
    async with Journal.open(folder / "runs.db") as journal:
        for run_id in ("r1", "victim"):
            await _create(journal, run_id)
            await claimed(journal, run_id)
        story.acked = 2
        try:
            while True:
                story.acked = await _spend(journal, story.acked)
        except PullcordError as error:
            story.append = f"{type(error).__name__}: {error}"
        await _while_full(story, journal, folder)
        filler.unlink()
        story.acked_again = story.acked
        for _ in range(AFTERWARDS):
            story.acked_again = await _spend(journal, story.acked_again)
        story.cancel_again = await _cancelled(journal)
    _look_again(story, folder / "runs.db")
    return story


def _number(record: Record) -> int:
    return record.event.tokens_in or 0 if isinstance(record.event, Spent) else 0


def _look_again(story: Story, path: Path) -> None:
    story.reopened = [_number(record) for record in reopened(path, records_of("r1"))]
    runs = reopened(path, folded)
    story.victim_reopened = runs["victim"].state
    story.crowd_reopened = len(runs.keys() & set(CROWD))
    story.sound = is_sound(path)


def main(folder: Path) -> None:
    mount("-t", "tmpfs", "-o", "size=512k", "pullcord-test", folder)
    try:
        sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_tell(folder))))
    finally:
        unmount(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
