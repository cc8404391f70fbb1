"""How a run ended, for whoever asked it for a result."""

from typing import Any

from pullcord.core.events import Completed, Stopped
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.values import NULL, load
from pullcord.errors import NotReached, RunCancelled, RunFailed, RunForgotten, RunStopped
from pullcord.journal.journal import Journal


async def result_of(journal: Journal, run_id: str) -> Any:
    """Return the result of a run that has completed, or the last word of one that was stopped.

    Raises:
        RunFailed, RunCancelled, RunStopped: it ended otherwise.
        NotReached: it has not ended.
        RunForgotten: it has, and how is not known any more.
    """
    run = await journal.load(run_id)
    if run.forgotten:
        raise RunForgotten(run_id, deleted=str(run.forgotten), what="return the result of")
    if run.state in (RunState.COMPLETED, RunState.STOPPED):
        [record] = await journal.read(run_id, after_seq=run.state_seq - 1, limit=1)
        assert isinstance(record.event, Completed | Stopped)
        if isinstance(record.event, Completed) or record.event.result != NULL:
            return load(record.event.result)
    raise no_result(run)


def no_result(run: Run) -> RunFailed | RunCancelled | RunStopped | NotReached:
    if run.state is RunState.STOPPED and run.reached is not None:
        return RunStopped(run.id, leaves=run.reached.leaves)
    if run.state is RunState.FAILED:
        return RunFailed(run.id, error=run.error)
    if run.cancel is not None:
        return RunCancelled(run.id, by=run.cancel.by, reason=run.cancel.reason)
    return NotReached(run.id, wanted=RunState.COMPLETED, state=run.state)
