"""The races: controls against completion, takeover and each other, each under many orders."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias, cast

from pullcord.core.commands import Answer, Cancel, Pause, Redirect, Resume
from pullcord.core.events import (
    Blocked,
    ChildBorn,
    Created,
    QuestionAsked,
    StepFinished,
    StepStarted,
)
from pullcord.journal.rules.ledger import Append
from pullcord.runtime.ownership import Ownership
from tests.races.scheduled_journals import TTL_S, Driver, Effect, ScheduledJournals

Story: TypeAlias = Callable[[ScheduledJournals], Coroutine[Any, Any, None]]


async def cancel_against_completion(scheduled: ScheduledJournals) -> None:
    owner, person = scheduled.process(), scheduled.process()
    await owner.create("r1")
    await scheduled.together(
        owner.drive("r1", 1),
        person.press("r1", Cancel(by="ana", key="k1")),
        person.look("r1"),
    )


async def pause_resume_and_cancel_from_three_people(scheduled: ScheduledJournals) -> None:
    owner, ana, bo = scheduled.process(), scheduled.process(), scheduled.process()
    await owner.create("r1")

    async def pause_then_resume() -> None:
        await ana.press("r1", Pause(by="ana"))
        await ana.press("r1", Resume(by="ana", instruction="be brief"))
        await ana.drive("r1", 2)

    await scheduled.together(
        owner.drive("r1", 2),
        pause_then_resume(),
        bo.press("r1", Cancel(by="bo", now=True)),
        scheduled.process().press("r1", Pause(by="cy", now=True)),
    )


async def an_answer_that_was_lost_and_asked_for_again(scheduled: ScheduledJournals) -> None:
    owner, ana, bo = scheduled.process(), scheduled.process(), scheduled.process()
    await owner.create("r1")
    await scheduled.together(
        owner.drive("r1", 1),
        ana.press("r1", Cancel(by="ana", key="k1"), resend=True),
        bo.press("r1", Pause(by="bo", key="k2"), resend=True),
        bo.press("r1", Redirect(by="cy", key="k3", instruction="faster"), resend=True),
        ana.look("r1"),
    )


async def a_frozen_owner_and_its_successor(scheduled: ScheduledJournals) -> None:
    first, second, person = scheduled.process(), scheduled.process(), scheduled.process()
    await first.create("r1")

    async def take_over() -> None:
        await scheduled.loop.elsewhere()
        scheduled.clock.advance(TTL_S)
        await second.drive("r1", 2)

    await scheduled.together(
        first.drive("r1", 2), take_over(), person.press("r1", Cancel(by="ana")), person.look("r1")
    )


async def a_run_handed_to_two_workers(scheduled: ScheduledJournals) -> None:
    """A delivery does not confer ownership."""
    workers = [scheduled.process() for _ in range(3)]
    await workers[0].create("r1")
    await scheduled.together(*(worker.drive("r1", 2) for worker in workers))
    await scheduled.process().drive("r1", 2)


async def an_owner_that_dies_while_pausing(scheduled: ScheduledJournals) -> None:
    first, second, person = scheduled.process(), scheduled.process(), scheduled.process()
    await first.create("r1")

    async def die_and_take_over() -> None:
        await scheduled.loop.elsewhere()
        first.die()
        await scheduled.loop.elsewhere()
        scheduled.clock.advance(TTL_S)
        await second.drive("r1", 2)
        await person.press("r1", Resume(by="bo"))
        await second.drive("r1", 2)

    await scheduled.together(
        first.drive("r1", 2), die_and_take_over(), person.press("r1", Pause(by="ana"))
    )


async def instructions_while_it_works(scheduled: ScheduledJournals) -> None:
    owner, ana, bo = scheduled.process(), scheduled.process(), scheduled.process()
    await owner.create("r1")

    async def two() -> None:
        await ana.press("r1", Redirect(by="ana", instruction="one", key="i1"))
        await ana.press("r1", Redirect(by="ana", instruction="two", key="i2"), resend=True)

    await scheduled.together(
        owner.drive("r1", 3), two(), bo.press("r1", Redirect(by="bo", instruction="three"))
    )


async def text_while_people_pause_and_cancel(scheduled: ScheduledJournals) -> None:
    owner, ana, bo = scheduled.process(), scheduled.process(), scheduled.process()
    await owner.create("r1")
    await scheduled.together(
        owner.drive("r1", 1, text=True),
        ana.press("r1", Pause(by="ana")),
        bo.press("r1", Cancel(by="bo")),
    )


async def a_child_born_while_its_parent_is_cancelled(scheduled: ScheduledJournals) -> None:
    owner, worker, person = scheduled.process(), scheduled.process(), scheduled.process()
    await owner.create("r1")

    async def spawn() -> None:
        claim = await owner.journal.acquire("r1", owner="w", ttl_s=TTL_S)
        if claim is None:
            return
        mine = Ownership(owner.journal, claim)
        created = Created(agent="churn", thread="t1", parent="r1")
        child = Append(run_id="c1", events=[created], expected_seq=0)
        if await mine.record(ChildBorn(child="c1"), child):
            await child_works()
        await Driver(owner, mine).settle()

    async def child_works() -> None:
        claim = await worker.journal.acquire("c1", owner="w", ttl_s=TTL_S)
        if claim is not None:
            await Driver(worker, Ownership(worker.journal, claim)).settle()

    await scheduled.together(spawn(), person.press("r1", Cancel(by="ana")), person.look("r1"))


async def two_answers_and_a_cancel(scheduled: ScheduledJournals) -> None:
    owner, ana, bo = scheduled.process(), scheduled.process(), scheduled.process()
    await owner.create("r1")
    claim = await owner.journal.acquire("r1", owner="w", ttl_s=TTL_S)
    assert claim is not None
    mine = Ownership(owner.journal, claim)
    await mine.record(QuestionAsked(question="q1", kind="approval"))

    async def block_and_go_on() -> None:
        scheduled.given_back.add(("r1", mine.lease.epoch))
        if not await mine.record(Blocked(seen_seq=mine.run.seq), release=True):
            await owner.journal.release(mine.lease)  # answered before it began to wait
        await owner.drive("r1", 1)

    await scheduled.together(
        block_and_go_on(),
        ana.press("r1", Answer(by="ana", question="q1", key="a1")),
        bo.press("r1", Answer(by="bo", question="q1")),
        bo.press("r1", Cancel(by="cy")),
    )


async def a_task_that_is_cancelled_while_it_writes(scheduled: ScheduledJournals) -> None:
    """Task.cancel() is an effector that may land anywhere, also inside a write to the journal."""
    owner, person = scheduled.process(), scheduled.process()
    await owner.create("r1")
    claim = await owner.journal.acquire("r1", owner="w", ttl_s=TTL_S)
    assert claim is not None
    driver = Driver(owner, Ownership(owner.journal, claim))

    async def work() -> None:
        effect = Effect("r1", "s0", 1, 0)
        try:
            if await driver.record(StepStarted(step="s0", name="s0")):
                effect.began_at = effect.ended_at = (
                    scheduled.tick()
                )  # instant: only writes can be cut
                effect.reported = True
                scheduled.effects.append(effect)
                await driver.record(StepFinished(step="s0"))
            await driver.settle()
        except asyncio.CancelledError:
            cast("asyncio.Task[None]", asyncio.current_task()).uncancel()
            await driver.mine.catch_up()
            if effect.began_at and "s0" in driver.mine.run.open_steps():
                await driver.record(StepFinished(step="s0"))
            await driver.settle()

    async def cut() -> None:
        await person.press("r1", Cancel(by="ana"))
        task.cancel()

    task = cast("asyncio.Task[None]", scheduled.loop.create_task(work()))
    await scheduled.together(cut(), person.look("r1"))
    await asyncio.wait((task,))
    if not task.cancelled():  # else it was cut before its first line
        task.result()


async def everything_at_once(scheduled: ScheduledJournals) -> None:
    first, second = scheduled.process(), scheduled.process()
    ana, bo = scheduled.process(), scheduled.process()
    await first.create("r1")

    async def chaos() -> None:
        await scheduled.loop.elsewhere()
        first.die()
        scheduled.clock.advance(TTL_S)
        await second.drive("r1", 2, text=True)
        await ana.press("r1", Resume(by="ana"))
        await second.drive("r1", 2)

    await scheduled.together(
        first.drive("r1", 2),
        chaos(),
        ana.press("r1", Pause(by="ana", key="p1"), resend=True),
        bo.press("r1", Redirect(by="bo", instruction="other way", key="i1")),
        bo.press("r1", Cancel(by="bo", key="c1"), resend=True),
        bo.look("r1"),
    )


async def the_same_process_loses_and_regains_a_run(scheduled: ScheduledJournals) -> None:
    first, second, person = scheduled.process(), scheduled.process(), scheduled.process()
    await first.create("r1")

    async def ping_pong() -> None:
        for process in (second, first, second):
            await scheduled.loop.elsewhere()
            scheduled.clock.advance(TTL_S)
            await process.drive("r1", 3)

    await scheduled.together(
        first.drive("r1", 3), ping_pong(), person.press("r1", Pause(by="ana")),
        person.press("r1", Resume(by="bo")),
    )  # fmt: skip


STORIES: Final[tuple[Story, ...]] = (
    cancel_against_completion,
    pause_resume_and_cancel_from_three_people,
    an_answer_that_was_lost_and_asked_for_again,
    a_frozen_owner_and_its_successor,
    a_run_handed_to_two_workers,
    an_owner_that_dies_while_pausing,
    instructions_while_it_works,
    text_while_people_pause_and_cancel,
    a_child_born_while_its_parent_is_cancelled,
    two_answers_and_a_cancel,
    a_task_that_is_cancelled_while_it_writes,
    everything_at_once,
    the_same_process_loses_and_regains_a_run,
)
