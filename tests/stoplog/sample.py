"""A store with stops of every kind in it, made by the journal itself."""

from pathlib import Path

from pullcord.core.commands import Cancel, Forget, Pause, Resume
from pullcord.core.conditions import MaxSteps
from pullcord.core.events import (
    Cancelled,
    CancelRequested,
    ChildBorn,
    Created,
    Event,
    GuardTripped,
    Paused,
    Requeued,
    StepFinished,
    StepInterrupted,
    StepStarted,
    TextEnded,
)
from pullcord.core.limits import Limits
from pullcord.core.stops import (
    StopShown,
    SwitchEngaged,
    SwitchReleased,
    Viewer,
)
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Claim
from pullcord.testing import ManualClock

CANARY = "zq-canary-7781"
ENDS = "one\u2028two\u2029three\x85four\x1cfive\ufeffsix"
"""Signs that end a line for some, and stand in JSON as they are."""


class Hand:
    """One owner of many runs."""

    def __init__(self, journal: Journal, clock: ManualClock) -> None:
        self.journal, self.clock = journal, clock

    async def begin(self, run_id: str, *events: Event, limits: Limits | None = None) -> Claim:
        created = Created(agent="churn", thread=run_id, limits=limits)
        await self.journal.append(Append(run_id=run_id, events=[created], expected_seq=0))
        claim = await self.journal.acquire(run_id, owner="w1", ttl_s=1000)
        assert claim is not None
        if events:
            await self.add(claim, *events)
        return claim

    async def add(self, claim: Claim, *events: Event) -> None:
        self.clock.advance(0.25)
        run_id, epoch = claim.lease.run_id, claim.lease.epoch
        seq = (await self.journal.head(run_id)).seq
        change = Append(run_id=run_id, events=events, expected_seq=seq, epoch=epoch)
        await self.journal.append(change)


async def fill(journal: Journal, clock: ManualClock) -> None:
    """A pause that holds and is resumed, a cancelled tree, a guard that cuts a leak off, a limit,
    a shutdown, a run that was forgotten, and what is about no run."""
    hand = Hand(journal, clock)
    step = StepStarted(step="pay-1", name="pay", tool="pay")
    r1 = await hand.begin("r1", step)
    await journal.command("r1", Pause(by="ana", reason="wrong path", via="page, session"))
    await hand.add(r1, StepFinished(step="pay-1"), Paused(rung="cooperative"))
    await journal.command("r1", Resume(by="ana"))
    await _a_tree(hand)
    await _a_leak(hand)
    r4 = await hand.begin("r4", limits=Limits(MaxSteps(1), then="stop"))
    for name in ("a", "b"):  # the second is one too many, and refused
        await hand.add(r4, StepStarted(step=name, name=name))
    r5 = await hand.begin("r5")
    await hand.add(r5, Requeued())
    await _a_wish(hand)
    clock.jump_wall(-7200)  # somebody sets the clock: the log says what it showed
    await journal.stop_log.note(
        SwitchEngaged(by="ops", reason="drill", engaged_at_ms=clock.wall_ms() - 900, held=("r4",))
    )
    await journal.stop_log.note(SwitchReleased(by="ops", reason="over"))


async def _a_tree(hand: Hand) -> None:
    parent = await hand.begin("r2")
    child = Created(agent="churn", thread="r2", parent="r2")
    seq = (await hand.journal.head("r2")).seq
    born = Append(run_id="r2", events=[ChildBorn(child="r2c")], expected_seq=seq, epoch=1)
    made = Append(run_id="r2c", events=[child], expected_seq=0)
    await hand.journal.append(born, made)
    await hand.journal.command("r2", Cancel(by="bo", reason=f"too expensive, {ENDS}"))
    await hand.add(parent, Cancelled(rung="task_cancel"))


async def _a_leak(hand: Hand) -> None:
    ask = StepStarted(step="model-1", name="ask", model="scripted")
    claim = await hand.begin("r3", ask)
    part = "say-model-1-1-0"
    said = "The report is nearly done. "
    await hand.journal.live_text.say(claim.lease, part, said, offset=0)
    viewer = Viewer(who="ana", via="page, session", seq=3, said={part: len(said)})
    await hand.add(
        claim,
        TextEnded(part=part, text=said, complete=False),
        GuardTripped(
            guard="canary", on_hit="cancel", part=part, evidence=f"The key is {CANARY}{ENDS}"
        ),
        CancelRequested(by="canary", source="guard", reason="a leak", quarantine=True, now=True),
    )
    asked = (await hand.journal.head("r3")).seq
    await hand.journal.stop_log.note(StopShown(asked_seq=asked, viewers=(viewer,)), "r3")
    await hand.add(claim, StepInterrupted(step="model-1", rung="transport_closed"), Cancelled())


async def _a_wish(hand: Hand) -> None:
    claim = await hand.begin("r6")
    await hand.journal.command("r6", Cancel(by="ana"))
    await hand.add(claim, Cancelled())
    await hand.journal.release(claim.lease)
    assert (await hand.journal.retention.forget("r6", Forget(by="ops", reason="her wish"))).holds


async def made(path: Path) -> None:
    clock = ManualClock()
    async with Journal.open(path, clock=clock) as journal:
        await fill(journal, clock)
