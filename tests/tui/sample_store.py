"""Runs to look at: one in each state, and as many as are wanted, written by the journal itself."""

from pathlib import Path
from typing import Any

from pullcord.core.commands import Cancel, Deny, Pause, Redirect
from pullcord.core.conditions import MaxSteps, Spent
from pullcord.core.events import (
    AttentionRaised,
    Blocked,
    Completed,
    Created,
    Event,
    Failed,
    ItemStarted,
    LimitReached,
    Paused,
    PauseRequested,
    PlanItem,
    Planned,
    QuestionAsked,
    StepFinished,
    StepStarted,
    Stopped,
    TextEnded,
)
from pullcord.core.events import Spent as Bill
from pullcord.core.limits import Limits
from pullcord.core.values import dump
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Change, Lease, Order
from pullcord.testing.clock import ManualClock
from pullcord.tui.local_source import LocalSource

PLAN = Planned(
    plan="p",
    items=(
        PlanItem("a", "Fetch customer list"),
        PlanItem("b", "Join against MRR table"),
        PlanItem("c", "Score churn risk"),
        PlanItem("d", "Write summary memo"),
    ),
)
LIMITS = Limits(MaxSteps(40) | Spent(usd=2))


class SampleStore:
    """A store with runs in it, written with a clock that stands still until it is moved."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.journal = Journal.open(path, clock=self.clock)
        self.source = LocalSource(self.journal, me="ana", name="runs.db")
        self._leases: dict[str, Lease] = {}

    async def born(self, run: str, agent: str = "churn", limits: Limits | None = None) -> None:
        """A run that was made and that nobody has taken."""
        made = Created(agent=agent, thread=f"t-{run}", limits=limits, input=dump({"month": "May"}))
        await self.journal.append(Append(run_id=run, events=[made], expected_seq=0))
        self.clock.advance(1)

    async def working(
        self, run: str, *events: Event, agent: str = "churn", limits: Limits | None = LIMITS
    ) -> None:
        """A run that somebody drives, to whom this has happened."""
        await self.born(run, agent, limits)
        claim = await self.journal.acquire(run, owner="somebody", ttl_s=10**9)
        assert claim is not None
        self._leases[run] = claim.lease
        for event in events:
            await self.add(run, event)

    async def add(self, run: str, *events: Event) -> None:
        head = await self.journal.head(run)
        await self.journal.append(
            Append(run_id=run, events=events, expected_seq=head.seq, epoch=head.epoch)
        )
        self.clock.advance(3)

    async def say(self, run: str, part: str, text: str, offset: int = 0) -> None:
        await self.journal.live_text.say(self._leases[run], part, text, offset=offset)

    # --- one of each ---

    async def report(self, run: str) -> None:
        """It has fetched, and scores; its model is answering."""
        await self.working(
            run,
            PLAN,
            ItemStarted(plan="p", item="a", text="Fetch customer list"),
            StepStarted(step="f1", name="fetch", tool="fetch", effect="none", run_in="loop"),
            StepFinished(step="f1", result=dump("1,204 rows")),
            ItemStarted(plan="p", item="b", text="Join against MRR table"),
            StepStarted(step="d1", name="create_draft", tool="create_draft", undoable=True),
            StepFinished(step="d1", result=dump({"draft": 7})),
            ItemStarted(plan="p", item="c", text="Score churn risk"),
            StepStarted(step="model-1", name="ask", model="gpt-5", effect="none"),
            StepFinished(step="model-1"),
            Bill(step="model-1", cost_usd_micros=310_000, tokens_in=1200, tokens_out=340),
            StepStarted(step="s1", name="score", tool="score", run_in="process"),
        )
        await self.say(run, "say-1", "Of 1,204 customers, 37 are at risk. The largest of them is ")

    async def orphan(self, run: str) -> None:
        """Its process was killed."""
        await self.working(run, StepStarted(step="s1", name="fetch", effect="none"))
        await self.journal.release(self._leases.pop(run))

    async def troubled(self, run: str) -> None:
        """It has ended, and left something that a person has to look at."""
        await self.failed(run)
        raised = AttentionRaised(item="s1", text="Nobody knows whether it happened.")
        await self.journal.witness.remark(run, raised)

    async def pausing(self, run: str) -> None:
        await self.working(run, PLAN, ItemStarted(plan="p", item="a", text="Fetch customer list"))
        await self.add(run, StepStarted(step="model-1", name="ask", model="gpt-5", effect="none"))
        await self.journal.command(run, Pause(by="ana", reason="check the join first"))

    async def paused(self, run: str) -> None:
        await self.working(run, PLAN, ItemStarted(plan="p", item="a", text="Fetch customer list"))
        await self.journal.command(run, Pause(by="ana", reason="check the join first"))
        await self.add(run, Paused())
        await self.journal.command(run, Redirect(by="ana", instruction="Join EU customers only"))

    async def waiting(self, run: str, **args: object) -> None:
        given = args or {"to": "board@example.com", "subject": "Q3 churn", "attach": [1, 2]}
        said = dump({"args": given, "effect": "once", "can_be_undone": False})
        now = await self.journal.clock.now_ms()
        await self.working(run, agent="mailer")
        head = await self.journal.head(run)
        await self.add(
            run,
            QuestionAsked(
                question="q1",
                kind="approval",
                tool="send_email",
                text="I only send the summary that you asked for.",
                details=said,
                call="digest-1",
                step="m1",
                due_ms=now + 15 * 60 * 1000,
            ),
            Blocked(seen_seq=head.seq),
        )

    async def asks_next(self, run: str, tool: str, **args: object) -> None:
        """Somebody elsewhere has denied the call, and the agent asks about another."""
        await self.journal.command(run, Deny(by="bo", question="q1"))
        await self.journal.release(self._leases.pop(run))
        claim = await self.journal.acquire(run, owner="somebody", ttl_s=10**9)
        assert claim is not None
        self._leases[run] = claim.lease
        details = dump({"args": args, "effect": "once", "can_be_undone": False})
        due = await self.journal.clock.now_ms() + 15 * 60 * 1000
        said: Any = {"details": details, "call": "digest-2", "step": "m2", "due_ms": due}
        asked = QuestionAsked(question="q2", kind="approval", tool=tool, text="May I?", **said)
        await self.add(run, asked)

    async def limited(self, run: str) -> None:
        limits = Limits(MaxSteps(1))
        await self.working(run, agent="crawler", limits=limits)
        await self.add(run, StepStarted(step="s1", name="fetch"), StepFinished(step="s1"))
        stop = PauseRequested(by="limits", source="limit", limits=("MaxSteps(1)",))
        await self.add(run, stop, Paused())

    async def cancelling(self, run: str) -> None:
        await self.working(run, StepStarted(step="s1", name="crunch", run_in="process"))
        await self.journal.command(run, Cancel(by="ana", reason="wrong path"))

    async def cancelled(self, run: str) -> None:
        await self.working(run, PLAN)
        await self.add(run, StepStarted(step="s1", name="fetch"), StepFinished(step="s1"))
        await self.add(run, TextEnded(part="say-1", text="Of 1,204 customers, 37", complete=False))
        lease = self._leases.pop(run)
        await self.journal.release(lease)
        await self.journal.command(run, Cancel(by="ana", reason="wrong path"))

    async def stopping(self, run: str) -> None:
        await self.working(run, StepStarted(step="s1", name="fetch"), agent="crawler")
        reached = LimitReached(
            by="limits", source="limit", leaves=("MaxSteps(40)",), then="wrap_up", reason="40 of 40"
        )
        await self.add(run, reached)

    async def stopped(self, run: str) -> None:
        await self.stopping(run)
        await self.add(run, StepFinished(step="s1"), Stopped(leaves=("MaxSteps(40)",)))

    async def completed(self, run: str) -> None:
        await self.working(run, Completed(result=dump("37 customers are at risk")), agent="digest")

    async def failed(self, run: str) -> None:
        await self.working(run, Failed(error="ConnectionError: the table is gone"))

    async def many(self, count: int) -> None:
        """So many runs, fifty to a commit, nine of ten ended."""
        for start in range(0, count, 50):
            changes: list[Change] = []
            for n in range(start, min(start + 50, count)):
                made = Created(agent=f"agent-{n % 7}", thread=f"m{n:04}")
                changes.append(Append(run_id=f"m{n:04}", events=[made], expected_seq=0))
                if n % 10:
                    changes.append(Order(f"m{n:04}", Cancel(by="ana", reason="wrong path")))
            await self.journal.append(*changes)
            self.clock.advance(60)
