"""Forgetting runs: what would go, then, if that is meant, one transaction for each."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

import msgspec

from pullcord.core.commands import Forget
from pullcord.core.states import TERMINAL, RunState
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput
from pullcord.journal.journal import Journal
from pullcord.journal.store import Scrubbed
from pullcord.journal.stored_runs.retention import Candidate, Wanted


class Forgetting(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten, or would be. `kept` of a run says why it was not.

    `files`: whether the bytes are gone from them; empty if nothing was to be deleted.
    """

    is_done: bool
    runs: tuple[Candidate, ...]
    files: Scrubbed | str = ""

    @property
    def gone(self) -> tuple[Candidate, ...]:
        return tuple(run for run in self.runs if not run.kept)

    @property
    def kept(self) -> tuple[Candidate, ...]:
        return tuple(run for run in self.runs if run.kept)


class Which(TypedDict, total=False):
    """Which runs are meant, if none is named. All that is said counts."""

    older_than_s: float | None  # they ended so long ago
    states: Iterable[RunState]  # and so
    thread: str | None
    of: str | None  # who started them


def wanted_of(runs: Sequence[str], which: Which, *, now_ms: int) -> Wanted:
    """Raises:
    InvalidInput: it would mean every run there is, or runs that have not ended.
    """
    age_s, ended = which.get("older_than_s"), frozenset(which.get("states", TERMINAL))
    thread, of = which.get("thread"), which.get("of")
    is_said = any(one is not None for one in (age_s, thread, of))
    if runs and is_said:
        raise InvalidInput("Name runs, or say which ones are meant, not both. Nothing was deleted.")
    if ended and not (runs or is_said):
        raise InvalidInput(
            "Nobody is meant. Nothing was deleted. Name runs, a thread, who started them, or "
            "their age."
        )
    if not ended <= TERMINAL or (age_s is not None and not age_s >= 0):
        raise InvalidInput(
            f"Only runs that have ended can be forgotten: {', '.join(sorted(TERMINAL))}; and an "
            "age is not negative. Nothing was deleted."
        )
    return Wanted(
        runs=tuple(check_id(run_id) for run_id in runs),
        ended_before_ms=None if age_s is None else now_ms - round(age_s * 1000),
        states=ended,
        thread=check_id(thread, kind="thread") if thread is not None else None,
        of=of,
    )


async def forget(
    journal: Journal, wanted: Wanted, asked: Forget | None, *, rewrite: bool = False
) -> Forgetting:
    """Forget what can be of what is wanted. Nobody has `asked` for it: only say what that is."""
    found = await journal.retention.forgettable(wanted)
    if asked is None:
        return Forgetting(is_done=False, runs=tuple(found))
    done: list[Candidate] = []
    for one in found:
        if not one.kept:  # as far as a look could tell: it is decided when it is done
            ack = await journal.retention.forget(one.run, asked)
            one = msgspec.structs.replace(one, kept=ack.message)
        done.append(one)
    return Forgetting(
        is_done=True, runs=tuple(done), files=await journal.retention.scrub(rewrite=rewrite)
    )
