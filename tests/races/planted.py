"""Bugs planted on purpose, to show that the races find them. Each is one a careful person makes.

Some need the state table's guard out of the way: it is a second line of defence, and would refuse
the wreckage before the first line's absence could be seen.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import pytest

from pullcord.core import admit as admit_module
from pullcord.core import fold as fold_module
from pullcord.core.acks import Ack
from pullcord.core.commands import Command
from pullcord.core.decide import decide
from pullcord.core.events import (
    TAGS,
    Event,
    Record,
    StepFailed,
    StepFinished,
    StepInterrupted,
    StepStarted,
)
from pullcord.core.run import Run, Step
from pullcord.core.states import TABLE, RunState
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules import ledger as ledger_module
from pullcord.journal.rules import live_text as live_module
from pullcord.journal.rules.ledger import Append, Appended, Change, Ledger
from pullcord.journal.store import Head, Transaction
from pullcord.runtime.ownership import Ownership
from pullcord.testing import schedules

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledges_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    async def write(self: Any, job: Callable[[Transaction], Any]) -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, schedules.ScheduleLoop)
        store: Any = self._store
        told: list[Any] = []

        def tried(tx: Transaction) -> None:
            told.append(job(tx))
            raise InterruptedError

        try:
            store.write(tried)
        except InterruptedError:
            pass
        loop.outside(lambda: store.write(job))
        await loop.elsewhere()
        return told[0]

    patch.setattr(schedules.SteppedWriter, "write", write)


def does_not_check_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """Neither the journal nor the owner itself, which looks before it writes."""
    patch.setattr(ledger_module, "licensed", _nothing)
    patch.setattr(Ownership, "check", _nothing)


def completes_without_compare_and_set(patch: pytest.MonkeyPatch) -> None:
    _without_the_table(patch)
    append = Ledger.append

    def blind(self: Ledger, tx: Transaction, change: Append) -> Appended:
        head = tx.head(change.run_id)
        at = head.seq if head else 0
        return append(self, tx, msgspec.structs.replace(change, expected_seq=at))

    patch.setattr(Ledger, "append", blind)


def drops_a_late_result(patch: pytest.MonkeyPatch) -> None:
    def late(known: Step, event: StepFinished | StepFailed) -> tuple[Event, ...]:
        is_open = known.status == "started"
        return (StepInterrupted(step=event.step),) if is_open else ()

    patch.setattr(admit_module, "_late", late)


def takes_a_run_because_it_was_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_module, "is_held", _nothing)


def decides_a_control_before_the_transaction(patch: pytest.MonkeyPatch) -> None:
    _without_the_table(patch)

    async def command(self: Any, run_id: str, command: Command) -> Ack:
        decision = decide(await self.load(run_id), command)

        def write(tx: Transaction) -> Ack:
            head = tx.head(run_id)
            assert head is not None
            seq, state = decision.seq, head.state
            if decision.events:
                ledger: Any = self._ledger
                seq = head.seq + 1
                state = ledger._extend(tx, head, decision.events, epoch=0, holder=head.holder).state
            return Ack(verdict=decision.verdict, seq=seq, state=state)

        return await self._writer.write(write)

    patch.setattr(Journal, "command", command)


def forgets_idempotency_keys(patch: pytest.MonkeyPatch) -> None:
    tables: Any = type(MemoryStore()._tables)  # pyright: ignore[reportPrivateUsage]
    patch.setattr(tables, "ack", _nothing)


def starts_although_it_was_overtaken(patch: pytest.MonkeyPatch) -> None:
    record = Ownership.record

    async def eager(self: Ownership, event: Event, *more: Change, **options: Any) -> list[Event]:
        recorded = await record(self, event, *more, **options)
        return recorded or ([event] if isinstance(event, StepStarted) else [])

    patch.setattr(Ownership, "record", eager)


def accepts_text_after_a_cancel(patch: pytest.MonkeyPatch) -> None:
    open_ears = {state: row._replace(text="shown") for state, row in TABLE.items()}
    patch.setattr(live_module, "TABLE", open_ears)


def writes_a_span_in_two_transactions(patch: pytest.MonkeyPatch) -> None:
    async def append(self: Any, *changes: Change) -> list[Any]:
        results: list[Any] = []
        for change in reversed(changes):

            def write(tx: Transaction, change: Change = change) -> Any:
                return self._ledger.write(tx, [change])

            results += await self._writer.write(write)
        return results[::-1]

    patch.setattr(Journal, "append", append)


def trusts_its_cache(patch: pytest.MonkeyPatch) -> None:
    at = Ledger._at  # pyright: ignore[reportPrivateUsage]

    def stale(self: Any, tx: Transaction, head: Head) -> Run:
        cached = self._cache.get(head.run_id)
        return cached[0] if cached else at(self, tx, head)

    patch.setattr(Ledger, "_at", stale)


def trusts_where_it_left_a_run(patch: pytest.MonkeyPatch) -> None:
    def stale(self: Any, tx: Transaction, run_id: str) -> Head | None:
        head = self._heads.get(run_id) or tx.head(run_id)
        if head is not None:
            self._heads[run_id] = head
        return head

    patch.setattr(Ledger, "_head", stale)


def lets_a_cancellation_hide_what_was_written(patch: pytest.MonkeyPatch) -> None:
    async def settled(answer: Any) -> Any:
        return await answer

    patch.setattr(schedules, "settled", settled)


def decides_a_step_twice(patch: pytest.MonkeyPatch) -> None:
    """An owner that comes back from the dead records its result beside its successor's."""
    does_not_check_the_epoch(patch)
    _without_the_table(patch)
    admit = admit_module.admit

    def lax(run: Run, event: Event) -> tuple[Event, ...]:
        return (event,) if isinstance(event, StepFinished) else admit(run, event)

    def finished(run: Run, event: StepFinished, record: Record) -> None:
        known = run.steps[event.step]
        run.steps[event.step] = msgspec.structs.replace(
            known, status="finished", decided_seq=record.seq
        )

    patch.setattr("pullcord.runtime.ownership.admit", lax)
    patch.setitem(fold_module._EFFECTS, StepFinished, finished)  # pyright: ignore


def _nothing(*_: object) -> None:
    return None


def _without_the_table(patch: pytest.MonkeyPatch) -> None:
    ends = {"completed": RunState.COMPLETED, "cancelled": RunState.CANCELLED}
    lenient = {
        state: row._replace(
            on={tag: row.on.get(tag, ends.get(tag, state)) for tag in TAGS.values()}
        )
        for state, row in TABLE.items()
    }
    patch.setattr(fold_module, "TABLE", lenient)


PLANTED: Final[Sequence[Plant]] = (
    acknowledges_before_the_commit,
    does_not_check_the_epoch,
    completes_without_compare_and_set,
    drops_a_late_result,
    takes_a_run_because_it_was_delivered,
    decides_a_control_before_the_transaction,
    forgets_idempotency_keys,
    starts_although_it_was_overtaken,
    accepts_text_after_a_cancel,
    writes_a_span_in_two_transactions,
    trusts_its_cache,
    trusts_where_it_left_a_run,
    lets_a_cancellation_hide_what_was_written,
    decides_a_step_twice,
)
