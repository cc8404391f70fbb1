"""Races that take machines which do not wait for each other: each story needs a store whose
writers validate what they have read, and no global lock puts them in order.
"""

import asyncio
from typing import Any, Final

from pullcord.core.commands import Cancel, Forget, Pause, Redirect, Resume
from pullcord.core.conditions import Tokens
from pullcord.core.events import (
    Blocked,
    Cancelled,
    ChildBorn,
    Completed,
    Created,
    Event,
    Paused,
    StepFinished,
    StepStarted,
)
from pullcord.core.limits import Limits, Reserve
from pullcord.core.states import TERMINAL, RunState
from pullcord.core.values import dump
from pullcord.errors import (
    BudgetBusy,
    Conflict,
    Fenced,
    ImpossibleEvent,
    PullcordError,
    RunForgotten,
    ThreadBusy,
)
from pullcord.journal.rules.ledger import Append
from pullcord.journal.store import Transaction
from pullcord.killswitch.flags import Flag, Raised, Scope
from pullcord.runtime.ownership import Ownership
from pullcord.testing import ManualClock
from tests.races.scheduled_journals import OWNER, TTL_S, Process, ScheduledJournals
from tests.races.stories import Story

BUDGET: Final = 100
ALONE: Final = "alone"  # who starts a run that is to be alone on its thread
_TRIES: Final = 6


async def two_owners_in_one_tree(scheduled: ScheduledJournals) -> None:
    """The parent's owner writes while the child's owner, elsewhere, writes and ends."""
    above, below, person = scheduled.process(), scheduled.process(), scheduled.process()
    mine = await _family(above, "c1")
    await scheduled.together(
        _work(mine, 3), _work_as_child(below, "c1", 2), person.look("r1"), person.look("c1")
    )


async def a_parents_cancel_against_a_childs_step(scheduled: ScheduledJournals) -> None:
    above, below, person = scheduled.process(), scheduled.process(), scheduled.process()
    mine = await _family(above, "c1", "c2")
    await scheduled.together(
        _work(mine, 1),
        _work_as_child(below, "c1", 2),
        _work_as_child(scheduled.process(), "c2", 1),
        person.press("r1", Cancel(by="ana", key="k1"), resend=True),
        scheduled.process().press("c1", Cancel(by="bo")),
    )


async def a_parent_is_paused_and_resumed_while_its_child_works(
    scheduled: ScheduledJournals,
) -> None:
    above, below, person = scheduled.process(), scheduled.process(), scheduled.process()
    mine = await _family(above, "c1")

    async def pause_and_resume() -> None:
        await person.press("r1", Pause(by="ana", key="p1"), resend=True)
        await person.press("r1", Resume(by="ana", key="p2"), resend=True)
        await scheduled.process().press("r1", Cancel(by="bo", key="c1"))

    await scheduled.together(_work(mine, 2), _work_as_child(below, "c1", 3), pause_and_resume())


async def children_are_born_while_their_parent_is_stopped(scheduled: ScheduledJournals) -> None:
    """Whoever stops it has locked the family, as it was a moment ago."""
    above, below, person = scheduled.process(), scheduled.process(), scheduled.process()
    mine, child = await _family(above, "c1"), await _owned(below, "c1")

    async def beget(parent: Ownership, *names: str) -> None:
        for name in names:
            created = Created(agent="churn", thread="t1", parent=parent.run.id)
            born = Append(run_id=name, events=[created], expected_seq=0)
            if await parent.record(ChildBorn(child=name), born):
                await _work_as_child(scheduled.process(), name, 1)
        await _work(parent, 0)

    async def pause_resume_and_cancel() -> None:
        await person.press("r1", Pause(by="ana"))
        await person.press("r1", Resume(by="ana"))
        await person.press("r1", Cancel(by="ana"))

    await scheduled.together(
        beget(mine, "c2", "c3"), beget(child, "d1", "d2"), pause_resume_and_cancel()
    )


async def one_budget_on_two_machines(scheduled: ScheduledJournals) -> None:
    """Each step may cost all of it: two at a time would be one too many."""
    machines = [scheduled.process() for _ in range(2)]
    await _family(scheduled.process(), "c1", "c2", limits=Limits(Tokens(BUDGET)))

    async def spend(process: Process, run_id: str) -> None:
        claim = await process.journal.acquire(run_id, owner=OWNER, ttl_s=TTL_S)
        assert claim is not None
        mine = Ownership(process.journal, claim)
        for number in range(2):
            step = f"s{number}"
            intent = StepStarted(step=step, name=step, reserve=Reserve(tokens=BUDGET))
            for _ in range(_TRIES):
                try:
                    if await mine.record(intent):
                        await scheduled.loop.elsewhere()
                        await mine.record(StepFinished(step=step))
                    break
                except BudgetBusy:
                    await scheduled.loop.elsewhere()

    await scheduled.together(spend(machines[0], "c1"), spend(machines[1], "c2"))


async def a_claim_against_a_claim(scheduled: ScheduledJournals) -> None:
    """Of two runs on one thread only the elder is to be had, until it ends or is given back."""
    workers = [scheduled.process() for _ in range(3)]
    await workers[0].create("r1")
    await workers[1].create("r2")

    async def both(worker: Process) -> None:
        for run_id in ("r2", "r1", "r2"):
            await worker.drive(run_id, 1)

    async def time_passes() -> None:
        await scheduled.loop.elsewhere()
        scheduled.clock.advance(TTL_S)

    await scheduled.together(
        *(both(worker) for worker in workers),
        time_passes(),
        scheduled.process().press("r1", Cancel(by="ana")),
    )


async def alone_against_alone(scheduled: ScheduledJournals) -> None:
    """Several want to be the only run of a thread, on which one is just ending."""
    first, second, third = scheduled.process(), scheduled.process(), scheduled.process()
    await first.create("r1")
    await scheduled.together(
        first.drive("r1", 0),
        _start_alone(second, "a1", "a2"),
        _start_alone(third, "b1", "b2"),
        first.press("r1", Pause(by="ana")),
    )


async def a_control_of_a_busy_owner(scheduled: ScheduledJournals) -> None:
    """The owner writes as fast as it can. Nobody who presses a button is put off."""
    owner, ana, bo = scheduled.process(), scheduled.process(), scheduled.process()
    await owner.create("r1")

    async def told_once_each() -> None:
        for number in range(3):
            before = ana.put_off()
            await ana.press("r1", Redirect(by="ana", instruction="more", key=f"i{number}"))
            scheduled.put_off.append(ana.put_off() - before)

    await scheduled.together(
        owner.drive("r1", 9, text=True), told_once_each(), bo.press("r1", Pause(by="bo"))
    )


async def a_control_of_a_busy_family(scheduled: ScheduledJournals) -> None:
    """The same of a family, each run of which has an owner of its own."""
    above, ana = scheduled.process(), scheduled.process()
    mine = await _family(above, "c1", "c2")
    below = [await _owned(scheduled.process(), name) for name in ("c1", "c2")]

    async def told_once_each() -> None:
        for command in (Pause(by="ana"), Resume(by="ana"), Cancel(by="ana")):
            before = ana.put_off()
            await ana.press("r1", command)
            scheduled.put_off.append(ana.put_off() - before)

    await scheduled.together(
        _work(mine, 3), *(_work(child, 3) for child in below), told_once_each()
    )


async def one_key_from_two_machines(scheduled: ScheduledJournals) -> None:
    """An answer got lost, and somebody asks again through another machine."""
    owner = scheduled.process()
    await owner.create("r1")
    again = Redirect(by="ana", instruction="faster", key="k1")
    people = [scheduled.process() for _ in range(3)]
    await scheduled.together(
        owner.drive("r1", 2), *(person.press("r1", again, resend=True) for person in people)
    )


async def several_jobs_of_one_process_at_once(scheduled: ScheduledJournals) -> None:
    """They share a commit. Others write to some of the runs that these have read."""
    here, there, ana = scheduled.process(), scheduled.process(), scheduled.process()
    mine = await _family(here, "c1", "c2")
    children = [await _owned(here, name) for name in ("c1", "c2")]
    await here.create("other", thread="t2")
    other = await _owned(here, "other")

    async def at_once() -> None:
        await asyncio.gather(
            _work(children[0], 1),
            _work(mine, 2),
            _work(children[1], 1),
            _work(other, 2),
            here.press("r1", Redirect(by="bo", instruction="that way", key="k1")),
            here.press("other", Redirect(by="bo", instruction="that way", key="k2")),
        )

    async def pause_and_resume() -> None:
        await there.press("c1", Pause(by="ana"))
        await there.press("c1", Resume(by="ana"))

    await scheduled.together(
        at_once(),
        pause_and_resume(),
        ana.press("other", Redirect(by="cy", instruction="this way", key="k3"), resend=True),
        ana.press("r1", Redirect(by="cy", instruction="this way", key="k4")),
    )


async def a_child_ends_while_its_parent_begins_to_wait(scheduled: ScheduledJournals) -> None:
    """One process has both, and both write at once. Others have a word to say to the child."""
    here, there = scheduled.process(), scheduled.process()
    mine = await _family(here, "c1")
    child = await _owned(here, "c1")

    async def wait_for_it() -> None:
        if await mine.record(Blocked(seen_seq=mine.run.seq), release=True):
            scheduled.given_back.add(("r1", mine.lease.epoch))
        await _work(mine, 0)

    async def end_it() -> None:
        await there.press("c1", Redirect(by="ana", instruction="be brief"))
        await child.catch_up()
        await asyncio.gather(_work(child, 0), wait_for_it())

    await scheduled.together(
        end_it(), scheduled.process().press("c1", Redirect(by="bo", instruction="be exact"))
    )


async def a_batch_in_which_a_thread_gets_free(scheduled: ScheduledJournals) -> None:
    """One job ends a run, another takes its place, and somebody else has a word to say."""
    here, there = scheduled.process(), scheduled.process()
    await here.create("r1")
    mine = await _owned(here, "r1")

    async def at_once() -> None:
        end = Append(
            run_id="r1", events=[Completed()], expected_seq=mine.run.seq, epoch=mine.lease.epoch
        )
        await asyncio.gather(
            _if_not_overtaken(here, end), _start_alone(here, "a1"), here.look("r1", 1)
        )

    await scheduled.together(
        at_once(),
        there.press("r1", Redirect(by="ana", instruction="not yet", key="k1")),
        _start_alone(scheduled.process(), "b1"),
    )


async def a_batch_with_a_job_that_fails(scheduled: ScheduledJournals) -> None:
    """It has written when it fails. What it wrote is nobody's: not the next job's either."""
    here, there = scheduled.process(), scheduled.process()
    await here.create("r1")
    await here.create("r2", thread="t2")
    first, second = await _owned(here, "r1"), await _owned(here, "r2")

    async def fail() -> None:
        step = StepStarted(step="x", name="x")
        mine = Append(
            run_id="r2", events=[step], expected_seq=second.run.seq, epoch=second.lease.epoch
        )
        taken = Append(run_id="r1", events=[Created(agent="churn", thread="t1")], expected_seq=0)
        try:
            await here.journal.append(mine, taken)
        except Conflict:
            return
        raise AssertionError("one run was created twice")

    async def at_once() -> None:
        await asyncio.gather(
            first.record(StepStarted(step="s", name="s")),
            fail(),
            here.press("r2", Redirect(by="bo", instruction="on", key="k2")),
        )

    await scheduled.together(
        at_once(),
        there.press("r1", Redirect(by="ana", instruction="wait", key="k1")),
        there.press("r1", Pause(by="ana")),
    )


async def a_batch_whose_first_command_was_sent_before(scheduled: ScheduledJournals) -> None:
    """It is refused for the sake of its second job; meanwhile another machine gets the first."""
    here, there = scheduled.process(), scheduled.process()
    await here.create("r1", thread="t2")
    sent = Redirect(by="ana", instruction="once", key="k1")

    async def at_once() -> None:
        await asyncio.gather(_start_alone(here, "a1"), here.press("r1", sent))

    await scheduled.together(
        at_once(), there.press("r1", sent), _start_alone(scheduled.process(), "b1")
    )


async def a_fork_against_forgetting(scheduled: ScheduledJournals) -> None:
    """What a living run goes on from is not forgotten, and nothing goes on from what is."""
    here, there, ana = scheduled.process(), scheduled.process(), scheduled.process()
    await here.create("r1")
    await here.drive("r1", 0)

    async def fork() -> None:
        made = Created(agent="churn", thread="t2", forked_from="r1", forked_at=2)
        try:
            await there.journal.append(Append(run_id="f1", events=[made], expected_seq=0))
        except RunForgotten:
            return

    await scheduled.together(
        fork(), ana.journal.retention.forget("r1", Forget(by="ana")), ana.look("f1", 0)
    )


async def a_start_on_a_thread_against_forgetting(scheduled: ScheduledJournals) -> None:
    """The same for a run that only begins on the same thread."""
    here, there, ana = scheduled.process(), scheduled.process(), scheduled.process()
    await here.create("r1")
    await here.drive("r1", 0)
    await scheduled.together(
        there.create("r2"), ana.journal.retention.forget("r1", Forget(by="ana"))
    )


async def heartbeats_beside_the_work(scheduled: ScheduledJournals) -> None:
    """One process holds two runs on while it works on them. One of them is taken over."""
    here, there = scheduled.process(), scheduled.process()
    await here.create("r1")
    await here.create("r2", thread="t2")
    owned = [await _owned(here, run_id) for run_id in ("r1", "r2")]

    async def beat() -> None:
        leases = [mine.lease for mine in owned]
        while leases:
            gone = await here.journal.renew(*leases, ttl_s=TTL_S)
            await scheduled.loop.elsewhere()
            heads = [await here.journal.head(lease.run_id) for lease in leases]
            over = {head.run_id for head in heads if head.state in TERMINAL}
            leases = [one for one in leases if one not in gone and one.run_id not in over]

    async def work(mine: Ownership) -> None:
        try:
            await _work(mine, 2)
        except Fenced:
            return

    async def take_over() -> None:
        scheduled.clock.advance(TTL_S)
        await there.drive("r1", 2)

    await scheduled.together(
        beat(),
        *(work(mine) for mine in owned),
        take_over(),
        there.press("r2", Redirect(by="ana", instruction="faster")),
    )
    await there.drive("r1", 2)


async def one_hook_on_two_machines(scheduled: ScheduledJournals) -> None:
    """One at a time tells a hook, and its place never goes back."""
    tellers: list[str] = []
    told: list[int] = []

    async def tell(process: Process, owner: str) -> None:
        hooks = process.journal.hooks
        await hooks.meet("h", formerly="h0")
        for _ in range(3):
            pos = await hooks.take("h", owner=owner, ttl_s=TTL_S)
            if pos is None:
                continue
            tellers.append(owner)
            scheduled.wrong += [f"hooks: {tellers} tell it"] if len(tellers) > 1 else []
            if not await hooks.move("h", pos + 1, owner=owner, ttl_s=TTL_S):
                scheduled.wrong.append(f"hooks: {owner} has lost it while it was telling")
            tellers.remove(owner)
            told.append(pos)
            await hooks.let_go("h", owner=owner)

    first, second = scheduled.process(), scheduled.process()
    await first.create("r1")
    await scheduled.together(tell(first, "teller-1"), tell(second, "teller-2"), first.create("r2"))
    if sorted(set(told)) != told:
        scheduled.wrong.append(f"hooks: it was told from {told}")


async def the_first_writes_of_a_boot(scheduled: ScheduledJournals) -> None:
    """Wall clocks differ; the clock that never jumps is set once, whoever comes first."""
    here = scheduled.process()
    there = scheduled.process(clock=ManualClock(wall_ms=1_700_000_500_000))

    async def two_at_once(process: Process, *names: str) -> None:
        await asyncio.gather(*(process.create(name) for name in names))

    await scheduled.together(two_at_once(here, "a1", "a2", "a3"), two_at_once(there, "b1", "b2"))


async def a_switch_seen_by_two_machines(scheduled: ScheduledJournals) -> None:
    """The stop log says once that it was engaged, whoever comes first."""
    machines = [scheduled.process() for _ in range(2)]
    await machines[0].create("r1")
    flag = Flag(Scope(), "flag-1", "ana", "", "", 0)
    raised = Raised((flag,), ("",))

    async def note(process: Process) -> None:
        ledger: Any = process.journal._ledger  # pyright: ignore[reportPrivateUsage]

        def engage(tx: Transaction) -> None:
            ledger.engaged(tx, flag, raised)

        await process.writer.write(engage)

    await scheduled.together(*(note(process) for process in machines))


async def _family(process: Process, *children: str, limits: Limits | None = None) -> Ownership:
    """A run and its children, each for whoever claims it; the run itself is the process's."""
    await process.create("r1", limits=limits)
    mine = await _owned(process, "r1")
    for name in children:
        created = Created(agent="churn", thread="t1", parent="r1")
        child = Append(run_id=name, events=[created], expected_seq=0)
        assert await mine.record(ChildBorn(child=name), child)
    return mine


async def _owned(process: Process, run_id: str) -> Ownership:
    claim = await process.journal.acquire(run_id, owner=OWNER, ttl_s=TTL_S)
    assert claim is not None
    return Ownership(process.journal, claim)


async def _work(mine: Ownership, steps: int) -> None:
    """Do so many steps, wait for the children, and come to rest as others want it."""
    loop: Any = asyncio.get_running_loop()
    for number in range(steps):
        step = f"s{number}"
        if not await mine.record(StepStarted(step=step, name=step)):
            break
        await loop.elsewhere()
        await mine.record(StepFinished(step=step, result=dump(step)))
    while not mine.run.ended:
        if not await _comes_to_rest(mine):
            await loop.elsewhere()
        await mine.catch_up()


async def _comes_to_rest(mine: Ownership) -> bool:
    """Whether something was to be done for it now."""
    run = mine.run
    rest: Event
    match run.state:
        case RunState.RUNNING if not run.living_children():
            rest = Completed(result=dump("done"))
        case RunState.CANCELLING if not run.living_children():
            rest = Cancelled()
        case RunState.PAUSING:
            rest = Paused()
        case RunState.QUEUED:
            return await mine.retake(ttl_s=TTL_S, code_version="")
        case _:
            return False
    try:
        return bool(await mine.record(rest))
    except (ImpossibleEvent, Fenced):  # a child was born, or an end by a control
        return False


async def _work_as_child(process: Process, run_id: str, steps: int) -> None:
    claim = await process.journal.acquire(run_id, owner=OWNER, ttl_s=TTL_S)
    if claim is not None:
        await _work(Ownership(process.journal, claim), steps)


async def _start_alone(process: Process, *names: str) -> None:
    """Start one of these, if its thread is free, and end it."""
    for name in names:
        made = Append(
            run_id=name,
            events=[Created(agent="churn", thread="t1", by=ALONE)],
            expected_seq=0,
            alone=True,
        )
        try:
            await process.journal.append(made)
            await process.drive(name, 0)
        except ThreadBusy:
            continue


async def _if_not_overtaken(process: Process, change: Append) -> None:
    try:
        await process.journal.append(change)
    except PullcordError:
        return


MACHINE_STORIES: Final[tuple[Story, ...]] = (
    two_owners_in_one_tree,
    a_parents_cancel_against_a_childs_step,
    a_parent_is_paused_and_resumed_while_its_child_works,
    children_are_born_while_their_parent_is_stopped,
    one_budget_on_two_machines,
    a_claim_against_a_claim,
    alone_against_alone,
    a_control_of_a_busy_owner,
    a_control_of_a_busy_family,
    one_key_from_two_machines,
    several_jobs_of_one_process_at_once,
    a_child_ends_while_its_parent_begins_to_wait,
    a_batch_in_which_a_thread_gets_free,
    a_batch_with_a_job_that_fails,
    a_batch_whose_first_command_was_sent_before,
    a_fork_against_forgetting,
    a_start_on_a_thread_against_forgetting,
    heartbeats_beside_the_work,
    one_hook_on_two_machines,
    the_first_writes_of_a_boot,
    a_switch_seen_by_two_machines,
)
