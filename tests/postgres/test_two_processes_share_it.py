"""Several processes on one PostgreSQL store: a run has one owner, and a control finds it."""

import threading
from pathlib import Path

from pullcord.core.commands import Cancel
from pullcord.core.events import Claimed, Control
from pullcord.core.states import RunState
from pullcord.journal.journal import Journal
from pullcord.journal.open_store import opened
from pullcord.journal.stored_runs.run_records import records_of
from pullcord.killswitch.flags import Scope
from pullcord.runtime.control_thread import ControlThread
from tests.cli.terminal import agent
from tests.postgres.afar import Afar
from tests.postgres.writing import create, started
from tests.switch.store_with_processes import StoreWithProcesses, store_with_processes


def owners(home: StoreWithProcesses, run_id: str) -> list[str]:
    """Who has taken the run, one after the other."""
    store = opened(home.where)
    records = store.read(lambda view: records_of(view, run_id))
    store.close()
    return [one.event.owner for one in records if isinstance(one.event, Claimed)]


def test_one_run_has_one_owner_and_the_next_when_it_dies(url: str, tmp_path: Path) -> None:
    with store_with_processes(tmp_path, url) as home:
        first = home.opens("sleeps=1")
        home.has_begun(sleeps=1)
        home.opens("waits=1")  # it knows the same agents, and looks for work
        home.until(lambda: home.states()["waits-0"] == "waiting")
        home.until(lambda: home.pulls(Scope("agent", "nobody")).asked == 2)
        home.flags.lower(Scope("agent", "nobody"))
        assert len(owners(home, "sleeps-0")) == 1
        first.kill()
        first.wait()
        home.until(lambda: len(owners(home, "sleeps-0")) == 2)
        one, two = owners(home, "sleeps-0")
        assert one.split("-")[1] == str(first.pid)
        assert two.split("-")[1] != str(first.pid)


async def test_a_control_of_another_process_reaches_a_cutter(url: str, tmp_path: Path) -> None:
    """Without an event loop: the one here is blocked until it has happened."""
    cut = threading.Event()
    heard: list[Control] = []

    def cutter(control: Control) -> None:
        heard.append(control)
        cut.set()

    async with Journal.open(url) as journal:
        store = opened(url)
        create(store, "r1")
        store.close()
        claim = await journal.acquire("r1", owner="w1", ttl_s=60)
        assert claim is not None
        await journal.append(started(claim, 2))
        control = ControlThread(journal)
        with control.cutting("r1", cutter, after_seq=3):
            said = Afar(tmp_path, url)("cancel", "r1", "--reason", "wrong path")
            assert said.status == 0, said.err
            assert cut.wait(20)
        control.close()
        assert [type(one).__name__ for one in heard] == ["CancelRequested"]
        assert (await journal.command("r1", Cancel(by="bo"))).verdict == "already"


def test_a_run_is_paused_redirected_resumed_and_cancelled_from_elsewhere(
    url: str, tmp_path: Path
) -> None:
    here = Afar(tmp_path, url)
    nobody = here("ps")
    assert nobody.status == 2
    assert "There is no store at postgresql://" in nobody.err
    with here.running("run", agent("hangs"), "--run-id", "r1") as process:
        here.until(lambda run: bool(run.open_steps()))
        assert "r1" in here("ps").out
        assert here("show", "r1").status == 0
        assert here("pause", "r1").status == 0
        assert here("redirect", "r1", "look elsewhere").status == 0
        assert here("resume", "r1", "--detach").status == 0
        assert here("cancel", "r1", "--now", "--wait").status == 0
        process.wait(60)
    assert here.ended().state is RunState.CANCELLED
    assert "cancelled" in here("watch", "r1").out
    verified = here("log", "verify")
    assert (verified.status, verified.err) == (0, "")
    assert "The anchor agrees" in verified.out
    assert here("doctor").status == 0
    assert here("kill-switch", "status").out == "Not engaged.\n"
