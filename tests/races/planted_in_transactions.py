"""Bugs planted in the optimistic transaction and its tables, each with a story that shows it.

Some need a second line of defence out of the way: the store would refuse the wreckage, and only
say that it is contended.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

import pytest

from pullcord.errors import PullcordError
from pullcord.journal.one_commit import Trouble
from pullcord.journal.optimistic import NEWBORN, Checks, HeldRuns, OptimisticTransaction, Writes
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import Job, Outcome, Transaction
from pullcord.testing.shared_memory_store import MemoryTables, SharedDictionaries
from tests.races import machine_stories as told_in
from tests.races.stories import Story

_Tx: Final[Any] = OptimisticTransaction
_Shared: Final[Any] = SharedDictionaries


class Planted(NamedTuple):
    """A bug, and a story in which it shows."""

    plant: Callable[[pytest.MonkeyPatch], None]
    story: Story


def checks_only_what_it_writes_to(patch: pytest.MonkeyPatch) -> None:
    def fewer(checks: Checks, writes: Writes) -> Checks:
        mine = {run: at for run, at in checks.versions.items() if run in writes.runs}
        return dataclasses.replace(checks, versions=mine)

    _with_other_checks(patch, fewer)


def trusts_what_it_knew_when_it_tries_again(patch: pytest.MonkeyPatch) -> None:
    restore = _Tx._restore

    def trusting(self: Any, run_id: str) -> None:
        known = self._known.get(run_id)
        restore(self, run_id)
        if known and known.version != NEWBORN and run_id in self._known:
            self._known[run_id].head = known.head

    patch.setattr(_Tx, "_restore", trusting)


def keeps_the_heads_of_a_refused_try(patch: pytest.MonkeyPatch) -> None:
    """The ledger is told that nothing has come between one try of a batch and the next."""
    attempts = _Tx.attempts

    def counting(self: Any, jobs: Sequence[Job]) -> Any:
        self._batches = getattr(self, "_batches", 0) + 2
        return attempts(self, jobs)

    patch.setattr(_Tx, "attempts", counting)
    patch.setattr(_Tx, "number", _batches)


def remembers_what_it_wrote_when_it_lets_go(patch: pytest.MonkeyPatch) -> None:
    def let_go(self: Any) -> None:
        self._tables.roll_back()
        for part in self._parts:
            part.begin()
        self._begin_anew()

    patch.setattr(_Tx, "_let_go", let_go)


def does_not_lock_what_it_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Tx, "hold", _nothing)


def holds_a_run_without_its_family(patch: pytest.MonkeyPatch) -> None:
    def alone(self: Any, run_ids: Sequence[str], *, also: Collection[str], key: Any) -> HeldRuns:
        held = self._locked(lambda: [*run_ids, *also], {})
        return held._replace(ack=self._ack(run_ids[0], key))

    patch.setattr(MemoryTables, "lock_families", alone)


def does_not_check_the_eldest_of_a_thread(patch: pytest.MonkeyPatch) -> None:
    _with_other_checks(patch, lambda checks, _: dataclasses.replace(checks, eldest={}))


def checks_the_eldest_for_births_alone(patch: pytest.MonkeyPatch) -> None:
    fits = SharedDictionaries.fits

    def lax(self: SharedDictionaries, checks: Checks, writes: Writes) -> bool:
        return fits(self, checks, dataclasses.replace(writes, erased=[]))

    patch.setattr(SharedDictionaries, "fits", lax)


def does_not_check_the_stop_log(patch: pytest.MonkeyPatch) -> None:
    _with_other_checks(patch, lambda checks, _: dataclasses.replace(checks, noted=None))


def does_not_check_a_hooks_place(patch: pytest.MonkeyPatch) -> None:
    fits = SharedDictionaries.fits

    def lax(self: SharedDictionaries, checks: Checks, writes: Writes) -> bool:
        return fits(self, checks, dataclasses.replace(writes, hooks={}))

    patch.setattr(SharedDictionaries, "fits", lax)


def keeps_what_a_repeated_job_wrote_before(patch: pytest.MonkeyPatch) -> None:
    part: Any = type(OptimisticTransaction(MemoryTables(SharedDictionaries()))._part)  # pyright: ignore[reportPrivateUsage]
    begin = part.begin

    def again(self: Any) -> None:
        before = self.writes
        begin(self)
        self.writes = before

    patch.setattr(part, "begin", again)


def keeps_who_shares_a_run_with_a_repeated_job(patch: pytest.MonkeyPatch) -> None:
    def repeat(self: Any, stale: set[str]) -> None:
        is_for_all = not stale and all(part.outcome for part in self._parts)
        changed = set(stale)
        for part in self._parts:
            if is_for_all or not part.outcome or part.looked & stale:
                changed |= part.writes.runs.keys()
                part.begin()
        for run_id in changed:
            self._restore(run_id)
        self._parts.sort(key=_is_to_do)

    patch.setattr(_Tx, "_repeat", repeat)


def repeats_only_the_first_that_was_stale(patch: pytest.MonkeyPatch) -> None:
    """One step short of a closure: who has looked at what the second one wrote is kept."""
    repeat = _Tx._repeat

    def short(self: Any, stale: set[str]) -> None:
        concerned = [part for part in self._parts if part.outcome and part.looked & stale]
        for part in concerned[1:]:
            part.looked = part.looked - stale
        repeat(self, stale)

    patch.setattr(_Tx, "_repeat", short)


def writes_what_is_repeated_in_its_old_place(patch: pytest.MonkeyPatch) -> None:
    attempts, repeat = _Tx.attempts, _Tx._repeat

    def remembering(self: Any, jobs: Sequence[Job]) -> Any:
        self._in_order = list(jobs)
        return attempts(self, jobs)

    def in_place(self: Any, stale: set[str]) -> None:
        repeat(self, stale)
        for job in self._in_order:
            [part] = [part for part in self._parts if part.job is job]
            self._parts.remove(part)
            self._parts.append(part)

    patch.setattr(_Tx, "attempts", remembering)
    patch.setattr(_Tx, "_repeat", in_place)


def tells_the_outcomes_in_the_order_of_the_work(patch: pytest.MonkeyPatch) -> None:
    attempts, commits = _Tx.attempts, _Tx._commits

    def noting(self: Any) -> bool | None:
        self._told = [part.outcome for part in self._parts]
        return commits(self)

    def mixed(self: Any, jobs: Sequence[Job]) -> Any:
        yield from attempts(self, jobs)
        return self._told

    patch.setattr(_Tx, "_commits", noting)
    patch.setattr(_Tx, "attempts", mixed)


def believes_an_error_found_on_stale_looks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryTables, "holds", _yes)


def forgets_what_a_failed_job_wrote(patch: pytest.MonkeyPatch) -> None:
    """The job behind it has seen that, and stays as it is."""

    def carry_out(self: Any, part: Any) -> None:
        part.begin()
        self._part = part
        self._number += 2
        try:
            part.outcome = Outcome(part.job(self))
        except PullcordError as error:
            if part.writes.count and not self._is_stale():
                raise (error if len(self._parts) == 1 else Trouble) from error
            part.writes, part.outcome = Writes(), Outcome(error=error)

    patch.setattr(_Tx, "_carry_out", carry_out)


def keeps_who_asked_for_the_eldest_of_a_repeated_job(patch: pytest.MonkeyPatch) -> None:
    eldest = _Tx.eldest

    def unnoted(self: Any, thread: str) -> str | None:
        looked = set(self._part.looked)
        found = eldest(self, thread)
        self._part.looked = looked
        return found

    patch.setattr(_Tx, "eldest", unnoted)


def remembers_a_keys_answer_beyond_the_locks(patch: pytest.MonkeyPatch) -> None:
    commits = _Tx._commits

    def keeping(self: Any) -> bool | None:
        acks = self._acks
        is_done = commits(self)
        self._acks = acks
        return is_done

    patch.setattr(_Tx, "_commits", keeping)


def looks_for_a_keys_answer_before_it_locks(patch: pytest.MonkeyPatch) -> None:
    _without_unique_keys(patch)
    lock = MemoryTables.lock_families

    def early(self: Any, run_ids: Sequence[str], *, also: Collection[str], key: Any) -> HeldRuns:
        ack = self._ack(run_ids[0], key)
        self.between()
        return lock(self, run_ids, also=also, key=None)._replace(ack=ack)

    patch.setattr(MemoryTables, "lock_families", early)


def decides_without_looking_for_the_keys_answer(patch: pytest.MonkeyPatch) -> None:
    """Only of those that were carried out by another machine: its own it remembers."""
    _without_unique_keys(patch)
    patch.setattr(SharedDictionaries, "ack", _nothing)


def tells_a_batch_of_a_clock_that_is_not_set(patch: pytest.MonkeyPatch) -> None:
    boot_base = _Tx.boot_base

    def told(self: Any, boot: str) -> int | None:
        wanted = (part.writes.boots.get(boot) for part in self._parts)
        return next((at for at in wanted if at is not None), None) or boot_base(self, boot)

    patch.setattr(_Tx, "boot_base", told)


def gives_a_new_version_only_with_a_new_row(patch: pytest.MonkeyPatch) -> None:
    carry_out = SharedDictionaries.carry_out

    def sparing(self: SharedDictionaries, writes: Writes, token: int) -> None:
        before = dict(self.versions)
        carry_out(self, writes, token)
        self.versions |= {r: at for r, at in before.items() if r not in writes.heads}

    patch.setattr(SharedDictionaries, "carry_out", sparing)


def tells_no_parent_of_an_end(patch: pytest.MonkeyPatch) -> None:
    """If somebody else is just writing there."""
    ledger: Any = Ledger
    told = ledger._told

    def unless_busy(self: Any, tx: Transaction, parent: str, ended: Any) -> Any:
        known: Any = getattr(tx, "_known", {})
        return told(self, tx, parent, ended) if parent in known else None

    patch.setattr(ledger, "_told", unless_busy)


def _nothing(*_: object, **__: object) -> None:
    return None


def _yes(*_: object) -> bool:
    return True


def _is_to_do(part: Any) -> bool:
    return not part.outcome


def _batches(tx: Any) -> int:
    return tx._batches


def _with_other_checks(
    patch: pytest.MonkeyPatch, change: Callable[[Checks, Writes], Checks]
) -> None:
    commit = MemoryTables.commit

    def lax(self: MemoryTables, checks: Checks, writes: Writes, token: int) -> bool:
        return commit(self, change(checks, writes), writes, token)

    patch.setattr(MemoryTables, "commit", lax)


def _without_unique_keys(patch: pytest.MonkeyPatch) -> None:
    fits = SharedDictionaries.fits

    def lax(self: SharedDictionaries, checks: Checks, writes: Writes) -> bool:
        return fits(self, checks, dataclasses.replace(writes, acks={}))

    patch.setattr(SharedDictionaries, "fits", lax)


PLANTED_IN_TRANSACTIONS: Final[Sequence[Planted]] = (
    Planted(checks_only_what_it_writes_to, told_in.one_budget_on_two_machines),
    Planted(trusts_what_it_knew_when_it_tries_again, told_in.two_owners_in_one_tree),
    Planted(keeps_the_heads_of_a_refused_try, told_in.two_owners_in_one_tree),
    Planted(remembers_what_it_wrote_when_it_lets_go, told_in.several_jobs_of_one_process_at_once),
    Planted(does_not_lock_what_it_holds, told_in.a_control_of_a_busy_owner),
    Planted(holds_a_run_without_its_family, told_in.a_control_of_a_busy_family),
    Planted(does_not_check_the_eldest_of_a_thread, told_in.alone_against_alone),
    Planted(checks_the_eldest_for_births_alone, told_in.a_start_on_a_thread_against_forgetting),
    Planted(does_not_check_the_stop_log, told_in.a_switch_seen_by_two_machines),
    Planted(does_not_check_a_hooks_place, told_in.one_hook_on_two_machines),
    Planted(keeps_what_a_repeated_job_wrote_before, told_in.two_owners_in_one_tree),
    Planted(
        keeps_who_shares_a_run_with_a_repeated_job, told_in.several_jobs_of_one_process_at_once
    ),
    Planted(repeats_only_the_first_that_was_stale, told_in.several_jobs_of_one_process_at_once),
    Planted(
        writes_what_is_repeated_in_its_old_place,
        told_in.a_child_ends_while_its_parent_begins_to_wait,
    ),
    Planted(
        tells_the_outcomes_in_the_order_of_the_work, told_in.several_jobs_of_one_process_at_once
    ),
    Planted(believes_an_error_found_on_stale_looks, told_in.several_jobs_of_one_process_at_once),
    Planted(forgets_what_a_failed_job_wrote, told_in.a_batch_with_a_job_that_fails),
    Planted(
        keeps_who_asked_for_the_eldest_of_a_repeated_job,
        told_in.a_batch_in_which_a_thread_gets_free,
    ),
    Planted(
        remembers_a_keys_answer_beyond_the_locks,
        told_in.a_batch_whose_first_command_was_sent_before,
    ),
    Planted(looks_for_a_keys_answer_before_it_locks, told_in.one_key_from_two_machines),
    Planted(decides_without_looking_for_the_keys_answer, told_in.one_key_from_two_machines),
    Planted(tells_a_batch_of_a_clock_that_is_not_set, told_in.the_first_writes_of_a_boot),
    Planted(gives_a_new_version_only_with_a_new_row, told_in.one_budget_on_two_machines),
    Planted(tells_no_parent_of_an_end, told_in.two_owners_in_one_tree),
)
