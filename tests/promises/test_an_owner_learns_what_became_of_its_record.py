"""Promise: an owner that was overtaken records what is still true, and learns of it.
What it does next is never decided on a view that was out of date.
"""

from collections.abc import AsyncGenerator

import pytest

from pullcord.core.commands import Answer, Cancel, Pause, Redirect
from pullcord.core.events import (
    Blocked,
    Cancelled,
    ChildBorn,
    Completed,
    Created,
    LateResult,
    Paused,
    QuestionAsked,
    StepFailed,
    StepFinished,
    StepInterrupted,
    StepStarted,
    TextEnded,
)
from pullcord.core.receipts import receipt
from pullcord.core.states import RunState
from pullcord.core.values import dump
from pullcord.errors import Conflict
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from pullcord.runtime.ownership import Ownership
from pullcord.testing import ManualClock


@pytest.fixture
async def journal() -> AsyncGenerator[Journal]:
    async with Journal.open(":memory:", clock=ManualClock()) as journal:
        yield journal


async def owned(journal: Journal, run_id: str = "r1") -> Ownership:
    created = Created(agent="churn", thread="t1")
    await journal.append(Append(run_id=run_id, events=[created], expected_seq=0))
    claim = await journal.acquire(run_id, owner="w1", ttl_s=30)
    assert claim is not None
    return Ownership(journal, claim)


async def test_an_end_that_was_asked_for_is_recorded_by_an_owner_that_only_heard_of_it(
    journal: Journal,
) -> None:
    for run_id, command, rest in (
        ("cancelled", Cancel(by="ana"), Cancelled()),
        ("paused", Pause(by="ana"), Paused()),
    ):
        mine = await owned(journal, run_id)
        await journal.command(run_id, command)
        assert await mine.record(rest) == [rest]


async def test_a_completion_that_was_overtaken_tells_nobody_and_keeps_the_run(
    journal: Journal,
) -> None:
    parent = await owned(journal, "parent")
    created = Created(agent="churn", thread="t1", parent="parent")
    birth = Append(run_id="child", events=[created], expected_seq=0)
    assert await parent.record(ChildBorn(child="child"), birth)
    claim = await journal.acquire("child", owner="w2", ttl_s=30)
    assert claim is not None
    child = Ownership(journal, claim)
    await journal.command("child", Cancel(by="ana"))
    assert await child.record(Completed(result=dump(1)), release=True) == [
        LateResult(step="", result=dump(1))
    ]
    assert (await journal.load("parent")).children["child"].state == ""
    assert await child.record(Cancelled(), release=True)
    assert (await journal.load("parent")).children["child"].state == "cancelled"


@pytest.mark.parametrize(
    "command",
    [Answer(by="ana", question="q"), Redirect(by="ana", instruction="other way")],
    ids=["an answer", "an instruction"],
)
async def test_a_run_does_not_begin_to_wait_for_what_has_come(
    journal: Journal, command: Answer | Redirect
) -> None:
    mine = await owned(journal)
    await mine.record(QuestionAsked(question="q"))
    await journal.command("r1", command)
    assert await mine.record(Blocked(seen_seq=mine.run.seq), release=True) == []
    assert mine.run.state is RunState.RUNNING
    assert (await journal.head("r1")).holder.owner == "w1"


async def test_text_that_went_on_behind_a_cancel_is_cut_where_it_was_shown_to(
    journal: Journal,
) -> None:
    mine = await owned(journal)
    await journal.live_text.say(mine.lease, "p1", "Hello", offset=0)
    await journal.command("r1", Cancel(by="ana"))
    await mine.record(TextEnded(part="p1", text="Hello, and the secret is 42"))
    records = await journal.read("r1")
    assert records[-1].event == TextEnded(part="p1", text="Hello", complete=False)


async def test_a_late_outcome_is_evidence_of_its_own_attempt(journal: Journal) -> None:
    mine = await owned(journal)
    await mine.record(StepStarted(step="a", name="a"))
    await mine.record(StepInterrupted(step="a"))
    await mine.record(StepStarted(step="a", name="a", attempt=2))
    first = StepFinished(step="a", attempt=1, result=dump("first"))
    second = StepFinished(step="a", attempt=2, result=dump("second"))
    assert await mine.record(first) == [LateResult(step="a", attempt=1, result=dump("first"))]
    assert await mine.record(second) == [second]
    assert mine.run.steps["a"].late_seq > 0


async def test_a_result_after_a_failure_is_kept(journal: Journal) -> None:
    """A time limit said *failed*; then the answer came, so it did happen."""
    mine = await owned(journal)
    await mine.record(StepStarted(step="a", name="pay"))
    await mine.record(StepFailed(step="a", error="timed out"))
    (late,) = await mine.record(StepFinished(step="a", result=dump("paid")))
    assert isinstance(late, LateResult)
    assert receipt(mine.run).done == ("pay",)


async def test_a_late_failure_is_not_called_done(journal: Journal) -> None:
    mine = await owned(journal)
    await mine.record(StepStarted(step="a", name="send mail"))
    await journal.command("r1", Cancel(by="ana"))
    await mine.record(StepFailed(step="a", error="refused"))
    assert receipt(mine.run).done == ()
    assert receipt(mine.run).interrupted == ("send mail",)


async def test_a_conflict_that_reading_does_not_explain_is_not_tried_for_ever(
    journal: Journal,
) -> None:
    mine = await owned(journal)
    started = StepStarted(step="b", name="b")
    itself = Append(run_id="r1", events=[started], expected_seq=2, epoch=1)
    with pytest.raises(Conflict):
        await mine.record(StepStarted(step="a", name="a"), itself)
