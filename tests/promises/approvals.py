"""Whole runs with approvals in them, in a process that is going to be killed.

Whoever executes a call tells the outside witness a print of what it was really handed: the run,
the step and the arguments as they are, not as the journal says. Whoever approves tells it the
print of what stood on the card, and then what the acknowledgement was.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import pullcord
from pullcord import AgentConfig, Context, NotDone, Retry, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import Effect, QuestionAsked
from pullcord.journal.journal import Journal
from pullcord.runtime.policy import Tool
from pullcord.testing.crashing import Witness

BOUND_S: Final = 60


def print_of(run_id: str, step: str, args: dict[str, Any]) -> str:
    """What a call comes down to, reckoned without anything that the product reckons with."""
    exact = json.dumps([run_id, step, args], sort_keys=True)
    return hashlib.sha256(exact.encode()).hexdigest()[:16]


def shown_on(run_id: str, card: QuestionAsked) -> str:
    """The print of the call that stands on a card."""
    return print_of(run_id, card.step, json.loads(bytes(card.details))["args"])


class Bank:
    """Makes payments, and tells of each what it was."""

    def __init__(self, tell: Witness, *, held: bool = False) -> None:
        self.tell = tell
        self.at_the_counter = asyncio.Event()
        self.counter = asyncio.Event()
        if not held:
            self.counter.set()

    def pay(
        self, *, effect: Effect = "once", deferred: bool = False, version: str = "", fails: int = 0
    ) -> Tool[..., Any]:
        retry = Retry(attempts=fails + 1, wait_s=0.001)

        @pullcord.tool(
            approve="always", effect=effect, deferred=deferred, version=version, retry=retry
        )
        async def pay(ctx: pullcord.ToolContext, amount: int, to: list[str]) -> str:
            made = print_of(ctx.run_id, ctx.step, {"amount": amount, "to": to})
            self.tell(f"executed {ctx.run_id} {made} {ctx.attempt}")
            self.at_the_counter.set()
            await self.counter.wait()
            if ctx.attempt <= fails:
                raise ConnectionError("try again")
            return f"paid {amount} to {' and '.join(to)}"

        return pay


async def told(call: Any) -> Any:
    try:
        return await call
    except NotDone as refused:
        return [refused.outcome, refused.why]


def agents(bank: Bank, *, version: str = "1") -> dict[str, AgentConfig]:
    """Version 2 pays more, and to somebody else; version 3 has another policy for the same."""
    more = 0 if version != "2" else 900
    to = ["bob"] if version != "2" else ["eve"]
    policy = "" if version != "3" else "2"

    async def payer(ctx: Context) -> Any:
        return [await told(ctx.tool(bank.pay(version=policy), 100 + more, to, key="invoice"))]

    async def thrice(ctx: Context) -> Any:
        pay = bank.pay(version=policy)
        calls = [ctx.tool(pay, n + more, to, key=f"invoice-{n}") for n in (1, 2, 3)]
        return await asyncio.gather(*map(told, calls))

    async def later(ctx: Context) -> Any:
        pay = bank.pay(deferred=True, version=policy)
        queued = await ctx.tool(pay, 100 + more, to, key="invoice")
        return [await told(queued.result())]

    async def stubborn(ctx: Context) -> Any:
        pay = bank.pay(effect="idempotent", version=policy, fails=1)
        return [await told(ctx.tool(pay, 100 + more, to, key="invoice"))]

    async def meddler(ctx: Context) -> Any:
        """Changes what it has handed over, as soon as it was shown."""
        given = list(to)

        async def meddle() -> None:
            for _ in range(10_000):
                given[1:] = [] if given[1:] else ["eve"]
                await asyncio.sleep(0)
            given[1:] = ["eve"]

        meddling = asyncio.create_task(meddle())
        try:
            return [await told(ctx.tool(bank.pay(version=policy), 100 + more, given, key="k"))]
        finally:
            meddling.cancel()

    known = (payer, thrice, later, stubborn, meddler)
    return {agent.__name__: AgentConfig(agent, version=version) for agent in known}


class Approver:
    """Somebody who looks at cards and answers them."""

    def __init__(self, runtime: Runtime, bank: Bank) -> None:
        self.runtime, self.bank = runtime, bank

    async def start(self, agent: str) -> RunHandle:
        return await self.runtime.start(agent, run_id="r1")

    async def approve(self, run: RunHandle, card: QuestionAsked, **how: Any) -> None:
        verb = "edited" if "args" in how else "approved"
        self.bank.tell(f"{verb} {run.id} {shown_on(run.id, card)} {card.question}")
        judge = run.edit if "args" in how else run.approve
        ack = await judge(card.question, call=card.call, by="ana", **how)
        assert ack.verdict == "applied", ack
        self.bank.tell(f"acked {run.id} {ack.seq} {card.question}")

    async def deny(self, run: RunHandle, card: QuestionAsked) -> None:
        self.bank.tell(f"denied {run.id} {shown_on(run.id, card)} {card.question}")
        ack = await run.deny(card.question, by="ana", reason="no")
        assert ack.verdict == "applied", ack
        self.bank.tell(f"acked {run.id} {ack.seq} {card.question}")


@asynccontextmanager
async def approver(
    journal: Journal, witness: Witness, *, held: bool = False, park_after_s: float = 60
) -> AsyncGenerator[Approver]:
    bank = Bank(witness, held=held)
    timing = Timing(park_after_s=park_after_s, lease_s=600, stop_grace_s=0.1, quiet_s=0.002)
    async with asyncio.timeout(BOUND_S):
        async with Runtime(journal, agents=agents(bank), timing=timing) as runtime:
            yield Approver(runtime, bank)


async def card(run: RunHandle, *, nth: int = 1) -> QuestionAsked:
    """Wait for the n-th card of the run."""
    found = 0
    async with aclosing(run.events()) as events:
        async for _, item in events:
            event = getattr(item, "event", None)
            if isinstance(event, QuestionAsked) and event.kind == "approval":
                found += 1
                if found == nth:
                    return event
    raise AssertionError(f"{run} has ended without a card number {nth}")


# --- the scenarios ------------------------------------------------------------------------------


async def an_approval(journal: Journal, witness: Witness) -> None:
    async with approver(journal, witness, park_after_s=0) as at:
        run = await at.start("payer")
        await run.wait_for(RunState.WAITING)
        await at.approve(run, await card(run))
        await run.result()


async def an_edit(journal: Journal, witness: Witness) -> None:
    async with approver(journal, witness) as at:
        run = await at.start("payer")
        await at.approve(run, await card(run), args={"amount": 50})
        await at.approve(run, await card(run, nth=2), args={"amount": 100})
        await at.approve(run, await card(run, nth=3))
        await run.result()


async def a_denial(journal: Journal, witness: Witness) -> None:
    async with approver(journal, witness, park_after_s=0) as at:
        run = await at.start("payer")
        await at.deny(run, await card(run))
        await run.result()


async def three_at_once(journal: Journal, witness: Witness) -> None:
    """One is approved, one denied, one edited and then approved."""
    async with approver(journal, witness) as at:
        run = await at.start("thrice")
        third, first, second = [await card(run, nth=nth) for nth in (3, 1, 2)]
        await at.approve(run, third, args={"amount": 30})
        await at.deny(run, first)
        await at.approve(run, await card(run, nth=4))
        await at.approve(run, second)
        await run.result()


async def a_deferred_call(journal: Journal, witness: Witness) -> None:
    async with approver(journal, witness, park_after_s=0) as at:
        run = await at.start("later")
        await run.wait_for(RunState.WAITING)
        await at.approve(run, await card(run))
        await run.result()


async def a_call_that_is_tried_again(journal: Journal, witness: Witness) -> None:
    async with approver(journal, witness) as at:
        run = await at.start("stubborn")
        await at.approve(run, await card(run))
        await run.result()


async def an_approval_while_paused(journal: Journal, witness: Witness) -> None:
    async with approver(journal, witness) as at:
        run = await at.start("payer")
        asked = await card(run)
        await run.pause(by="ana")
        await at.approve(run, asked)
        await run.resume(by="ana")
        await run.result()


async def a_cancel(journal: Journal, witness: Witness) -> None:
    """Three cards: one approved and being paid, one approved while paused, one open."""
    async with approver(journal, witness, held=True) as at:
        run = await at.start("thrice")
        first, second, _ = [await card(run, nth=nth) for nth in (1, 2, 3)]
        await at.approve(run, first)
        await at.bank.at_the_counter.wait()
        await run.pause(by="ana")
        await at.approve(run, second)
        await run.cancel(by="ana")
        await run.wait_for(RunState.CANCELLED)


async def a_redirect(journal: Journal, witness: Witness) -> None:
    async with approver(journal, witness) as at:
        run = await at.start("thrice")
        await card(run, nth=3)
        await run.redirect("pay nobody", by="ana")
        await run.result()


async def arguments_that_are_changed(journal: Journal, witness: Witness) -> None:
    async with approver(journal, witness) as at:
        run = await at.start("meddler")
        await at.approve(run, await card(run))
        await run.result()


SCENARIOS: Final = (
    an_approval,
    an_edit,
    a_denial,
    three_at_once,
    a_deferred_call,
    a_call_that_is_tried_again,
    an_approval_while_paused,
    a_cancel,
    a_redirect,
    arguments_that_are_changed,
)
