"""What becomes of a write when another process commits between what it has read and its own commit.

On the stores that let that happen, each case in one order that once went wrong. The explorer tries
all orders, but only in memory (`tests/races`).
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pytest

from pullcord.core.commands import Command, Forget, Redirect
from pullcord.core.events import Blocked, ChildBorn, Completed, Created, StepStarted
from pullcord.core.stops import SwitchEngaged, decode_entry
from pullcord.errors import Conflict
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.rules.ledger import Append, Ledger
from pullcord.journal.store import Job, Store, Transaction
from pullcord.journal.stored_runs.run_records import ALL, existing, records_of
from pullcord.journal.stored_runs.snapshots import load
from pullcord.killswitch.flags import Flag, Raised, Scope
from pullcord.testing.shared_memory_store import SharedMemoryStore
from tests.postgres.server import a_server


class Machine:
    """A store's handle and the ledger of one process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ledger = Ledger(store.clock)

    def create(self, run_id: str, thread: str = "t1") -> None:
        self.store.write(self.appending(run_id, Created(agent="churn", thread=thread)))

    def own(self, run_id: str) -> None:
        claim = self.store.write(lambda tx: self.ledger.acquire(tx, run_id, owner="w", ttl_s=300.0))
        assert claim is not None

    def redirect(self, run_id: str) -> None:
        command = Redirect(by="ana", instruction="that way")
        self.store.write(self.commanding(run_id, command))

    def commanding(self, run_id: str, command: Command) -> Job:
        return lambda tx: self.ledger.command(tx, run_id, command)

    def appending(self, run_id: str, *events: Any, at: int = 0, **more: Any) -> Job:
        epoch = 1 if at else None
        change = Append(run_id=run_id, events=events, expected_seq=at, epoch=epoch, **more)
        return lambda tx: self.ledger.write(tx, [change])

    def records(self, run_id: str) -> list[str]:
        """The names of a run's records, which lead to what its row says."""

        def look(view: Any) -> list[str]:
            load(view, existing(view, run_id))
            return [type(record.event).__name__ for record in records_of(view, run_id)]

        return self.store.read(look)


Machines: TypeAlias = tuple[Machine, Machine]
STORES: Final = ("shared memory", "postgres")


@pytest.fixture(params=STORES)
def machines(request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: Any) -> Iterator[Machines]:
    monkeypatch.setenv("PULLCORD_STATE", str(tmp_path))
    stores: tuple[Store, Store]
    if request.param == "postgres":
        url = a_server().url()
        stores = PostgresStore(url), PostgresStore(url)
    else:
        first = SharedMemoryStore()
        stores = first, first.another()
    yield Machine(stores[0]), Machine(stores[1])
    for store in stores:
        store.close()


def and_then(job: Job, other: Callable[[], object]) -> Job:
    """The job, and behind its first try what another process does meanwhile."""
    todo = [other]

    def first(tx: Transaction) -> object:
        result = job(tx)
        while todo:
            todo.pop()()
        return result

    return first


def test_a_repeated_end_of_a_child_is_written_behind_its_parents_wait(machines: Machines) -> None:
    here, there = machines
    here.create("r1")
    here.own("r1")
    born = Append(run_id="r1", events=[ChildBorn(child="c1")], expected_seq=2, epoch=1)
    made = Created(agent="churn", thread="t1", parent="r1")
    child = Append(run_id="c1", events=[made], expected_seq=0)
    here.store.write(lambda tx: here.ledger.write(tx, [born, child]))
    here.own("c1")
    there.redirect("c1")  # this process does not know of it, but the child's owner has read it
    ended, waits = here.store.write_each(
        [
            here.appending("c1", Completed(), at=3),
            here.appending("r1", Blocked(seen_seq=3), at=3, release=True),
        ]
    )
    assert (ended.error, waits.error) == (None, None)
    assert there.records("r1") == ["Created", "Claimed", "ChildBorn", "Blocked", "ChildEnded"]


def test_what_a_job_wrote_that_failed_on_something_stale_is_not_built_on(
    machines: Machines,
) -> None:
    here, there = machines
    for run_id in ("r1", "r2"):
        here.create(run_id, thread=run_id)
        here.own(run_id)
    there.redirect("r1")

    def fails(tx: Transaction) -> None:
        here.appending("r2", StepStarted(step="x", name="x"), at=2)(tx)
        here.appending("r1", Created(agent="churn", thread="r1"))(tx)

    begun, failed, told = here.store.write_each(
        [
            here.appending("r1", StepStarted(step="s", name="s"), at=2),
            fails,
            here.commanding("r2", Redirect(by="bo", instruction="on")),
        ]
    )
    assert isinstance(begun.error, Conflict)
    assert isinstance(failed.error, Conflict)
    assert told.error is None
    assert there.records("r2") == ["Created", "Claimed", "Redirected"]


def test_a_start_is_not_kept_if_the_end_that_made_room_for_it_is_refused(
    machines: Machines,
) -> None:
    here, there = machines
    here.create("r1")
    here.own("r1")
    start = here.appending("a1", Created(agent="churn", thread="t1"), alone=True)
    ended, started = here.store.write_each(
        [
            here.appending("r1", Completed(), at=2),
            and_then(start, lambda: there.redirect("r1")),
        ]
    )
    assert isinstance(ended.error, Conflict)
    assert started.error is not None
    assert there.store.read(lambda view: view.head("a1")) is None


def test_nothing_begins_on_a_thread_while_a_run_of_it_is_forgotten(machines: Machines) -> None:
    here, there = machines
    here.create("r1")
    here.own("r1")
    here.store.write(here.appending("r1", Completed(), at=2, release=True))

    def forget(tx: Transaction) -> Any:
        return here.ledger.forget(tx, "r1", Forget(by="ana"))

    ack: Any = here.store.write(and_then(forget, lambda: there.create("r2")))
    assert (ack.verdict, ack.reason) == ("rejected", "needed")
    assert there.records("r1") == ["Created", "Claimed", "Completed"]


def test_the_stop_log_says_once_that_the_kill_switch_was_engaged(machines: Machines) -> None:
    here, there = machines
    flag = Flag(Scope(), "flag-1", "ana", "", "", 0)
    raised = Raised((flag,), ("",))

    here.create("r1")  # else both set the clock, and the second of them tries again for that

    def note(machine: Machine) -> Job:
        return lambda tx: machine.ledger.engaged(tx, flag, raised)

    here.store.write(and_then(note(here), lambda: there.store.write(note(there))))
    here.store.write_each([note(here), note(there)])
    rows = there.store.read(lambda view: view.stops(after=0, limit=ALL))
    acts = [decode_entry(row.payload or b"").act for row in rows]
    assert [type(act) for act in acts] == [SwitchEngaged]


def test_two_jobs_of_a_batch_that_see_the_kill_switch_say_it_once(machines: Machines) -> None:
    here, there = machines
    flag = Flag(Scope(), "flag-1", "ana", "", "", 0)
    raised = Raised((flag,), ("",))

    def note(tx: Transaction) -> None:
        here.ledger.engaged(tx, flag, raised)

    here.store.write_each([note, note])
    assert there.store.read(lambda view: view.stop_head() or (0, b""))[0] == 1
