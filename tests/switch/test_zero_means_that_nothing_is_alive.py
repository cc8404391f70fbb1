"""P10, P6: exit status 0 of the kill switch is true, also if all of our processes were killed.

Whoever is killed (the runtime, its warden, the guard above that, the holders of the tools), what
carries the mark of the store is found by whoever pulls the switch, and ended or named.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import pullcord.killswitch.mark as mark_module
from pullcord.killswitch.flags import Scope
from pullcord.killswitch.mark import Marked, end_marked, mark_of
from pullcord.warden.fences import cgroup_of_this_process
from tests.switch.store_with_processes import ROOT, StoreWithProcesses, store_with_processes
from tests.tools.census import below, cgroups_of, rid

FENCES: Final = ("auto", "cgroup", "namespace", "sweep")
KERNEL: Final = ("auto", "namespace")  # the kernel itself leaves nobody behind
SOON_OTHERS: Final = 4  # each of the loops that were left sleeps in a process that is soon another
TOOLS: Final = ("commands=2", "copies=2", "tools=1")


@pytest.fixture(params=FENCES)
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StoreWithProcesses]:
    with store_with_processes(tmp_path, fence=request.param) as opened:
        yield opened
        rid(str(opened.den))


def begins(home: StoreWithProcesses, kind: str = "killable") -> "subprocess.Popen[str]":
    process = home.opens(*TOOLS, kind=kind)
    home.has_begun(leaves=4, works=1)
    home.until(lambda: len(home.living()) >= 9)
    return process


def nobody_is_gone(home: StoreWithProcesses, before: set[int]) -> bool:
    """More may have come."""
    return len(before - home.living()) <= SOON_OTHERS


def test_all_of_our_processes_were_killed_before(home: StoreWithProcesses) -> None:
    begins(home)
    household = below(home.families[0].pid)
    left = home.loses_everybody()
    if home.fence in KERNEL:
        home.until(lambda: not home.living())
        left = set[int]()
    began = time.monotonic()
    pulled = home.pulls()
    took_s = time.monotonic() - began
    alive = home.living()
    print(f"{home.fence}: {len(left)} processes were left, {len(alive)} are, after {took_s:.2f} s")
    assert alive == set()
    assert (pulled.asked, pulled.left) == (0, [])
    assert len(left - set(pulled.killed)) <= SOON_OTHERS
    assert took_s < 2
    rid_of_groups(household)


def rid_of_groups(household: set[int]) -> None:
    for group in sorted(cgroups_of(household), reverse=True):
        os.rmdir(group)


@pytest.mark.parametrize("home", ["sweep"], indirect=True)
def test_what_cannot_be_killed_is_named(
    home: StoreWithProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins(home)
    left = home.loses_everybody()

    def in_vain(_one: Marked, _mark: str) -> int:
        return -1

    monkeypatch.setattr(mark_module, "_kill", in_vain)
    named = home.pulls().left
    lives_on = set(left) & set(home.living())  # some end by themselves, and others are started
    assert lives_on
    assert {one.what for one in named} >= {f"process {pid}, of a tool" for pid in lives_on}
    assert all(one.what.endswith(", of a tool") and "SIGKILL" in one.why for one in named)


@pytest.mark.parametrize("home", ["sweep"], indirect=True)
def test_what_is_in_the_middle_of_an_exec_is_waited_for(
    home: StoreWithProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel shows no environment of it then: twice in a row it was taken for nobody's."""
    mark = mark_of(str(home.store))
    environment = os.environ | {
        mark_module.WORKER: mark_module.entry(mark, "p1m000000000000-1-1-ab")
    }
    looks: list[int] = []
    with subprocess.Popen(["sleep", "600"], env=environment) as mine:
        home.until(lambda: list(mark_module.marked(mark)))
        really: Callable[[int, str], list[Marked]] = getattr(mark_module, "_marks_on")  # noqa: B009

        def hidden(pid: int, of: str) -> list[Marked]:
            return [] if pid == mine.pid and len(looks) < 5 else really(pid, of)

        def is_starting(pid: int) -> bool:
            looks.append(pid) if pid == mine.pid else None
            return pid == mine.pid and len(looks) < 5

        monkeypatch.setattr(mark_module, "_marks_on", hidden)
        monkeypatch.setattr(mark_module, "_is_starting", is_starting)
        assert end_marked(mark, orphans_only=False).killed == [mine.pid]


def test_one_that_has_just_become_another_program_is_looked_at_again(
    home: StoreWithProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was hidden when its mark was read, and no longer when it was asked whether it starts; and
    so in every look."""
    mark = mark_of(str(home.store))
    environment = os.environ | {
        mark_module.WORKER: mark_module.entry(mark, "p1m000000000000-1-1-ab")
    }
    reads: list[int] = []
    with subprocess.Popen(["sleep", "600"], env=environment) as mine:
        home.until(lambda: list(mark_module.marked(mark)))
        really: Callable[[int, str], list[Marked]] = getattr(mark_module, "_marks_on")  # noqa: B009

        def hidden_at_first(pid: int, of: str) -> list[Marked]:
            reads.append(pid) if pid == mine.pid else None
            return [] if pid == mine.pid and len(reads) % 2 else really(pid, of)

        monkeypatch.setattr(mark_module, "_marks_on", hidden_at_first)
        assert [one.pid for one in mark_module.marked(mark)] == [mine.pid]
        mine.kill()


def test_nothing_that_runs_is_taken_for_one_that_starts() -> None:
    """Also with an empty environment, and threads of the kernel."""
    with subprocess.Popen(["/bin/sleep", "600"], env={}) as bare:
        starting = getattr(mark_module, "_is_starting")  # noqa: B009
        end = time.monotonic() + 60
        while starting(bare.pid) and time.monotonic() < end:
            time.sleep(0.001)
        assert not starting(bare.pid)
        assert not starting(os.getpid())
        assert not starting(2)
        bare.kill()


@pytest.mark.parametrize("home", ["sweep"], indirect=True)
def test_a_mark_is_read_again_when_its_number_is_held(
    home: StoreWithProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a dead tool may be given to an innocent process meanwhile."""
    with subprocess.Popen(["sleep", "600"]) as innocent:
        wrong = Marked(innocent.pid, "p1m000000000000-1-1-ab", "")

        def found(_mark: str) -> tuple[list[Marked], bool]:
            return [wrong], False

        monkeypatch.setattr(mark_module, "_looked_for", found)
        monkeypatch.setattr(mark_module, "_END_S", 0.1)
        assert end_marked(mark_of(str(home.store)), orphans_only=False).killed == []
        assert innocent.poll() is None
        innocent.kill()


def test_only_what_carries_the_mark_of_this_store_is_killed(
    home: StoreWithProcesses, tmp_path: Path
) -> None:
    begins(home)
    (tmp_path / "other").mkdir()
    with store_with_processes(tmp_path / "other", fence=home.fence) as other:
        begins(other)
        theirs = other.living()
        left = home.loses_everybody()
        home.until(lambda: home.fence not in KERNEL or not home.living())
        home.pulls()
        assert not home.living()
        assert nobody_is_gone(other, theirs)
        assert not left & theirs


@pytest.mark.parametrize("home", ["sweep"], indirect=True)
def test_for_a_part_of_the_work_only_tools_without_a_runtime_are_ended(
    home: StoreWithProcesses,
) -> None:
    """The tools of the others have a warden that knows better."""
    begins(home)
    before = home.living()
    assert home.pulls(Scope("agent", "nobody")).killed == []
    assert nobody_is_gone(home, before)
    left = home.loses_everybody()
    pulled = home.pulls(Scope("agent", "somebody"))
    assert home.living() == set()
    assert set(pulled.killed) & left  # (some of them sleep for a moment only, and are then others)


def has_children(home: StoreWithProcesses, kind: str = "killable") -> "subprocess.Popen[str]":
    process = home.opens("children=1", kind=kind)
    home.has_begun(children=1)
    home.until(lambda: len(home.living()) >= 4)
    return process


@pytest.mark.parametrize("home", ["auto"], indirect=True)
@pytest.mark.parametrize("before", [signal.SIGKILL, signal.SIGSTOP])
def test_what_steps_had_started_ends_also_if_their_process_is_dead(
    home: StoreWithProcesses, before: signal.Signals
) -> None:
    """Killed by somebody before, or by the switch itself, which it does not answer."""
    owner = has_children(home)
    owner.send_signal(before)
    if before is signal.SIGKILL:
        owner.wait()
        assert len(home.living()) >= 4, "the kernel ended them"
    pulled = home.pulls()
    assert (home.living(), pulled.left) == (set(), [])


@pytest.mark.parametrize("home", ["auto"], indirect=True)
def test_for_a_part_of_the_work_the_children_of_a_living_process_are_left_to_it(
    home: StoreWithProcesses,
) -> None:
    owner = has_children(home)
    before = home.living()
    assert home.pulls(Scope("agent", "nobody")).killed == []
    assert len(home.living() & before) >= 3, "one of them sleeps for a moment, and is then another"
    owner.kill()
    owner.wait()
    home.pulls(Scope("agent", "somebody"))
    assert home.living() == set()


@pytest.mark.parametrize("home", ["cgroup"], indirect=True)
def test_a_warden_of_another_pid_namespace_leaves_our_groups_alone(
    home: StoreWithProcesses,
) -> None:
    """Two containers that share a cgroup: a number of the one means nothing in the other."""
    begins(home)
    before = home.living()
    clear = (
        "from pullcord.warden.fences import cgroup_of_this_process, clear_the_dead\n"
        "clear_the_dead(cgroup_of_this_process())"
    )
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", clear],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
    )  # fmt: skip
    if "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stderr) == (0, "")
    assert nobody_is_gone(home, before)


@pytest.mark.parametrize("home", ["cgroup"], indirect=True)
def test_a_group_says_of_which_machine_namespace_and_store_it_is(home: StoreWithProcesses) -> None:
    begins(home)
    (group,) = [
        g for g in os.listdir(cgroup_of_this_process() or "") if mark_of(str(home.store)) in g
    ]
    assert re.fullmatch(r"pullcord-p\d+m[0-9a-f]{12}-\d+-\d+-[0-9a-f]{6}\.[0-9a-f]{16}", group)


def test_a_store_has_one_mark_by_whatever_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert mark_of(str(tmp_path / "a/runs.db")) == mark_of(str(tmp_path / "b/runs.db"))
    assert mark_of(str(tmp_path / "a/runs.db")) != mark_of(str(tmp_path / "a/others.db"))
    assert mark_of(str(tmp_path / "none/runs.db")) == ""
