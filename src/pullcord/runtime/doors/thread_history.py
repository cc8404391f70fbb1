"""What was said and done on a thread before: the context of the next run on it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from pullcord.core.events import (
    Completed,
    Created,
    DoubtSettled,
    Record,
    StepFinished,
    StepStarted,
    StepUndone,
    Stopped,
    TextEnded,
)
from pullcord.core.fold import replay
from pullcord.core.run import Run
from pullcord.core.states import TERMINAL
from pullcord.core.values import load
from pullcord.journal.journal import Journal

_PAGE = 200


class Said(msgspec.Struct, frozen=True):
    """A piece of text. `partial`: it was cut before it was complete."""

    text: str
    partial: bool = False


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One earlier run on the thread: what it was given, what it said, what it finished."""

    run_id: str
    agent: str
    state: str
    input: Any = None
    said: tuple[Said, ...] = ()
    done: tuple[tuple[str, Any], ...] = ()  # step name and result, in the order they finished
    result: Any = None
    error: str = ""
    forgotten: str = ""  # when, by whom and why all of that was deleted


async def history(journal: Journal, thread: str, *, before: Run) -> list[Turn]:
    """Return the turns on this thread before a run, oldest first; of a fork, those before the run
    it goes on from, too. Quarantined runs are not in it, nor partial text nobody wanted kept."""
    assert thread == before.thread
    return [
        turn_of(replay(records[0].run_id, records), records)
        for records in await earlier_runs(journal, before)
    ]


async def earlier_runs(journal: Journal, before: Run) -> list[list[Record]]:
    """The records of the runs on its thread before this one, oldest first."""
    runs: list[list[Record]] = []
    if before.forked_from is not None:
        source = await journal.load(before.forked_from)
        if source.thread != before.thread:
            runs += await earlier_runs(journal, source)
    found: list[str] = []
    cursor: str | None = before.id
    while cursor is not None:
        page = await journal.runs(thread=before.thread, states=TERMINAL, before=cursor, limit=_PAGE)
        found += [head.run_id for head in page if head.parent is None]
        cursor = page[-1].run_id if len(page) == _PAGE else None
    for run_id in reversed(found):
        records = await journal.read(run_id)
        run = replay(run_id, records)
        if not run.is_quarantined:
            runs.append(records)
    return runs


def turn_of(run: Run, records: Sequence[Record]) -> Turn:
    if run.forgotten:
        gone = f"Its {run.forgotten}."
        return Turn(run_id=run.id, agent=run.agent, state=run.state, forgotten=gone)
    keep_partial = run.cancel is None or run.cancel.keep_partial
    names: dict[str, str] = {}
    given: Any = None
    result: Any = None
    said: list[Said] = []
    done: dict[str, tuple[str, Any]] = {}
    for record in records:
        match record.event:
            case Created() as created:
                given = load(created.input)
            case StepStarted() as started:
                names[started.step] = started.name
            case StepFinished() as finished:
                done[finished.step] = names[finished.step], load(finished.result)
            case DoubtSettled(choice="happened") as settled:
                done[settled.step] = names[settled.step], load(settled.result)
            case StepUndone() as undone:
                done.pop(undone.step, None)
            case TextEnded(step="") as ended:
                if ended.complete or (keep_partial and ended.text):
                    said.append(Said(ended.text, partial=not ended.complete))
            case Completed() | Stopped() as ended:
                result = load(ended.result)
            case _:
                pass
    return Turn(
        run_id=run.id,
        agent=run.agent,
        state=run.state,
        input=given,
        said=tuple(said),
        done=tuple(done.values()),
        result=result,
        error=run.error,
    )
