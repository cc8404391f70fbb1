"""What every store must do, as checks that need no test framework. A new backend joins by a line:

    @pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
    async def test_my_store_keeps_the_contract(check):
        await check(MyStore)

Each check is handed something that makes an empty store, and raises AssertionError if it fails.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeAlias, cast

import msgspec

from pullcord.core.commands import (
    Answer,
    Cancel,
    Command,
    Forget,
    Pause,
    Redirect,
    Resume,
    Settle,
    Source,
    Undo,
)
from pullcord.core.events import (
    AttentionRaised,
    Blocked,
    Cancelled,
    ChildBorn,
    Claimed,
    Completed,
    Created,
    Event,
    Failed,
    Forgotten,
    Paused,
    QuestionAsked,
    Record,
    Requeued,
    StepFinished,
    StepStarted,
    StepUndone,
    TextEnded,
    UndoStarted,
)
from pullcord.core.fold import replay
from pullcord.core.states import RunState
from pullcord.core.stops import StopShown, SwitchEngaged, decode_entry
from pullcord.core.values import dump
from pullcord.errors import (
    Conflict,
    Fenced,
    ImpossibleEvent,
    InvalidId,
    InvalidInput,
    InvalidText,
    JournalClosed,
    PullcordError,
    RunForgotten,
    RunNotFound,
    ThreadBusy,
)
from pullcord.journal.evidence.stoplog import START, cover, next_hash
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Appended, Claim, Order
from pullcord.journal.store import LiveText, Store, Transaction
from pullcord.journal.stored_runs.retention import Wanted
from pullcord.journal.stored_runs.run_records import Cursor
from pullcord.journal.watch import Changed
from pullcord.journal.writer import Writer
from pullcord.process import new_owner
from pullcord.testing.clock import ManualClock

MakeStore: TypeAlias = Callable[[], Store]
Check: TypeAlias = Callable[[MakeStore], Awaitable[None]]
TTL_S: Final = 30.0


@dataclass
class _Bench:
    journal: Journal
    clock: ManualClock

    async def create(self, run_id: str, **fields: str) -> None:
        thread = fields.get("thread", f"t-{run_id}")
        created = Created(agent=fields.get("agent", "churn"), thread=thread)
        await self.journal.append(Append(run_id=run_id, events=[created], expected_seq=0))

    async def own(self, run_id: str, owner: str = "w1") -> Claim:
        claim = await self.journal.acquire(run_id, owner=owner, ttl_s=TTL_S)
        assert claim is not None, f"{run_id} could not be claimed"
        return claim

    async def own_again(self, claim: Claim) -> Claim:
        lease = claim.lease
        again = await self.journal.acquire(lease.run_id, owner=lease.owner, ttl_s=TTL_S, held=lease)
        assert again is not None
        return again

    async def add(self, claim: Claim, *events: Event, seq: int | None = None) -> int:
        """Append as the owner, at the end or at `seq`, and return the new end."""
        run_id = claim.lease.run_id
        at = (await self.journal.head(run_id)).seq if seq is None else seq
        change = Append(run_id=run_id, events=events, expected_seq=at, epoch=claim.lease.epoch)
        await self.journal.append(change)
        return at + len(events)

    async def names(self, run_id: str) -> list[str]:
        return [type(record.event).__name__ for record in await self.journal.read(run_id)]


CONTRACT: Final[list[Check]] = []
"""Every check, in the order of this file."""


def _check(body: Callable[[_Bench], Awaitable[None]]) -> Check:
    """Make a check of `body`: an empty store each time, under a clock that stands still."""

    async def check(make: MakeStore) -> None:
        clock = ManualClock()
        async with Journal(make(), clock=clock) as journal:
            await body(_Bench(journal, clock))

    check.__name__ = body.__name__
    check.__doc__ = body.__doc__
    CONTRACT.append(check)
    return check


async def _refused(expected: type[PullcordError], act: Awaitable[object]) -> PullcordError:
    try:
        await act
    except expected as error:
        return error
    raise AssertionError(f"{expected.__name__} was expected, and nothing was refused")


# --- append -----------------------------------------------------------------------------------


@_check
async def of_two_writers_from_the_same_place_one_is_refused(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    await bench.add(claim, StepStarted(step="a", name="a"))
    refusal = await _refused(Conflict, bench.add(claim, StepStarted(step="b", name="b"), seq=2))
    assert isinstance(refusal, Conflict)
    assert (refusal.expected_seq, refusal.actual_seq) == (2, 3)
    assert await bench.names("r1") == ["Created", "Claimed", "StepStarted"]


@_check
async def an_append_across_runs_is_all_or_nothing(bench: _Bench) -> None:
    await bench.create("parent")
    claim = await bench.own("parent")

    def birth(expected_seq: int) -> tuple[Append, Append]:
        child = Created(agent="churn", thread="t1", parent="parent")
        born = ChildBorn(child="child")
        return (
            Append(run_id="child", events=[child], expected_seq=0),
            Append(run_id="parent", events=[born], expected_seq=expected_seq, epoch=1),
        )

    await _refused(Conflict, bench.journal.append(*birth(99)))
    await _refused(RunNotFound, bench.journal.head("child"))
    await bench.journal.append(*birth(2))
    assert await bench.names("child") == ["Created"]
    orphan = Created(agent="churn", thread="t1", parent="parent")
    await _refused(
        ImpossibleEvent,
        bench.journal.append(Append(run_id="orphan", events=[orphan], expected_seq=0)),
    )
    await _refused(RunNotFound, bench.journal.head("orphan"))
    assert claim.lease.epoch == 1


@_check
async def a_childs_end_is_in_its_parents_journal_however_it_came(bench: _Bench) -> None:
    await bench.create("parent")
    claim = await bench.own("parent")
    for number, child in enumerate(("done", "cancelled")):
        created = Created(agent="churn", thread="t1", parent="parent")
        await bench.journal.append(
            Append(run_id=child, events=[created], expected_seq=0),
            Append(
                run_id="parent",
                events=[ChildBorn(child=child)],
                expected_seq=2 + number,
                epoch=claim.lease.epoch,
            ),
        )
    await bench.add(claim, Blocked(seen_seq=4))
    await bench.add(await bench.own("done", "w2"), Completed())
    assert (await bench.journal.head("parent")).state is RunState.QUEUED
    await bench.journal.command("cancelled", Cancel(by="ana"))  # no process ever had it
    children = (await bench.journal.load("parent")).children
    assert {name: child.state for name, child in children.items()} == {
        "done": "completed",
        "cancelled": "cancelled",
    }


@_check
async def a_refused_write_takes_nothing_else_with_it(bench: _Bench) -> None:
    """Writers that share a commit do not share a fate."""
    for number in range(20):
        await bench.create(f"r{number}")
    claims = [await bench.own(f"r{number}") for number in range(20)]
    outcomes = await asyncio.gather(
        *(
            bench.add(claim, StepStarted(step="a", name="a"), seq=2 if number % 2 else 7)
            for number, claim in enumerate(claims)
        ),
        return_exceptions=True,
    )
    for number, outcome in enumerate(outcomes):
        assert (outcome == 3) if number % 2 else isinstance(outcome, Conflict), outcome
        assert len(await bench.journal.read(f"r{number}")) == (3 if number % 2 else 2)


@_check
async def an_impossible_event_is_refused_and_nothing_is_written(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    await _refused(
        ImpossibleEvent,
        bench.add(claim, StepStarted(step="a", name="a"), Paused()),
    )
    assert await bench.names("r1") == ["Created", "Claimed"]
    await _refused(ImpossibleEvent, bench.add(claim, StepFinished(step="never")))
    await bench.add(claim, StepStarted(step="a", name="a"), StepFinished(step="a"))
    await _refused(ImpossibleEvent, bench.add(claim, StepFinished(step="a")))
    await _refused(
        RunNotFound,
        bench.journal.append(Append(run_id="nobody", events=[Paused()], expected_seq=0)),
    )


@_check
async def a_write_that_breaks_takes_nobody_with_it(bench: _Bench) -> None:
    """Not even one that breaks the rules of Python: the others of its commit are kept."""
    for number in range(10):
        await bench.create(f"r{number}")
    claims = [await bench.own(f"r{number}") for number in range(10)]

    async def broken() -> None:
        writer = cast("Writer", getattr(bench.journal, "_writer"))  # noqa: B009

        def work(tx: Transaction) -> None:
            head = tx.head("r0")
            assert head is not None
            tx.put_head(msgspec.structs.replace(head, epoch=99))
            raise ZeroDivisionError

        await writer.write(work)

    outcomes = await asyncio.gather(
        *(bench.add(claim, StepStarted(step="a", name="a"), seq=2) for claim in claims),
        broken(),
        *(bench.add(claim, StepStarted(step="b", name="b"), seq=3) for claim in claims),
        return_exceptions=True,
    )
    assert outcomes[:10] == [3] * 10
    assert isinstance(outcomes[10], ZeroDivisionError)
    assert outcomes[11:] == [4] * 10
    assert (await bench.journal.head("r0")).epoch == 1


@_check
async def what_could_not_be_read_back_is_not_written(bench: _Bench) -> None:
    """A record that cannot be read would lock everyone out of its run."""
    await bench.create("r1")
    claim = await bench.own("r1")
    for event in (
        StepStarted(step="a", name=cast("str", 7)),
        StepFinished(step="a", result=msgspec.Raw(b"not json")),
        Completed(result=cast("msgspec.Raw", object())),
        TextEnded(part="p", text="\ud800"),
        StepStarted(step="../a", name="a"),
    ):
        await _refused(InvalidInput, bench.add(claim, event))
    await _refused(InvalidText, bench.journal.live_text.say(claim.lease, "p", "\ud800", offset=0))
    assert await bench.names("r1") == ["Created", "Claimed"]


@_check
async def a_timeout_during_a_write_is_not_felt_after_it(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    async with asyncio.timeout(0):
        await bench.journal.append(
            Append(
                run_id="r1",
                events=[StepStarted(step="a", name="a")],
                expected_seq=2,
                epoch=claim.lease.epoch,
            )
        )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(await bench.journal.read("r1")) == 3


@_check
async def a_cancelled_writer_is_told_what_became_of_its_write(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    learned: list[int] = []

    async def write() -> None:
        learned.append(await bench.add(claim, StepStarted(step="a", name="a"), seq=2))
        await asyncio.sleep(0)  # the cancellation arrives here, not in the middle of the write

    task = asyncio.ensure_future(write())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert learned == [3]
    assert len(await bench.journal.read("r1")) == 3


# --- controls ---------------------------------------------------------------------------------


@_check
async def of_completion_and_cancel_the_first_to_commit_wins(bench: _Bench) -> None:
    for run_id in ("early", "late"):
        await bench.create(run_id)
        claim = await bench.own(run_id)
        if run_id == "late":
            await bench.add(claim, Completed())
        ack = await bench.journal.command(run_id, Cancel(by="ana", reason="wrong path"))
        if run_id == "late":
            assert (ack.verdict, ack.seq, ack.state) == ("too_late", 3, RunState.COMPLETED)
            assert "pullcord fork late" in ack.message
        else:
            assert (ack.verdict, ack.seq, ack.state) == ("applied", 3, RunState.CANCELLING)
            await _refused(Conflict, bench.add(claim, Completed(), seq=2))
            await _refused(ImpossibleEvent, bench.add(claim, Completed()))
            await bench.add(claim, Cancelled())
            again = await bench.journal.command(run_id, Cancel(by="bo"))
            assert (again.verdict, again.seq) == ("already", 4)


@_check
async def a_cancel_that_finds_nothing_to_do_is_in_effect_at_once(bench: _Bench) -> None:
    """Without a process that would have to know the agent; but never under its owner's hands. What
    was said in part, and that nobody goes on with, ends there."""
    for run_id in ("parked", "held", "undoable", "talking"):
        await bench.create(run_id)
        claim = await bench.own(run_id)
        step = StepStarted(step="a", name="a", undoable=run_id == "undoable")
        await bench.add(claim, step, StepFinished(step="a"))
        if run_id == "talking":
            await bench.journal.live_text.say(claim.lease, "p1", "hello", offset=0)
        await bench.journal.command(run_id, Pause(by="ana"))
        await bench.add(claim, Paused())
        if run_id != "held":
            await bench.journal.release(claim.lease)
        ack = await bench.journal.command(run_id, Cancel(by="ana"))
        ended = ack.state is RunState.CANCELLED
        assert ended == (run_id in ("parked", "talking")), run_id


@_check
async def a_stronger_cancel_is_not_called_done(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    await bench.journal.command("r1", Cancel(by="ana"))
    leak = Cancel(by="guard", reason="leak", quarantine=True)
    assert (await bench.journal.command("r1", leak)).verdict == "applied"
    assert (await bench.journal.command("r1", leak)).verdict == "already"
    stop = (await bench.journal.load("r1")).cancel
    assert stop is not None
    assert (stop.by, stop.quarantine, stop.keep_partial) == ("ana", True, True)
    await bench.add(claim, Cancelled())
    harder = Cancel(by="bo", keep_partial=False)
    assert (await bench.journal.command("r1", harder)).verdict == "too_late"


@_check
async def a_command_that_could_not_be_read_back_is_refused(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    await bench.add(claim, QuestionAsked(question="q1"))
    for bad in (
        Pause(by="ana", source=cast("Source", "admin")),
        Pause(by="ana", now=cast("bool", "yes")),
        Cancel(by="ana", undo=cast("bool", None)),
        Pause(by="ana", seen_seq=cast("int", "3")),
        Answer(by="ana", question="q1", value=msgspec.Raw(b"yes please")),
        Answer(by="ana", question="q1", value=msgspec.Raw(b'"\xff"')),
    ):
        await _refused(InvalidInput, bench.journal.command("r1", bad))
    assert len(await bench.journal.read("r1")) == 3


@_check
async def an_answer_that_came_first_keeps_the_run_from_waiting(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    await bench.add(claim, QuestionAsked(question="q1"), QuestionAsked(question="q2"))
    await bench.journal.command("r1", Answer(by="ana", question="q1"))
    await _refused(ImpossibleEvent, bench.add(claim, Blocked(seen_seq=4)))
    await bench.add(claim, Blocked(seen_seq=5))
    await bench.journal.command("r1", Answer(by="ana", question="q2"))
    claim = await bench.own_again(claim)
    await _refused(ImpossibleEvent, bench.add(claim, Blocked(seen_seq=99)))


@_check
async def attention_is_raised_by_whoever_sees_it_and_takes_no_run_from_its_owner(
    bench: _Bench,
) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    for text in ("it still does", "it still does", "it did, for 3 s"):
        await bench.journal.witness.remark("r1", AttentionRaised(item="held", text=text))
    run = await bench.journal.load("r1")
    assert run.attention == {"held": "it did, for 3 s"}
    assert (run.seq, run.epoch, run.control_seq) == (4, 1, 0)  # nothing was said twice
    await _refused(Conflict, bench.add(claim, Completed(), seq=2))
    await bench.add(claim, Completed())
    await bench.journal.witness.remark(
        "r1", AttentionRaised(item="late", text="also after the end")
    )
    missing, nameless = AttentionRaised(item="held"), AttentionRaised(item="no id")
    await _refused(RunNotFound, bench.journal.witness.remark("r2", missing))
    await _refused(InvalidId, bench.journal.witness.remark("r1", nameless))


@_check
async def attention_is_settled_also_after_the_end(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    await bench.journal.command("r1", Cancel(by="ana"))
    seq = (await bench.journal.head("r1")).seq
    over = Append(run_id="r1", events=[Cancelled()], expected_seq=seq, epoch=1, release=True)
    await bench.journal.append(over)
    await bench.add(claim, AttentionRaised(item="a1", text="the mail may have gone out"))
    unknown = await bench.journal.command("r1", Settle(by="ana", item="a2"))
    assert (unknown.verdict, unknown.reason) == ("rejected", "unknown_item")
    assert (await bench.journal.command("r1", Settle(by="ana", item="a1"))).verdict == "applied"
    assert (await bench.journal.load("r1")).attention == {}


@_check
async def the_same_key_gets_the_same_answer_for_ever(bench: _Bench) -> None:
    await bench.create("r1")
    await bench.own("r1")
    pause: Command = Pause(by="ana", key="k1")
    first = await bench.journal.command("r1", pause)
    await bench.journal.command("r1", Resume(by="ana"))
    assert await bench.journal.command("r1", pause) == first
    looked_again = Pause(by="ana", key="k1", seen_seq=4)
    assert await bench.journal.command("r1", looked_again) == first
    reused = await bench.journal.command("r1", Pause(by="bo", key="k1"))
    assert (reused.verdict, reused.reason) == ("rejected", "key_reused")
    assert (await bench.names("r1"))[2:] == ["PauseRequested", "Resumed"]


@_check
async def a_stale_command_is_rejected_but_a_cancel_never_is(bench: _Bench) -> None:
    await bench.create("r1")
    await bench.own("r1")
    await bench.journal.command("r1", Redirect(by="ana", instruction="use the new list"))
    stale = await bench.journal.command("r1", Pause(by="bo", seen_seq=2))
    assert (stale.verdict, stale.reason) == ("rejected", "stale")
    assert (await bench.journal.command("r1", Cancel(by="bo", seen_seq=2))).verdict == "applied"


@_check
async def what_cannot_be_named_is_not_looked_up(bench: _Bench) -> None:
    await _refused(RunNotFound, bench.journal.command("nobody", Pause(by="ana")))
    await _refused(RunNotFound, bench.journal.read("nobody"))
    for bad in ("", "../etc/passwd", "a b", "x" * 65, "r\0", "é", "\ud800"):
        await _refused(InvalidId, bench.journal.command(bad, Pause(by="ana")))
        await _refused(InvalidId, bench.journal.load(bad))
    await bench.create("r1")
    for text in ("", "  ", "a\0b", "\ud800", "x" * (1024 * 1024 + 1)):
        command = Redirect(by="ana", instruction=text)
        await _refused(InvalidText, bench.journal.command("r1", command))
    longest = Redirect(by="ana", instruction="x" * 1024 * 1024)
    assert (await bench.journal.command("r1", longest)).verdict == "applied"
    (record,) = await bench.journal.read("r1", after_seq=1)
    assert getattr(record.event, "instruction", "") == longest.instruction


# --- owners -----------------------------------------------------------------------------------


@_check
async def a_run_that_is_held_cannot_be_taken(bench: _Bench) -> None:
    await bench.create("r1")
    await bench.own("r1")
    assert await bench.journal.acquire("r1", owner="w2", ttl_s=TTL_S) is None
    assert await bench.journal.acquire("r1", owner="w1", ttl_s=TTL_S) is None
    bench.clock.jump_wall(3 * 86400)
    assert await bench.journal.acquire("r1", owner="w2", ttl_s=TTL_S) is None


@_check
async def an_earlier_owner_writes_nothing(bench: _Bench) -> None:
    await bench.create("r1")
    first = await bench.own("r1", "w1")
    bench.clock.advance(TTL_S)
    second = await bench.own("r1", "w2")
    assert second.lease.epoch == first.lease.epoch + 1
    started = StepStarted(step="a", name="a")
    await _refused(Fenced, bench.add(first, started))
    assert await bench.journal.renew(first.lease, second.lease, ttl_s=TTL_S) == [first.lease]
    await _refused(Fenced, bench.journal.live_text.say(first.lease, "p1", "hello", offset=0))
    await bench.journal.release(first.lease)
    await bench.add(second, started)
    assert await bench.names("r1") == ["Created", "Claimed", "Claimed", "StepStarted"]


@_check
async def a_lease_is_kept_by_renewing_and_lost_by_lapse_release_or_reboot(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1", "w1")
    bench.clock.advance(TTL_S - 1)
    assert await bench.journal.renew(claim.lease, ttl_s=TTL_S) == []
    bench.clock.advance(TTL_S - 1)
    assert await bench.journal.acquire("r1", owner="w2", ttl_s=TTL_S) is None
    bench.clock.reboot("boot-2")
    claim = await bench.own("r1", "w2")
    await bench.journal.release(claim.lease)
    assert await bench.journal.renew(claim.lease, ttl_s=TTL_S) == [claim.lease]
    await _refused(Fenced, bench.add(claim, Completed()))
    claim = await bench.own("r1", "w3")
    change = Append(
        run_id="r1", events=[Requeued()], expected_seq=4, epoch=claim.lease.epoch, release=True
    )
    await bench.journal.append(change)
    assert (await bench.own("r1", "w4")).run.state is RunState.RUNNING


@_check
async def nobody_appends_without_owning(bench: _Bench) -> None:
    await bench.create("r1")
    orphan = Append(run_id="r1", events=[Completed()], expected_seq=1)
    await _refused(Fenced, bench.journal.append(orphan))
    born = Created(agent="churn", thread="t1")
    twice = Append(run_id="r1", events=[born], expected_seq=0)
    await _refused(Conflict, bench.journal.append(twice))
    await _refused(InvalidInput, bench.journal.acquire("r1", owner="w", ttl_s=float("nan")))
    await _refused(
        Fenced,
        bench.journal.append(Append(run_id="r1", events=[Completed()], expected_seq=1, epoch=1)),
    )


@_check
async def only_runs_that_need_an_owner_can_be_claimed(bench: _Bench) -> None:
    for run_id in ("waits", "held", "paused", "ended", "foreign", "cancelling"):
        await bench.create(run_id, agent="other" if run_id == "foreign" else "churn")
    await bench.own("held")
    await bench.journal.command("paused", Pause(by="ana"))
    await bench.journal.command("ended", Cancel(by="ana"))
    left = await bench.own("cancelling")
    await bench.journal.command("cancelling", Cancel(by="ana"))
    await bench.journal.release(left.lease)
    assert await bench.journal.queue.claimable(agents=["churn"]) == ["waits", "cancelling"]
    assert await bench.journal.acquire("paused", owner="w1", ttl_s=TTL_S) is None
    assert await bench.journal.acquire("ended", owner="w1", ttl_s=TTL_S) is None
    bench.clock.advance(TTL_S)
    assert "held" in await bench.journal.queue.claimable(agents=["churn"])


@_check
async def a_holder_may_claim_its_own_run_again(bench: _Bench) -> None:
    """Paused, resumed: the process that still has it in memory goes on before anyone else."""
    await bench.create("r1")
    claim = await bench.own("r1", "w1")
    await bench.journal.command("r1", Pause(by="ana"))
    await bench.add(claim, Paused())
    await bench.journal.command("r1", Resume(by="ana"))
    assert await bench.journal.acquire("r1", owner="w2", ttl_s=TTL_S) is None
    again = await bench.journal.acquire("r1", owner="w1", ttl_s=TTL_S, held=claim.lease)
    assert again is not None
    assert again.run.state is RunState.RUNNING
    assert again.lease.epoch == claim.lease.epoch + 1
    claims = [r.event for r in await bench.journal.read("r1") if isinstance(r.event, Claimed)]
    assert [claimed.same_owner for claimed in claims] == [False, True]  # nobody's process was gone


# --- reading, text, blobs ---------------------------------------------------------------------


@_check
async def records_come_back_as_they_were_written(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    value: dict[str, object] = {"rows": [1, 2.5, None, True, "é\n\u2028"], "deep": {"er": [0]}}
    await bench.add(
        claim, StepStarted(step="a", name="a"), StepFinished(step="a", result=dump(value))
    )
    records = await bench.journal.read("r1")
    assert [record.seq for record in records] == [1, 2, 3, 4]
    assert await bench.journal.read("r1", after_seq=2) == records[2:]
    assert await bench.journal.read("r1", after_seq=4) == []
    assert await bench.journal.read("r1", after_seq=99) == []
    assert await bench.journal.read("r1", after_seq=1, limit=2) == records[1:3]
    assert bench.journal.changes.read_now("r1", after_seq=3) == records[3:]
    assert records[3].event == StepFinished(step="a", result=dump(value))


@_check
async def a_long_run_loads_as_its_records_fold(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    for number in range(230):
        await bench.add(
            claim,
            StepStarted(step=f"s{number}", name="work"),
            StepFinished(step=f"s{number}", result=dump(number)),
        )
    records = await bench.journal.read("r1")
    assert len(records) == 462
    assert await bench.journal.load("r1") == replay("r1", records)


@_check
async def a_large_payload_is_kept_whole(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    large = dump("x" * 300_000)
    started, finished = StepStarted(step="a", name="a"), StepFinished(step="a", result=large)
    change = Append(run_id="r1", events=[started, finished], expected_seq=2, epoch=1)
    await bench.journal.append(change)
    assert (await bench.journal.read("r1"))[3].event == finished
    await bench.add(claim, Completed(result=large))
    assert (await bench.journal.load("r1")).state is RunState.COMPLETED


@_check
async def of_a_forgotten_run_only_the_record_that_says_so_is_left(bench: _Bench) -> None:
    large = dump("x" * 300_000)
    for run_id in ("r1", "r2"):
        await bench.create(run_id)
        claim = await bench.own(run_id)
        await bench.journal.command(run_id, Redirect(by="ana", instruction="EU only", key="k1"))
        for number in range(120):
            finished = StepFinished(step=f"s{number}", result=large if number == 7 else dump(1))
            await bench.add(claim, StepStarted(step=f"s{number}", name="work"), finished)
        await bench.journal.live_text.say(claim.lease, "p1", "Hello", offset=0)
        await bench.add(claim, TextEnded(part="p1", text="Hello"), Completed(result=large))
        await bench.journal.release(claim.lease)
    before, records = await bench.journal.load("r2"), await bench.journal.read("r2")
    end = (await bench.journal.head("r1")).seq
    ack = await bench.journal.retention.forget("r1", Forget(by="ana", reason="her wish", key="k2"))
    assert (ack.verdict, ack.seq, ack.state) == ("applied", end + 1, RunState.COMPLETED)
    [last] = await bench.journal.read("r1")
    assert (last.seq, type(last.event)) == (end + 1, Forgotten)
    run = await bench.journal.load("r1")
    assert run == replay("r1", [last])
    assert (run.state, run.agent, run.thread) == (RunState.COMPLETED, "churn", "t-r1")
    assert run.forgotten is not None
    assert (run.forgotten.by, run.forgotten.reason) == ("ana", "her wish")
    assert run.used_at(0).steps == 120
    for after_seq in (0, 7, end):
        place = Cursor(after_seq)
        news = await bench.journal.for_people(lambda look, at=place: look.news("r1", at, 5))
        assert news == ([(Cursor(end + 1), last)], end + 1)
    assert (await bench.journal.retention.forget("r1", Forget(by="bo"))).verdict == "already"
    again = Redirect(by="ana", instruction="EU only", key="k1")
    assert (await bench.journal.command("r1", again)).reason == "forgotten"
    await bench.journal.witness.remark("r1", AttentionRaised(item="i", text="too late"))
    assert (await bench.journal.head("r1")).seq == end + 1
    assert await bench.journal.retention.scrub() in ("gone", "logged")
    assert await bench.journal.load("r2") == before
    assert await bench.journal.read("r2") == records
    [left] = await bench.journal.retention.forgettable(Wanted(thread="t-r2"))
    assert (left.run, left.records, left.bytes > 600_000) == ("r2", end, True)
    assert await bench.journal.retention.forgettable(Wanted(thread="t-r1")) == []


@_check
async def who_still_needs_a_run_keeps_it_from_being_forgotten(bench: _Bench) -> None:
    async def forget(run_id: str) -> tuple[str, str]:
        ack = await bench.journal.retention.forget(run_id, Forget(by="ana"))
        return ack.verdict, ack.reason

    async def fork(run_id: str, source: str) -> None:
        born = Created(agent="churn", thread=run_id, forked_from=source, forked_at=1)
        await bench.journal.append(Append(run_id=run_id, events=[born], expected_seq=0))

    await bench.create("early", thread="talk")
    await bench.journal.command("early", Cancel(by="ana"))
    await bench.create("r1", thread="talk")
    assert await forget("early") == ("rejected", "needed")
    claim = await bench.own("r1")
    assert await forget("r1") == ("rejected", "living")
    done = StepFinished(step="a")
    await bench.add(claim, StepStarted(step="a", name="a", undoable=True), done)
    await bench.add(claim, AttentionRaised(item="i", text="look"), Failed(error="boom"))
    assert await forget("r1") == ("rejected", "attention")
    await bench.journal.command("r1", Settle(by="ana", item="i"))
    assert await forget("r1") == ("rejected", "held")
    await bench.journal.release(claim.lease)
    await bench.journal.command("r1", Undo(by="ana"))
    assert await forget("r1") == ("rejected", "undoing")
    claim = await bench.own("r1")
    await bench.add(claim, UndoStarted(step="a", attempt=1), StepUndone(step="a"))
    await bench.journal.release(claim.lease)
    await fork("f1", "r1")
    await bench.journal.command("f1", Cancel(by="ana"))
    await fork("f2", "f1")  # goes on from the other two, and from what was said before them
    for run_id in ("early", "r1", "f1"):
        assert await forget(run_id) == ("rejected", "needed")
    await bench.journal.command("f2", Cancel(by="ana"))
    assert await forget("early") == ("applied", "")
    assert await forget("r1") == ("applied", "")
    for source in ("r1", "f1"):  # also not by way of a fork that still has its own records
        await _refused(RunForgotten, fork("f3", source))
    await _refused(RunNotFound, bench.journal.head("f3"))
    assert (await bench.journal.load("f1")).forked_from == "r1"
    assert await forget("f1") == ("applied", "")


@_check
async def what_another_run_says_in_the_same_words_is_kept(bench: _Bench) -> None:
    said = TextEnded(part="p1", text="the same " * 4000)
    for run_id in ("r1", "r2"):
        await bench.create(run_id)
        claim = await bench.own(run_id)
        await bench.add(claim, said, Completed())
        await bench.journal.release(claim.lease)
    assert (await bench.journal.retention.forget("r1", Forget(by="ana"))).holds
    assert [type(r.event) for r in await bench.journal.read("r1")] == [Forgotten]
    assert (await bench.journal.read("r2"))[2].event == said
    ack = await bench.journal.retention.forget("r2", Forget(by="ana", drop_thread_name=True))
    assert ack.holds
    assert (await bench.journal.load("r2")).thread == "r2"
    assert await bench.journal.runs(thread="t-r2") == []


@_check
async def text_is_shown_held_or_refused_by_the_state_of_the_run(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    say = bench.journal.live_text.say
    assert await say(claim.lease, "p1", "Hello, ", offset=0) == "shown"
    assert await say(claim.lease, "p1", "wörld\a ", offset=7) == "shown"
    await _refused(ImpossibleEvent, say(claim.lease, "p1", "gap", offset=99))
    await bench.journal.command("r1", Pause(by="ana"))
    assert await say(claim.lease, "p1", "held", offset=14) == "held"
    await bench.journal.command("r1", Cancel(by="ana"))
    assert await say(claim.lease, "p1", "never", offset=18) == "refused"
    for text in ("Hello", "Hello, wörld\a held and more", "something else"):
        ended = TextEnded(part="p1", text=text, complete=False)
        await _refused(ImpossibleEvent, bench.add(claim, ended))
    await _refused(
        ImpossibleEvent, bench.add(claim, TextEnded(part="p1", text="Hello, wörld\a held"))
    )
    await _refused(ImpossibleEvent, bench.add(claim, Cancelled()))
    await bench.add(claim, TextEnded(part="p1", text="Hello, wörld\a held", complete=False))
    assert (await bench.journal.load("r1")).texts == {"p1": False}


@_check
async def runs_are_listed_newest_first(bench: _Bench) -> None:
    for number in range(12):
        await bench.create(f"r{number}", thread=f"t{number % 3}")
    for number in (2, 5, 9):
        await bench.journal.command(f"r{number}", Pause(by="ana"))

    async def listed(**query: object) -> list[str]:
        heads = await bench.journal.runs(**query)  # pyright: ignore[reportArgumentType]
        return [head.run_id for head in heads]

    assert await listed(limit=3) == ["r11", "r10", "r9"]
    assert await listed(limit=2, before="r9") == ["r8", "r7"]
    assert await listed(states=[RunState.PAUSED]) == ["r9", "r5", "r2"]
    assert await listed(states=[RunState.PAUSED], before="r9", limit=1) == ["r5"]
    assert await listed(states=[]) == []
    assert await listed(thread="t0") == ["r9", "r6", "r3", "r0"]
    assert await listed(thread="t0", states=[RunState.QUEUED], limit=2) == ["r6", "r3"]
    (head,) = await bench.journal.runs(limit=1)
    assert (head.state, head.seq, head.thread) == (RunState.QUEUED, 1, "t2")


# --- hearing ----------------------------------------------------------------------------------


@_check
async def a_subscriber_sees_everything_once_in_order_from_any_place(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    seen: list[tuple[Cursor, object]] = []
    enough = asyncio.Event()

    async def follow() -> None:
        async with aclosing(bench.journal.changes.subscribe("r1")) as stream:
            async for cursor, item in stream:
                seen.append((cursor, item))
                if isinstance(item, Record) and isinstance(item.event, Completed):
                    enough.set()
                    return

    async with asyncio.timeout(20):
        reader = asyncio.ensure_future(follow())
        await bench.journal.live_text.say(claim.lease, "p1", "one ", offset=0)
        await bench.journal.live_text.say(claim.lease, "p2", "two ", offset=0)
        await bench.add(claim, TextEnded(part="p1", text="one more"))
        await bench.journal.live_text.say(claim.lease, "p2", "three", offset=4)
        await bench.create("another")
        await bench.add(claim, TextEnded(part="p2", text="two three"), Completed())
        await enough.wait()
        await reader
        sequence = [item.seq for _, item in seen if isinstance(item, Record)]
        assert sequence == list(range(1, sequence[-1] + 1))
        positions = [item.pos for _, item in seen if isinstance(item, LiveText)]
        assert positions == sorted(set(positions))
        records = [item for _, item in seen if isinstance(item, Record)]
        for place, _ in seen[:-1]:
            async with aclosing(bench.journal.changes.subscribe("r1", after=place)) as stream:
                rest = [(await anext(stream))[1] for _ in records[place.seq :]]
            assert rest == records[place.seq :]


@_check
async def a_watcher_hears_which_runs_changed(bench: _Bench) -> None:
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[str] = asyncio.Queue()

    def tell(runs: Changed) -> None:
        for run_id in runs:
            loop.call_soon_threadsafe(heard.put_nowait, run_id)

    def fail(_runs: Changed) -> None:
        raise ValueError("a listener's own fault")

    stop_failing, stop = bench.journal.changes.watch(fail), bench.journal.changes.watch(tell)
    async with asyncio.timeout(20):
        await bench.create("r1")
        assert await heard.get() == "r1"
        await bench.create("r2")
        assert await heard.get() == "r2"
    stop()
    stop_failing()


@_check
async def a_task_that_only_writes_can_still_be_cancelled(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")

    async def hold_on() -> None:
        while True:
            await bench.journal.renew(claim.lease, ttl_s=TTL_S)

    task = asyncio.ensure_future(hold_on())
    for _ in range(5):
        await bench.journal.renew(claim.lease, ttl_s=TTL_S)
    task.cancel()
    async with asyncio.timeout(20):
        await asyncio.wait((task,))
    assert task.cancelled()


@_check
async def a_control_of_a_parent_is_its_childrens_in_the_same_transaction(bench: _Bench) -> None:
    """Paused, resumed and cancelled with it; a detached child is left alone."""
    await bench.create("parent")
    claim = await bench.own("parent")
    for number, child in enumerate(("awaited", "detached")):
        is_detached = child == "detached"
        born = Created(agent="churn", thread="t", parent="parent", detached=is_detached)
        await bench.journal.append(
            Append(run_id=child, events=[born], expected_seq=0),
            Append(
                run_id="parent",
                events=[ChildBorn(child=child, detached=is_detached)],
                expected_seq=2 + number,
                epoch=claim.lease.epoch,
            ),
        )

    async def states() -> list[str]:
        return [(await bench.journal.head(run)).state for run in ("parent", "awaited", "detached")]

    await bench.journal.command("parent", Pause(by="ana"))
    assert await states() == ["pausing", "paused", "queued"]
    await bench.journal.command("parent", Resume(by="ana"))
    assert await states() == ["running", "queued", "queued"]
    await bench.journal.release(claim.lease)
    assert (await bench.journal.command("parent", Cancel(by="ana"))).state is RunState.CANCELLED
    assert await states() == ["cancelled", "cancelled", "queued"]


@_check
async def a_thread_has_one_driven_run_and_a_second_can_be_refused(bench: _Bench) -> None:
    await bench.create("first", thread="t")
    await bench.create("second", thread="t")
    born = Created(agent="churn", thread="t")
    third = Append(run_id="third", events=[born], expected_seq=0, alone=True)
    await _refused(ThreadBusy, bench.journal.append(third))
    assert await bench.journal.queue.claimable(agents=["churn"]) == ["first"]
    assert await bench.journal.acquire("second", owner="w1", ttl_s=TTL_S) is None
    await bench.journal.command("first", Cancel(by="ana"))
    assert await bench.journal.queue.claimable(agents=["churn"]) == ["second"]
    await bench.own("second")
    await bench.journal.command("second", Cancel(by="ana", now=True))
    assert (await bench.journal.runs(thread="t"))[0].run_id == "second"


@_check
async def a_timer_is_known_until_it_has_rung(bench: _Bench) -> None:
    for run_id, due_ms in (("late", 900), ("soon", 100), ("foreign", 1)):
        await bench.create(run_id, agent="other" if run_id == "foreign" else "churn")
        claim = await bench.own(run_id)
        await bench.add(claim, QuestionAsked(question="q", kind="timer", due_ms=due_ms))
    assert await bench.journal.queue.due(agents=["churn"]) == [("soon", 100), ("late", 900)]
    await bench.journal.command("soon", Answer(by="clock", question="q", source="clock"))
    await bench.journal.command("late", Cancel(by="ana"))
    assert await bench.journal.queue.due(agents=["churn"]) == []


@_check
async def what_a_dead_process_held_is_free_at_once(bench: _Bench) -> None:
    """Known by the name of its owner; of names that say nothing nobody can tell."""
    dead = new_owner()
    namespace, _, _, tail = dead.split("-")
    gone = f"{namespace}-{2**22 - 1}-1-{tail}"
    for run_id, owner in (("alive", new_owner()), ("gone", gone), ("unknown", "somebody")):
        await bench.create(run_id)
        await bench.own(run_id, owner)
    assert await bench.journal.queue.free_the_gone() == []
    assert await bench.journal.queue.claimable(agents=["churn"]) == ["gone"]
    await bench.own("gone", "next")


@_check
async def its_own_process_takes_a_waiting_run_up_again_and_nobody_else_does(bench: _Bench) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    await bench.add(claim, QuestionAsked(question="q"), Blocked(seen_seq=2))
    assert await bench.journal.acquire("r1", owner="w2", ttl_s=TTL_S) is None
    again = await bench.own_again(claim)
    assert (again.run.state, again.lease.epoch) == (RunState.RUNNING, 2)


@_check
async def a_stop_is_in_the_log_with_the_record_it_is_about(bench: _Bench) -> None:
    for run_id in ("r1", "r2"):
        await bench.create(run_id)
        await bench.own(run_id)
    bench.clock.jump_wall(-3600)  # the log has the wall clock as it is, whatever it showed before
    await bench.journal.command("r1", Pause(by="ana", reason="wrong path"))
    await bench.journal.command("r2", Cancel(by="bo"))
    await bench.journal.stop_log.note(SwitchEngaged(by="ops", reason="drill"))
    await bench.journal.stop_log.note(StopShown(asked_seq=3), "r2")
    rows = await bench.journal.stop_log.rows()
    assert [(row.n, row.run) for row in rows] == [(1, "r1"), (2, "r2"), (3, ""), (4, "r2")]
    assert [row.n for row in await bench.journal.stop_log.rows(run="r2")] == [2, 4]
    assert [row.n for row in await bench.journal.stop_log.rows(after=2)] == [3, 4]
    assert {row.at_ms for row in rows} == {bench.clock.wall_ms()}
    before = START
    for row in rows:
        assert row.payload is not None
        assert sha256(row.payload).digest() == row.digest
        before = next_hash(before, row.n, row.at_ms, cover(row.run, row.digest))
        assert row.hash == before
        entry = decode_entry(row.payload)
        if entry.run:
            assert entry.hash == (await bench.journal.head(entry.run)).hash.hex()
        assert (entry.run, entry.boot) == (row.run, bench.clock.boot_time().boot)


@_check
async def a_stop_that_is_not_recorded_is_not_in_the_log(bench: _Bench) -> None:
    """The two are one transaction."""
    await bench.create("r1")
    claim = await bench.own("r1")
    paused = Order("r1", Pause(by="ana"))
    late = Append(run_id="r1", events=[Requeued()], expected_seq=2, epoch=claim.lease.epoch)
    await _refused(Conflict, bench.journal.append(paused, late))
    assert await bench.journal.stop_log.rows() == []
    await bench.journal.command("r1", Pause(by="ana"))
    assert [row.n for row in await bench.journal.stop_log.rows()] == [1]


@_check
async def what_was_handed_in_before_the_close_is_done_and_nobody_is_left_waiting(
    bench: _Bench,
) -> None:
    await bench.create("r1")
    claim = await bench.own("r1")
    stream = bench.journal.changes.subscribe("r1", after=Cursor(2))
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    started = StepStarted(step="a", name="a")
    write = Append(run_id="r1", events=[started], expected_seq=2, epoch=claim.lease.epoch)
    async with asyncio.timeout(20):
        (appended,), _, _ = await asyncio.gather(
            bench.journal.append(write), bench.journal.aclose(), bench.journal.aclose()
        )
        assert isinstance(appended, Appended)
        await asyncio.wait((waiting,))
        if waiting.exception() is None:  # it saw the step before the end
            await _refused(JournalClosed, anext(stream))
        else:
            assert isinstance(waiting.exception(), JournalClosed)
    await stream.aclose()


@_check
async def a_closed_journal_says_so(bench: _Bench) -> None:
    await bench.create("r1")
    await bench.journal.aclose()
    await _refused(JournalClosed, bench.journal.command("r1", Pause(by="ana")))
    await _refused(JournalClosed, bench.journal.read("r1"))
    await bench.journal.aclose()


# --- hooks --------------------------------------------------------------------------------------


@_check
async def records_are_known_by_their_order_over_all_runs(bench: _Bench) -> None:
    places = bench.journal.hooks
    await bench.create("r1")
    await bench.create("r2")
    await bench.own("r1")
    rows = await places.committed(after_pos=0, limit=10)
    assert [(run_id, seq) for _, run_id, seq in rows] == [("r1", 1), ("r2", 1), ("r1", 2)]
    positions = [pos for pos, *_ in rows]
    assert positions == sorted(set(positions))
    assert await places.committed(after_pos=positions[0], limit=1) == rows[1:2]
    assert await places.committed(after_pos=positions[-1], limit=10) == []


@_check
async def a_hook_that_is_new_begins_at_the_end_and_keeps_its_place(bench: _Bench) -> None:
    places = bench.journal.hooks
    await bench.create("r1")
    [(last, *_)] = await places.committed(after_pos=0, limit=10)
    assert await places.meet("board") == last
    await bench.create("r2")
    assert await places.meet("board") == last
    assert await places.take("board", owner="w1", ttl_s=TTL_S) == last
    assert await places.move("board", last + 1, owner="w1", ttl_s=TTL_S)
    assert await places.meet("board") == last + 1
    assert await places.meet("other") == last + 1


@_check
async def a_hook_that_has_another_name_goes_on_where_it_was(bench: _Bench) -> None:
    places = bench.journal.hooks
    await places.meet("old")
    assert await places.take("old", owner="w1", ttl_s=TTL_S) == 0
    await bench.create("r1")
    assert await places.meet("new", formerly="old") == 0
    assert await places.take("new", owner="w2", ttl_s=TTL_S) is None, "it is w1's to tell"
    assert await places.move("new", 1, owner="w1", ttl_s=TTL_S)
    assert await places.meet("new", formerly="old") == 1
    assert await places.meet("old") == 1, "nobody is known by that name: it is a new hook"
    await bench.create("r2")
    assert await places.meet("new", formerly="old") == 1
    assert await places.meet("old") == 2


@_check
async def one_at_a_time_tells_a_hook(bench: _Bench) -> None:
    places = bench.journal.hooks
    await places.meet("board")
    assert await places.take("board", owner="w1", ttl_s=TTL_S) == 0
    assert await places.take("board", owner="w2", ttl_s=TTL_S) is None
    assert await places.take("other", owner="w2", ttl_s=TTL_S) == 0
    bench.clock.advance(TTL_S)
    assert await places.take("board", owner="w2", ttl_s=TTL_S) == 0
    assert not await places.move("board", 5, owner="w1", ttl_s=TTL_S)
    assert await places.meet("board") == 0
    await places.let_go("board", owner="w1")
    assert await places.take("board", owner="w1", ttl_s=TTL_S) is None
    await places.let_go("board", owner="w2")
    assert await places.take("board", owner="w1", ttl_s=TTL_S) == 0
