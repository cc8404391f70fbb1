"""Every state a run can be seen in, each brought about for real."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pullcord
from pullcord import RunHandle, RunState, Timing
from pullcord.core.events import QuestionAsked
from pullcord.limits import MaxSteps
from tests.agents.provider.fake import FakeProvider
from tests.agents.provider.reply import say
from tests.runs.observed_runs import seen, shown
from tests.web.restartable_server import RestartableServer, restartable_server
from tests.web.staff import Staff
from tests.web.talking import talker

ANSWER: Final = (
    "Three things stand out. First, churn among customers on yearly plans has doubled since May; "
    "second, almost all of it is in the EU; third, whoever opened a ticket in their first week "
    "stays nine times out of ten. "
)


class RunsInEachState:
    """A server on which each state is a run away."""

    def __init__(self, here: RestartableServer, staff: Staff, provider: FakeProvider) -> None:
        self.here, self.staff, self.provider = here, staff, provider
        self._threads = 0

    async def bring(self, state: str) -> RunHandle:
        """A run in this state."""
        return await STATES[state](self)

    async def running(self) -> RunHandle:
        self._threads += 1
        thread = f"q3-churn-{self._threads}"
        run = await self.here.start("report", thread=thread, limits=MaxSteps(40))
        await self.staff.at_it.wait()
        self.staff.at_it.clear()
        self.staff.says(ANSWER)
        await shown(run, "nine times out of ten")
        return run

    async def redirected(self) -> RunHandle:
        run = await self.running()
        await run.redirect("Write summary memo, EU customers only", by="ana")
        return run

    async def pausing(self) -> RunHandle:
        self.provider.script = [say(ANSWER * 3, stall_after=40)]
        run = await self.here.start("talker", "What does the churn of Q3 look like?")
        await shown(run, "stand out")
        await run.pause(by="ana", reason="check the join first")
        return run

    async def paused(self) -> RunHandle:
        run = await self.redirected()
        await run.pause(by="ana", reason="check the join first")
        await run.wait_for(RunState.PAUSED)
        return run

    async def out_of_budget(self) -> RunHandle:
        run = await self.here.start("spender", limits=MaxSteps(2), on_exhausted="pause_and_ask")
        await run.wait_for(RunState.PAUSED)
        return run

    async def approval(self) -> RunHandle:
        self.staff.mail_words = "The customer asked for it twice, so I would like to write to her."
        run = await self.here.start("mail")
        await run.wait_for(RunState.WAITING)
        return run

    async def question(self) -> RunHandle:
        run = await self.here.start("asker")
        await run.wait_for(RunState.WAITING)
        return run

    async def cancelling(self) -> RunHandle:
        run = await self.here.start("slow_undo")
        await seen(run, QuestionAsked)
        await run.cancel(by="ana", reason="wrong path")
        await self.staff.undoing.wait()
        return run

    async def cancelled(self) -> RunHandle:
        run = await self.running()
        await run.cancel(by="ana", reason="wrong path")
        await run.wait_for(RunState.CANCELLED)
        return run

    async def completed(self) -> RunHandle:
        run = await self.running()
        self.staff.says("")
        await run.wait_for(RunState.COMPLETED)
        return run

    async def failed(self) -> RunHandle:
        run = await self.here.start("fails")
        await run.wait_for(RunState.FAILED)
        return run

    async def stopped(self) -> RunHandle:
        run = await self.here.start("spender", limits=MaxSteps(3), on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        return run

    async def queued(self) -> RunHandle:
        """Nobody here drives it: its agent is known to another process only."""
        elsewhere = pullcord.open(
            self.here.path, agents={"elsewhere": self.staff.asker}, only="another run"
        )
        async with elsewhere as other:
            run = await other.start("elsewhere")
        return await self.here.runtime.get(run.id)


STATES: Final[dict[str, Callable[[RunsInEachState], Awaitable[RunHandle]]]] = {
    "queued": RunsInEachState.queued,
    "running": RunsInEachState.running,
    "redirected": RunsInEachState.redirected,
    "pausing": RunsInEachState.pausing,
    "paused": RunsInEachState.paused,
    "out_of_budget": RunsInEachState.out_of_budget,
    "approval": RunsInEachState.approval,
    "question": RunsInEachState.question,
    "cancelling": RunsInEachState.cancelling,
    "cancelled": RunsInEachState.cancelled,
    "completed": RunsInEachState.completed,
    "failed": RunsInEachState.failed,
    "stopped": RunsInEachState.stopped,
}


@asynccontextmanager
async def runs_in_each_state(path: Path) -> AsyncGenerator[RunsInEachState]:
    staff = Staff()
    async with talker() as (provider, agent):
        made = restartable_server(
            path,
            bound_s=110,
            timing=Timing(hold_s=600),
            talker=agent,
            report=staff.report,
            mail=staff.mail,
            asker=staff.asker,
            spender=staff.spender,
            fails=staff.fails,
            slow_undo=staff.slow_undo,
        )
        async with made as here:
            try:
                yield RunsInEachState(here, staff, provider)
            finally:
                staff.undo_may_end.set()
                provider.hang_up()
