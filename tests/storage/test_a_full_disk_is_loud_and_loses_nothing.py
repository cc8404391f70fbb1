"""P13: a full disk is said, to whoever writes and to whoever stops a run; nothing acknowledged
is lost, nothing is half there, and the same journal goes on as soon as there is room.

A real disk of 512 KiB (tmpfs), mounted in a child's own mount namespace.
"""

from pathlib import Path

import msgspec
import pytest

from tests.storage.children import PRIVATE, answer, module, need_mounts
from tests.storage.full_disk import AFTERWARDS, CROWD, Story


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """One journal's life through a full disk; each test looks at another part of it."""
    folder = tmp_path_factory.mktemp("small-disk")
    need_mounts(folder, "-t tmpfs -o size=512k pullcord-test")
    told = answer([*PRIVATE, *module("full_disk", folder)])
    assert not any(Path(folder).iterdir()), "the mount has leaked"
    print(told)
    return msgspec.json.decode(told, type=Story)


def test_a_write_to_a_full_disk_raises_and_says_why_and_what_to_do(story: Story) -> None:
    assert story.append.startswith("StorageFailed: Writing to ")
    assert "runs.db failed: the disk is full" in story.append
    assert "not acknowledged; everything acknowledged before is safe" in story.append
    assert "Make room and send it again." in story.append


def test_a_cancel_on_a_full_disk_raises_and_is_never_acknowledged(story: Story) -> None:
    assert story.cancel.startswith("StorageFailed: ")
    assert "the disk is full" in story.cancel
    assert story.victim_when_full == "running"


def test_writers_that_share_a_commit_on_a_full_disk_all_hear_of_it(story: Story) -> None:
    assert story.crowd == ["StorageFailed"] * len(CROWD)
    assert story.crowd_when_full == 0


def test_a_new_store_on_a_full_disk_is_refused_by_name(story: Story) -> None:
    assert story.new_store.startswith(("StorageFailed: ", "StoreRefused: "))
    assert "new.db" in story.new_store


def test_everything_acknowledged_is_readable_while_the_disk_is_full(story: Story) -> None:
    assert story.acked > 2
    assert story.held_when_full == story.acked


def test_the_same_journal_goes_on_when_there_is_room_again(story: Story) -> None:
    assert story.acked_again == story.acked + AFTERWARDS
    assert story.cancel_again == "applied"


def test_after_a_full_disk_the_store_reopens_with_all_records_and_no_half_ones(
    story: Story,
) -> None:
    print(f"{story.acked} acknowledged before, {AFTERWARDS} after; {len(story.reopened)} present")
    assert story.reopened == [0, 0, *range(3, story.acked_again + 1)]
    assert story.victim_reopened == "cancelling"
    assert story.crowd_reopened == 0
    assert story.sound
