"""Promise: however two people answer one approval at the same time, one answer counts, both are
told which, and the call is made once or not at all, as that answer says.

On a real file: from two processes, and from two handles in one.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import pytest

import pullcord
from pullcord import Ack, Context, NotDone, Record, RunHandle, RunState, Runtime, ToolContext
from pullcord.core.events import (
    Answered,
    CancelRequested,
    Redirected,
)
from tests.conftest import FULL
from tests.promises.children import child
from tests.races.answerers import Task, answer

ROUNDS: Final = 1000 if FULL else 20  # of each pair
BATCH: Final = 20  # runs that wait at the same time
BOUND_S: Final = 100
PAIRS: Final = [
    ("approve", "deny"),
    ("approve", "approve"),
    ("approve", "edit"),
    ("approve", "cancel"),
    ("approve", "redirect"),
    ("edit", "deny"),
]
Race: TypeAlias = Callable[[Task, Task, bool], Awaitable[tuple[Ack, Ack]]]


class Till:
    """Pays, and counts how often for which run, and with what."""

    def __init__(self) -> None:
        self.paid: dict[str, list[int]] = {}

    async def agent(self, ctx: Context) -> Any:
        @pullcord.tool(approve="always")
        async def pay(ctx: ToolContext, amount: int) -> str:
            self.paid.setdefault(ctx.run_id, []).append(amount)
            return "paid"

        try:
            await ctx.tool(pay, 100)
        except NotDone:
            pass  # nothing was paid, and that is counted outside
        await ctx.ask("Is everybody told?")  # so that no answer comes behind the end of the run


@asynccontextmanager
async def two_processes(path: Path) -> AsyncGenerator[Race]:
    name = "tests.races.answerers"
    async with child(name, str(path), "ana") as ana, child(name, str(path), "bo") as bo:
        for who in (ana, bo):
            assert await who.says() == "ready"

        async def race(mine: Task, other: Task, ana_first: bool) -> tuple[Ack, Ack]:
            told = [(ana, mine), (bo, other)]
            for who, task in told if ana_first else reversed(told):
                await who.tell(msgspec.json.encode(task).decode())
            said = [msgspec.json.decode(await who.says(), type=Ack) for who in (ana, bo)]
            return said[0], said[1]

        yield race


@asynccontextmanager
async def two_handles(path: Path) -> AsyncGenerator[Race]:
    async with pullcord.open(path) as first, pullcord.open(path) as second:

        async def race(mine: Task, other: Task, ana_first: bool) -> tuple[Ack, Ack]:
            one = answer(await first.get(mine.run_id), mine, "ana")
            two = answer(await second.get(other.run_id), other, "bo")
            if ana_first:
                return await asyncio.gather(one, two)
            said = await asyncio.gather(two, one)
            return said[1], said[0]

        yield race


@pytest.mark.campaign
@pytest.mark.timeout(1800 if FULL else 120)
@pytest.mark.parametrize("pair", PAIRS, ids=" against ".join)
@pytest.mark.parametrize("racers", [two_processes, two_handles], ids=lambda r: r.__name__)
async def test_of_two_answers_one_counts_and_both_are_told_which(
    racers: Any, pair: tuple[str, str], tmp_path: Path
) -> None:
    path, till, winners = tmp_path / "runs.db", Till(), Counter[str]()
    async with (
        pullcord.open(path, agents={"payer": till.agent}) as runtime,
        racers(path) as race,
    ):
        for _ in range(ROUNDS // BATCH):
            async with asyncio.timeout(BOUND_S):
                winners.update(await one_batch(runtime, race, pair, till))
    assert sum(winners.values()) == ROUNDS // BATCH * BATCH
    print(f"{sum(winners.values())} races, 0 double, 0 told otherwise, winners: {dict(winners)}")


async def one_batch(runtime: Runtime, race: Race, pair: tuple[str, str], till: Till) -> list[str]:
    """Race for a number of approvals, and return which answer won each."""
    runs = [await runtime.start("payer") for _ in range(BATCH)]
    winners: list[str] = []
    for nth, run in enumerate(runs):
        [name] = (await run.wait_for(RunState.WAITING)).open_questions()
        tasks = [Task(run.id, name, how) for how in pair]
        acks = await race(tasks[0], tasks[1], nth % 2 == 0)
        won = who_won(await runtime.journal.read(run.id), name, acks)
        winners.append(pair[0] if won == "ana" else pair[1])
        late = await run.approve(name, by="cy")
        assert late.verdict == "too_late", "a third answer was taken"
    for run, how in zip(runs, winners, strict=True):
        await to_the_end(run)
        paid = till.paid.get(run.id, [])
        if how == "approve" and "cancel" in pair:  # the cancel may have come before the start
            assert paid in ([], [100])
        else:
            assert paid == ([100] if how == "approve" else []), f"{how} has won"
    return winners


def who_won(records: list[Record], question: str, acks: tuple[Ack, Ack]) -> str:
    """Whose answer the journal says it was: whoever was told `applied`, and nobody else."""
    judged = [  # the answers, and what withdraws the card
        record
        for record in records
        if (isinstance(record.event, Answered) and record.event.question == question)
        or isinstance(record.event, CancelRequested | Redirected)
    ]
    first = judged[0]
    assert isinstance(first.event, Answered | CancelRequested | Redirected)
    winner = first.event.by
    mine, other = acks if winner == "ana" else reversed(acks)
    assert (mine.verdict, mine.seq) == ("applied", first.seq), "the winner was told otherwise"
    if isinstance(first.event, Answered) and len(judged) > 1:
        assert other.verdict == "applied", "a cancel or a redirect behind an answer holds as well"
        assert other.seq == judged[1].seq
    else:
        assert (other.verdict, len(judged)) == ("too_late", 1)
        assert names_the_winner(other, first), "the loser was told another winner"
    answers = [r for r in judged if isinstance(r.event, Answered)]
    assert len(answers) <= 1, "one approval has two answers"
    return winner


def names_the_winner(late: Ack, first: Record) -> bool:
    """A run that has been cancelled meanwhile names its end, which came by the cancel."""
    return late.seq == first.seq or (
        isinstance(first.event, CancelRequested) and late.reason == "ended"
    )


async def to_the_end(run: RunHandle) -> None:
    """Deny what is asked about an edited call, and say that everybody is told."""
    async for _ in run.events():
        now = await run.snapshot()
        for name in now.open_questions():
            if now.questions[name].kind == "approval":
                await run.deny(name, by="cy", reason="no")
            else:
                await run.answer(name, "yes", by="cy")
