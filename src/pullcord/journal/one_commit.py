"""Jobs that came at the same time share one commit, where a store has one writer at a time."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from pullcord.errors import PullcordError
from pullcord.journal.store import Job, Outcome, Transaction

T = TypeVar("T")


class _Write(Protocol):
    def __call__(self, job: Callable[[Transaction], T]) -> T: ...


def in_one_commit(write: _Write, jobs: Sequence[Job]) -> list[Outcome]:
    """Run every job in one transaction, or each in its own if one fails in a way that may concern
    the others. One that is refused has left no trace: it is refused before it writes a row."""

    def each(tx: Transaction) -> list[Outcome]:
        return [_carried_out(tx, job) for job in jobs]

    if len(jobs) == 1:
        return [alone(write, jobs[0])]
    try:
        return write(each)
    except Trouble:
        return [alone(write, job) for job in jobs]
    except BaseException as error:
        # Not durable, or not known to be: nobody of them may be told otherwise, not even those
        # whose refusal was decided on what the others had written.
        return [Outcome(error=error) for _ in jobs]


def alone(write: _Write, job: Job) -> Outcome:
    """Run one job in a transaction of its own."""
    try:
        return Outcome(write(job))
    except BaseException as error:
        return Outcome(error=error)


def _carried_out(tx: Transaction, job: Job) -> Outcome:
    before = tx.written()
    try:
        return Outcome(job(tx))
    except Exception as error:
        if not isinstance(error, PullcordError) or tx.written() != before:
            raise Trouble from error
        return Outcome(error=error)


class Trouble(Exception):
    """A job failed in a way that may concern the others of its commit."""
