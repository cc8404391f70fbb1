"""P10: one act stops all runs and refuses new work, whatever state the runtime is in."""

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pullcord.killswitch.flags import Scope
from tests.conftest import FULL
from tests.storage.children import PRIVATE, answer, need_mounts
from tests.switch.store_with_processes import StoreWithProcesses, store_with_processes
from tests.tools.census import above

EVERYBODY = ("beats=2", "sleeps=2", "ignores=1", "threads=1", "tools=2", "waits=1")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[StoreWithProcesses]:
    with store_with_processes(tmp_path) as opened:
        yield opened


def everybody_works(home: StoreWithProcesses) -> None:
    home.has_begun(beat=20, sleeps=2, ignores=1, threads=1, works=2)
    home.until(lambda: home.states()["waits-0"] == "waiting")


def is_quiet(home: StoreWithProcesses, since_ns: int) -> bool:
    """Nothing has begun after that."""
    return not [what for what, at_ns in home.starts() if at_ns > since_ns]


def held(home: StoreWithProcesses) -> None:
    home.until(lambda: set(home.states().values()) == {"paused"})


def test_everything_stops_and_what_does_not_is_named(home: StoreWithProcesses) -> None:
    home.opens(*EVERYBODY, kind="embedded")
    everybody_works(home)
    pulled = home.pulls()
    acknowledged_ns = time.monotonic_ns()
    assert (pulled.asked, pulled.killed) == (1, [])
    assert not home.living()
    assert sorted(one.what.split(" of ")[0] for one in pulled.left) == [
        "step 'ignore'",
        "step 'wait_in_thread'",
    ]
    held(home)
    assert is_quiet(home, acknowledged_ns)


def test_a_process_of_our_own_that_cannot_stop_what_it_does_is_killed(
    home: StoreWithProcesses,
) -> None:
    process = home.opens(*EVERYBODY)
    everybody_works(home)
    pulled = home.pulls()
    assert (pulled.killed, pulled.left) == ([process.pid], [])
    assert process.wait() == -signal.SIGKILL
    home.until(lambda: not home.living())


def test_nothing_starts_after_a_restart_and_the_release_resumes_nothing(
    home: StoreWithProcesses,
) -> None:
    first = home.opens("beats=2", "tools=1")
    home.has_begun(beat=20, works=1)
    home.pulls()
    acknowledged_ns = time.monotonic_ns()
    first.kill()
    first.wait()
    second = home.opens("waits=0")
    held(home)
    assert is_quiet(home, acknowledged_ns)
    home.flags.lower(Scope())
    home.until(lambda: home.pulls(Scope("agent", "nobody")).asked == 1)  # it has looked again
    assert set(home.states().values()) == {"paused"}
    assert is_quiet(home, acknowledged_ns)
    assert second.poll() is None


@pytest.mark.parametrize("kind", ["killable", "embedded"])
def test_a_blocked_event_loop(home: StoreWithProcesses, kind: str) -> None:
    """Its thread answers for it: nothing starts, process tools are dead, what blocks is named, or
    killed with its process."""
    process = home.opens("tools=2", "beats=1", "wanders=1", "blocks=1", kind=kind)
    home.has_begun(works=2, beat=1, wanders=1, blocks=1)
    pulled = home.pulls()
    acknowledged_ns = time.monotonic_ns()
    home.until(lambda: not home.living())
    assert pulled.killed == ([process.pid] if kind == "killable" else [])
    named = [one.what.partition(" of ")[0] for one in pulled.left]
    assert ("step 'hold the loop'" in named) is (kind == "embedded")
    others = [one.why for one in pulled.left if one.what.startswith("run wanders-0 ")]
    assert [why.partition(";")[0] for why in others] == (
        ["its event loop is held"] if kind == "embedded" else []
    )
    assert is_quiet(home, acknowledged_ns)


def test_a_runtime_that_stands_still_is_killed_if_it_is_our_own(home: StoreWithProcesses) -> None:
    process = home.opens("tools=2", "beats=1")
    home.has_begun(works=2, beat=1)
    process.send_signal(signal.SIGSTOP)
    pulled = home.pulls()
    assert (pulled.killed, pulled.left) == ([process.pid], [])
    assert process.wait() == -signal.SIGKILL
    home.until(lambda: not home.living())


def test_and_is_named_if_it_is_not(home: StoreWithProcesses) -> None:
    process = home.opens("tools=2", "beats=1", kind="embedded")
    home.has_begun(works=2, beat=1)
    process.send_signal(signal.SIGSTOP)
    pulled = home.pulls()
    assert pulled.killed == []
    assert [one.what for one in pulled.left] == [f"process {process.pid}"]
    assert "Timing.killable" in pulled.left[0].why
    assert not home.living()  # by its warden, which needs nobody's word
    acknowledged_ns = time.monotonic_ns()
    process.send_signal(signal.SIGCONT)
    held(home)
    begun = [what for what, at_ns in home.starts() if at_ns > acknowledged_ns]
    assert begun in ([], ["beat"]), "one call may stand between its last look and its first line"


def test_a_part_of_the_work_does_not_kill_the_rest_of_it(home: StoreWithProcesses) -> None:
    process = home.opens("sleeps=1")
    home.has_begun(sleeps=1)
    process.send_signal(signal.SIGSTOP)
    [named] = home.pulls(Scope("agent", "beats")).left
    assert "engage the switch for everything" in named.why
    assert process.poll() is None


def test_the_acknowledgement_waits_for_tools_that_take_their_time_to_die(
    home: StoreWithProcesses,
) -> None:
    home.opens("carriers=3")
    home.has_begun(carries=3)
    assert home.pulls().left == []
    assert not home.living()


def test_a_warden_that_stands_still_is_named(home: StoreWithProcesses) -> None:
    process = home.opens("tools=2")
    home.has_begun(works=2)
    home.until(lambda: len(home.living()) == 2)
    *_, warden, guard = above(min(home.living()), process.pid)
    for pid in (guard, warden):  # the one would wake the other
        os.kill(pid, signal.SIGSTOP)
    pulled = home.pulls()
    assert pulled.left == [
        (f"process tool all of process {process.pid}", "its warden does not answer")
    ]
    for pid in (warden, guard):
        os.kill(pid, signal.SIGCONT)
    home.until(lambda: not home.living())
    held(home)


def test_the_database_is_locked_for_good(home: StoreWithProcesses) -> None:
    home.opens("beats=2", "tools=2", "wanders=1")
    home.has_begun(beat=20, works=2, wanders=1)
    blocker = sqlite3.connect(home.store, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    try:
        pulled = home.pulls()
        acknowledged_ns = time.monotonic_ns()
        assert (pulled.left, pulled.killed) == ([], [])  # cut, though nobody could be told yet
        assert not home.living()
        assert is_quiet(home, acknowledged_ns)
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()
    held(home)  # recorded as soon as it can be
    assert is_quiet(home, acknowledged_ns)


def test_the_database_is_not_there_any_more(home: StoreWithProcesses) -> None:
    home.opens("beats=2", "tools=2")
    home.has_begun(beat=20, works=2)
    home.store.rename(home.store.with_suffix(".gone"))
    pulled = home.pulls()
    acknowledged_ns = time.monotonic_ns()
    assert pulled.asked == 1
    assert not home.living()
    assert is_quiet(home, acknowledged_ns)


def test_a_flag_that_is_made_by_hand_counts(home: StoreWithProcesses) -> None:
    home.opens("beats=1", "tools=1")
    home.has_begun(beat=5, works=1)
    Path(f"{home.store}.kill-switch").touch()
    home.until(lambda: not home.living())
    held(home)
    assert "whoever made its file" in home.flags.raised()[0].by


def test_and_ends_the_tools_of_a_runtime_that_stands_still(home: StoreWithProcesses) -> None:
    """Nobody asks its warden, which looks by itself."""
    process = home.opens("tools=2")
    home.has_begun(works=2)
    process.send_signal(signal.SIGSTOP)
    Path(f"{home.store}.kill-switch").touch()
    home.until(lambda: not home.living())


def test_a_flag_that_cannot_be_looked_at_counts(home: StoreWithProcesses) -> None:
    home.opens("beats=1")
    home.has_begun(beat=5)
    flag = Path(f"{home.store}.kill-switch")
    flag.symlink_to(flag.name)  # around and around
    held(home)
    assert not os.path.exists(flag)


def test_only_one_agent(home: StoreWithProcesses) -> None:
    home.opens("beats=1", "sleeps=1", "tools=1")
    home.has_begun(beat=5, sleeps=1, works=1)
    assert home.pulls(Scope("agent", "tools")).left == []  # what others do is none of it
    assert not home.living()
    before = len(home.starts("beat"))
    home.until(lambda: len(home.starts("beat")) > before + 20)
    home.until(lambda: home.states()["tools-0"] == "paused")
    assert home.states()["sleeps-0"] == home.states()["beats-0"] == "running"


def test_only_one_thread(home: StoreWithProcesses) -> None:
    home.opens("beats=2")
    home.has_begun(beat=20)
    home.pulls(Scope("thread", "beats-0"))
    home.until(lambda: home.states()["beats-0"] == "paused")
    before = len(home.starts("beat"))
    home.until(lambda: len(home.starts("beat")) > before + 20)
    assert home.states()["beats-1"] == "running"


@pytest.mark.campaign
def test_nothing_starts_after_the_acknowledgement_however_often_it_is_pulled(
    home: StoreWithProcesses,
) -> None:
    """The race itself: two processes that start as much as they can."""
    home.opens("beats=4")
    home.opens("waits=1")
    for _ in range(400 if FULL else 12):
        begun = len(home.starts("beat"))
        home.until(lambda b=begun: len(home.starts("beat")) > b + 3)
        assert home.pulls().left == []
        acknowledged_ns = time.monotonic_ns()
        held(home)
        assert is_quiet(home, acknowledged_ns)
        home.flags.lower(Scope())
        home.resumes_all()


@pytest.mark.campaign
def test_two_hundred_runs_and_the_zoo(home: StoreWithProcesses) -> None:
    count = 200 if FULL else 40
    per = count // 5
    home.opens(f"zoo={per}", f"tools={per}", f"beats={per}", f"sleeps={per}", f"waits={per}")
    home.until(lambda: len(home.starts("beast")) >= per and len(home.starts("works")) >= per)
    pulled = home.pulls()
    acknowledged_ns = time.monotonic_ns()
    assert not home.living()
    assert (pulled.left, pulled.killed) == ([], [])  # it was done with all of them in its time
    home.until(lambda: set(home.states().values()) <= {"paused", "failed", "completed"})
    assert is_quiet(home, acknowledged_ns)


def test_the_disk_is_full(tmp_path: Path) -> None:
    need_mounts(tmp_path, "-t tmpfs -o size=2m tmpfs")
    said = answer([*PRIVATE, sys.executable, "-m", "tests.switch.full_disk", str(tmp_path)])
    assert said == "1 [] []\n"
