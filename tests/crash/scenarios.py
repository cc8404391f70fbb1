"""Lives of runs that a process is killed in. Each writes one thing at a time and bears witness."""

import asyncio

from pullcord.core.commands import (
    Answer,
    Approve,
    Cancel,
    Command,
    Forget,
    Pause,
    Redirect,
    Resume,
)
from pullcord.core.events import (
    AttentionRaised,
    Blocked,
    Cancelled,
    ChildBorn,
    Completed,
    Created,
    Event,
    InstructionSettled,
    Paused,
    QuestionAsked,
    Remembered,
    Requeued,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    TextEnded,
)
from pullcord.core.values import dump
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Appended, Change, Claim, Order
from pullcord.testing.crashing import Witness


class Hand:
    """Writes to a journal and says what it was told."""

    def __init__(self, journal: Journal, witness: Witness) -> None:
        self.journal, self.witness = journal, witness

    async def create(self, run_id: str, *more: Append) -> None:
        created = Created(agent="churn", thread=run_id, input=dump({"month": "May"}))
        await self.write(Append(run_id=run_id, events=[created], expected_seq=0), *more)

    async def own(self, run_id: str, *, owner: str = "w1", ttl_s: float = 1000) -> Claim:
        claim = await self.journal.acquire(run_id, owner=owner, ttl_s=ttl_s)
        assert claim is not None
        self.witness(f"{run_id} {claim.run.seq}")
        return claim

    async def write(self, *changes: Change) -> None:
        for result in await self.journal.append(*changes):
            if isinstance(result, Appended):
                self.witness(f"{result.run_id} {result.seq}")

    async def add(self, claim: Claim, *events: Event, release: bool = False) -> None:
        run_id = claim.lease.run_id
        seq = (await self.journal.head(run_id)).seq
        await self.write(
            Append(
                run_id=run_id,
                events=events,
                expected_seq=seq,
                epoch=claim.lease.epoch,
                release=release,
            )
        )

    async def press(self, run_id: str, command: Command) -> None:
        ack = await self.journal.command(run_id, command)
        self.witness(f"{run_id} {ack.seq}")

    async def say(self, claim: Claim, part: str, offset: int, text: str) -> None:
        if await self.journal.live_text.say(claim.lease, part, text, offset=offset) != "refused":
            self.witness(f"{claim.lease.run_id} {part} {offset + len(text)}")


def step(name: str) -> tuple[Event, Event]:
    return StepStarted(step=name, name=name), StepFinished(step=name, result=dump([name] * 20))


async def controls(journal: Journal, witness: Witness) -> None:
    hand = Hand(journal, witness)
    await hand.create("r1")
    claim = await hand.own("r1")
    await hand.add(claim, StepStarted(step="a", name="charge", undoable=True))
    await hand.press("r1", Pause(by="ana", reason="wrong customer?", key="k1"))
    await hand.press("r1", Pause(by="bo", key="k2"))
    await hand.press("r1", Pause(by="bo", now=True))
    await hand.add(claim, StepFinished(step="a", result=dump("charged")))
    await hand.add(claim, Paused())
    await hand.press("r1", Redirect(by="ana", instruction="the other one", key="k3"))
    await hand.press("r1", Resume(by="ana", instruction="be brief"))
    claim = await journal.acquire("r1", owner="w1", ttl_s=1000, held=claim.lease)
    assert claim is not None
    await hand.add(claim, InstructionSettled(instruction=8, outcome="delivered"))
    await hand.add(claim, StepStarted(step="b", name="mail"))
    await hand.press("r1", Cancel(by="ana", reason="wrong path", key="k4"))
    await hand.press("r1", Pause(by="bo"))
    await hand.add(claim, StepInterrupted(step="b", rung="killed"))
    await hand.add(claim, StepUndone(step="a"))
    await hand.add(claim, Cancelled(rung="killed"), release=True)
    await hand.press("r1", Cancel(by="bo", key="k5"))


async def leases(journal: Journal, witness: Witness) -> None:
    hand = Hand(journal, witness)
    for number in range(4):
        await hand.create(f"r{number}")
    claims = [await hand.own(f"r{number}") for number in range(4)]
    for claim in claims:
        await journal.renew(claim.lease, ttl_s=2000)
    await hand.add(claims[0], Requeued(), release=True)
    await journal.release(claims[1].lease)
    again = await hand.own("r0", owner="w2")
    await hand.add(again, *step("a"))
    await hand.add(again, Completed(result=dump(1)), release=True)
    await hand.press("r2", Cancel(by="ana"))
    await hand.add(claims[2], Cancelled(), release=True)


async def takeover(journal: Journal, witness: Witness) -> None:
    hand = Hand(journal, witness)
    await hand.create("r1")
    for number in range(5):
        # Never renewed and lapsed at once: each owner finds the last one gone.
        claim = await hand.own("r1", owner=f"w{number}", ttl_s=0)
        if number:
            await hand.add(claim, StepInDoubt(step=f"s{number - 1}"))
        await hand.add(claim, StepStarted(step=f"s{number}", name="work"))
    # The bare decision: `command` would have the run, which nobody drives, come to rest itself.
    await hand.write(Order("r1", Pause(by="ana")))
    claim = await hand.own("r1", owner="last")
    await hand.add(claim, StepInDoubt(step="s4"))
    await hand.press("r1", Cancel(by="ana"))
    await hand.add(claim, Cancelled(), release=True)


async def spans_over_two_runs(journal: Journal, witness: Witness) -> None:
    hand = Hand(journal, witness)
    await hand.create("p")
    parent = await hand.own("p")
    for number in range(4):
        child = f"c{number}"
        born = Created(agent="churn", thread="p", parent="p")
        seq = (await journal.head("p")).seq
        await hand.write(
            Append(run_id=child, events=[born], expected_seq=0),
            Append(run_id="p", events=[ChildBorn(child=child)], expected_seq=seq, epoch=1),
        )
        claim = await hand.own(child)
        await hand.write(
            Append(
                run_id=child,
                events=[*step("a"), Completed()],
                expected_seq=2,
                epoch=claim.lease.epoch,
                release=True,
            ),
        )
    await hand.add(parent, Completed(), release=True)


async def live_text(journal: Journal, witness: Witness) -> None:
    hand = Hand(journal, witness)
    await hand.create("r1")
    claim = await hand.own("r1")
    for part in ("p1", "p2"):
        text = ""
        for word in ("The ", "customers ", "who ", "left ", "größer\u2028 "):
            await hand.say(claim, part, len(text), word)
            text += word
        if part == "p1":
            await hand.add(claim, TextEnded(part=part, text=text + "end."))
        else:
            await hand.press("r1", Cancel(by="ana"))
            await hand.say(claim, part, len(text), "never shown")
            await hand.add(claim, TextEnded(part=part, text=text, complete=False))
    await hand.add(claim, Cancelled(), release=True)


async def large_payloads(journal: Journal, witness: Witness) -> None:
    """Each is kept in a table of its own, in the same transaction."""
    hand = Hand(journal, witness)
    await hand.create("r1")
    claim = await hand.own("r1")
    for number in range(5):
        name = f"s{number}"
        await hand.add(claim, StepStarted(step=name, name="render"))
        await hand.add(claim, StepFinished(step=name, result=dump("x" * (20_000 + number))))
    await hand.press("r1", Redirect(by="ana", instruction="long " * 8000))
    await hand.add(claim, Completed(result=dump("y" * 50_000)), release=True)


async def a_snapshot(journal: Journal, witness: Witness) -> None:
    hand = Hand(journal, witness)
    await hand.create("r1")
    claim = await hand.own("r1")
    for block in range(14):
        events = [event for n in range(20) for event in step(f"s{block}-{n}")]
        await hand.add(claim, *events)
    await hand.press("r1", Pause(by="ana"))
    await hand.add(claim, Paused(), release=True)


async def questions_and_costs(journal: Journal, witness: Witness) -> None:
    hand = Hand(journal, witness)
    await hand.create("r1")
    claim = await hand.own("r1")
    await hand.add(claim, Spent(cost_usd_micros=120, tokens_in=10))
    asked = QuestionAsked(question="q1", kind="approval", step="pay", tool="pay", call="40")
    await hand.add(claim, asked)
    await hand.add(claim, QuestionAsked(question="q2", text="which list?"))
    await hand.add(claim, Blocked(seen_seq=5), release=True)
    await hand.press("r1", Approve(by="ana", question="q1", key="a1"))
    claim = await hand.own("r1", owner="w2")
    await hand.add(claim, StepStarted(step="pay", name="pay", approval="q1", call="40"))
    await hand.add(claim, StepFailed(step="pay", error="declined"), Spent())
    await hand.add(claim, StepStarted(step="pay", name="pay", attempt=2))
    await hand.press("r1", Redirect(by="bo", instruction="the May list"))
    await hand.add(claim, StepInDoubt(step="pay"), AttentionRaised(item="pay", text="paid?"))
    await hand.press("r1", Answer(by="cy", question="q2", key="a2"))
    await hand.add(claim, Completed(), release=True)


async def many_writers_at_once(journal: Journal, witness: Witness) -> None:
    """Not repeatable to the letter: who shares a commit with whom is up to the moment."""
    hand = Hand(journal, witness)

    async def one(number: int) -> None:
        await hand.create(f"r{number}")
        claim = await hand.own(f"r{number}")
        for name in ("a", "b"):
            await hand.add(claim, *step(name))
        await hand.press(f"r{number}", Cancel(by="ana"))

    await asyncio.gather(*(one(number) for number in range(12)))


FORGOTTEN_WORDS = ("gone-1-word", "gone-2-word")


async def forgets(journal: Journal, witness: Witness) -> None:
    hand = Hand(journal, witness)
    for run_id in ("gone-1", "kept", "gone-2"):
        await hand.create(run_id)
        claim = await hand.own(run_id)
        said = TextEnded(part="p", text=f"{run_id}-word " * 2000)
        ended = Completed(result=dump(f"{run_id}-word"))
        told = Remembered(key="k", value=dump(f"{run_id}-word"))
        await hand.add(claim, told, said, ended, release=True)
    for run_id in ("gone-1", "gone-2"):
        await journal.retention.forget(run_id, Forget(by="ana", reason="a wish"))
        witness(f"forgot {run_id}")
    await journal.retention.scrub()


REPEATABLE = (
    controls,
    leases,
    takeover,
    spans_over_two_runs,
    live_text,
    large_payloads,
    a_snapshot,
    questions_and_costs,
)
