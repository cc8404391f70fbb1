"""What people and machines do to whole runs, each under many orders."""

from collections.abc import Awaitable, Callable
from typing import Final

from pullcord import RunHandle, RunState
from pullcord.core.states import TERMINAL
from tests.races.scheduled_runtimes import Process, ScheduledRuntimes, Story


async def _at_last(scheduled: ScheduledRuntimes) -> None:
    """Whatever happened: a fresh process goes on, and a patient person sees it through."""
    await (await scheduled.process()).see_through()


async def a_cancel_against_completion(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    run = await owner.start("two")
    await scheduled.together(run.cancel(by="ana"), run.cancel(by="bo", now=True))
    await run.wait_for(*TERMINAL)


async def a_pause_and_a_resume_against_completion(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    run = await owner.start("two")

    async def pause_and_resume() -> None:
        await run.pause(by="ana")
        await run.resume(by="ana", instruction="be brief")

    await scheduled.together(pause_and_resume(), run.pause(by="bo", now=True))
    await owner.see_through()


async def quick_presses(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    run = await owner.start("asks")
    await run.wait_for(RunState.WAITING)
    await run.pause(by="ana")

    async def press() -> None:
        for _ in range(4):
            await run.resume(by="bo")
            for _ in range(scheduled.loop.choose(6)):
                await scheduled.loop.elsewhere()
            await run.pause(by="bo")

    await scheduled.together(press())
    await owner.see_through()


async def a_parked_run_is_resumed(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process(park_after_s=0.0)
    run = await owner.start("parallel")
    await scheduled.together(run.pause(by="ana"), run.resume(by="bo"), run.pause(by="cy"))
    await owner.see_through()


async def redirects_while_a_plan_is_carried_out(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    run = await owner.start("plan")
    await scheduled.together(
        run.redirect("first", by="ana"), run.redirect("second", by="bo"), run.pause(by="cy")
    )
    await owner.see_through()


async def a_tree_is_cancelled_while_children_are_born(scheduled: ScheduledRuntimes) -> None:
    owner, other = await scheduled.process(), await scheduled.process()
    run = await owner.start("family")
    await scheduled.together(run.cancel(by="ana"), other.runtime.get("r1"))
    await run.wait_for(*TERMINAL)


async def a_tree_is_paused_and_resumed(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process(park_after_s=0.0)
    run = await owner.start("family")
    await scheduled.together(run.pause(by="ana"), run.resume(by="bo"))
    await owner.see_through()


async def an_answer_a_redirect_and_a_cancel(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process(park_after_s=0.0)
    run = await owner.start("asks")

    async def answer() -> None:
        for name in (await run.snapshot()).open_questions():
            await run.answer(name, "no", by="ana")

    await scheduled.together(
        answer(), run.redirect("hurry", by="bo"), _maybe(scheduled, run.cancel)
    )
    await owner.see_through()


async def a_shutdown_against_completion(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process(shutdown_grace_s=1.0)
    run = await owner.start("two")
    await scheduled.together(owner.leave(), run.pause(by="ana"))
    await _at_last(scheduled)


async def a_shutdown_while_it_asks(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process(shutdown_grace_s=1.0)
    run = await owner.start("asks")
    await scheduled.together(owner.leave(), run.redirect("x", by="ana"), run.pause(by="ana"))
    await _at_last(scheduled)


async def an_owner_dies_and_another_takes_over(scheduled: ScheduledRuntimes) -> None:
    owner, other = await scheduled.process(), await scheduled.process()
    run = await other.start("two")

    async def die() -> None:
        owner.die()

    await scheduled.together(die(), run.cancel(by="ana"), run.pause(by="bo"))
    await other.see_through()


async def an_owner_dies_in_the_middle_of_a_step(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    await owner.start("toils")
    await scheduled.together(_death_of(owner))
    await _at_last(scheduled)


async def a_cancel_takes_drafts_back(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    run = await owner.start("drafts")
    await scheduled.together(
        run.cancel(by="ana"), run.cancel(by="bo", now=True), run.pause(by="cy")
    )
    await run.wait_for(*TERMINAL)


async def a_shutdown_while_drafts_are_taken_back(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process(shutdown_grace_s=1.0)
    run = await owner.start("drafts")
    await scheduled.together(run.cancel(by="ana"), owner.leave())
    await _at_last(scheduled)


async def an_owner_dies_while_drafts_are_taken_back(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    run = await owner.start("drafts")

    async def cancel_and_die() -> None:
        await run.cancel(by="ana")
        await scheduled.together(_death_of(owner))

    await scheduled.together(cancel_and_die())
    await _at_last(scheduled)


async def two_approvals_and_a_cancel(scheduled: ScheduledRuntimes) -> None:
    owner, other = await scheduled.process(park_after_s=0.0), await scheduled.process()
    run = await owner.start("pays")

    async def say(yes: bool, process: Process) -> None:
        handle = await process.runtime.get("r1")
        for name in (await handle.snapshot()).open_questions():
            await (handle.approve(name, by="ana") if yes else handle.deny(name, by="bo"))

    await scheduled.together(say(True, owner), say(False, other), _maybe(scheduled, run.cancel))
    await other.see_through()


async def _death_of(process: Process) -> None:
    process.die()


async def an_owner_dies_with_children(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    await owner.start("family")

    async def die() -> None:
        owner.die()

    await scheduled.together(die())
    await _at_last(scheduled)


async def two_runtimes_and_many_resumes(scheduled: ScheduledRuntimes) -> None:
    one, two = await scheduled.process(park_after_s=0.0), await scheduled.process()
    run = await one.start("two")
    await run.pause(by="ana")

    async def resume(process: Process) -> None:
        handle: RunHandle = await process.runtime.get("r1")
        await handle.resume(by="ana")

    await scheduled.together(*(resume(process) for process in (one, two, one, two)))
    await two.see_through()


async def text_is_paused_and_cancelled(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process(park_after_s=0.0)
    run = await owner.start("talks")
    await scheduled.together(
        run.pause(by="ana"), run.resume(by="ana"), _maybe(scheduled, run.cancel)
    )
    await owner.see_through()


async def a_fork_of_a_living_run(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    run = await owner.start("two")
    await scheduled.together(run.fork(by="ana"), run.cancel(by="bo"))
    await owner.see_through()


async def a_sleeper_is_paused(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process(park_after_s=0.0)
    run = await owner.start("sleeps")
    await scheduled.together(run.pause(by="ana"), run.resume(by="ana"))
    await owner.see_through()


async def runs_on_one_thread(scheduled: ScheduledRuntimes) -> None:
    owner = await scheduled.process()
    first = await owner.start("two", thread="t")
    await scheduled.together(
        owner.start("two", "r2", thread="t", if_busy="queue"), first.cancel(by="ana")
    )
    await owner.see_through()


async def _maybe(scheduled: ScheduledRuntimes, act: Callable[..., Awaitable[object]]) -> None:
    if scheduled.loop.choose(2):
        await act(by="cy")


RUN_STORIES: Final[tuple[Story, ...]] = (
    a_cancel_against_completion,
    a_pause_and_a_resume_against_completion,
    quick_presses,
    a_parked_run_is_resumed,
    redirects_while_a_plan_is_carried_out,
    a_tree_is_cancelled_while_children_are_born,
    a_tree_is_paused_and_resumed,
    an_answer_a_redirect_and_a_cancel,
    a_shutdown_against_completion,
    a_shutdown_while_it_asks,
    an_owner_dies_and_another_takes_over,
    an_owner_dies_with_children,
    an_owner_dies_in_the_middle_of_a_step,
    a_cancel_takes_drafts_back,
    a_shutdown_while_drafts_are_taken_back,
    an_owner_dies_while_drafts_are_taken_back,
    two_approvals_and_a_cancel,
    two_runtimes_and_many_resumes,
    text_is_paused_and_cancelled,
    a_fork_of_a_living_run,
    a_sleeper_is_paused,
    runs_on_one_thread,
)
