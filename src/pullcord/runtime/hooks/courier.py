"""Brings one hook everything it wants to be told, in order, at least once, from where it was.

What there is to tell is read from the journal, so nothing has to be kept for it: only the place up
to which it was told, which is durable. Who is slow, down or broken delays nobody but itself.
"""

import asyncio
import logging
import random
from collections import OrderedDict, deque
from contextlib import suppress
from typing import Final, NamedTuple

from pullcord.core.fold import evolve
from pullcord.core.notices import Moved, Notice, moved, waits
from pullcord.core.run import Run
from pullcord.errors import (
    ChainBroken,
    FormatUnknown,
    ImpossibleEvent,
    JournalClosed,
    PullcordError,
    StorageFailed,
)
from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.runtime.hooks.hook import Hook
from pullcord.runtime.hooks.recipient import NoticeRefused, Unreached

_log: Final = logging.getLogger("pullcord.runtime")
_BATCH: Final = 200
_CACHED_RUNS: Final = 512
_SKIP: Final = 1000  # records without interest, after which the place is moved all the same
_WAIT_MAX_S: Final = 300.0
_OTHERS_S: Final = 5.0  # how often to look whether who tells it instead of us is still there
KEPT_MS: Final = 24 * 3600 * 1000
"""What is older than this is of no interest any more."""


class _Item(NamedTuple):
    pos: int
    notice: Moved | Notice
    id: str
    at_ms: int


class _Draft(NamedTuple):
    """What the records of one run say, by number, and the run behind them. None: it cannot be
    followed any further."""

    found: dict[int, tuple[Moved | Notice, int]]
    run: Run | None


class Courier:
    """One hook, in one process."""

    def __init__(
        self, journal: Journal, clock: Clock, hook: Hook, *, owner: str, wait_s: float, ttl_s: float
    ) -> None:
        self._journal, self._clock, self._hook, self._owner = journal, clock, hook, owner
        self._wait_s, self._ttl_s = wait_s, ttl_s
        self._is_met = False  # where it was is known
        self._failures = 0  # in a row, of a kind that nobody has thought of
        self._read = 0  # up to here the journal was read
        self._place = 0  # up to here it was told, as far as we know
        self._held_until_s = 0.0
        self._todo: deque[_Item] = deque()
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._left_alone: set[str] = set()
        self._news = asyncio.Event()
        self._leaving = asyncio.Event()

    def news(self) -> None:
        """There may be something to tell."""
        self._news.set()

    def leave(self) -> None:
        """Tell what there is, once, and come to an end."""
        self._leaving.set()
        self._news.set()

    async def run(self) -> None:
        """Until it has to leave, or the journal is closed. Nothing else ends it."""
        try:
            while True:
                is_last = self._leaving.is_set()  # before the look: what comes during it counts
                self._news.clear()
                is_done = await self._try()
                if is_last or (self._leaving.is_set() and not is_done):
                    return
                if self._failures:
                    await self._rest(self._wait_s * 2 ** min(self._failures - 1, 20))
                else:
                    await self._until_news(None if is_done else _OTHERS_S)
        except JournalClosed:
            pass
        finally:
            self._hook.told.close()
            await self._end()

    async def _try(self) -> bool:
        failures, self._failures = self._failures, 0
        try:
            return await self._tell_all()
        except StorageFailed as failed:
            _log.warning("Hook %s waits: %s", self._hook.name, failed)
        except JournalClosed:
            raise
        except Exception:  # a mistake of ours: it must not silence the hook for good
            self._failures = failures + 1
            _log.exception("Hook %s could not be told, and is told later.", self._hook.name)
        return False

    async def _end(self) -> None:
        if self._todo:
            _log.warning(
                "Hook %s was not told everything: from %s on. The next process that opens this "
                "store with it goes on there.",
                self._hook.name,
                self._todo[0].id,
            )
        with suppress(PullcordError):
            await self._journal.hooks.let_go(self._hook.name, owner=self._owner)

    async def _until_news(self, within_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._news.wait()

    # --- what there is to tell ---

    async def _tell_all(self) -> bool:
        """Tell everything there is. False: somebody else is at it, or it is to be later."""
        if not self._is_met:
            hook = self._hook
            place = await self._journal.hooks.meet(hook.name, formerly=hook.formerly)
            self._read, self._place, self._is_met = place, place, True
        while self._todo or await self._read_on():
            while self._todo:
                if not await self._settled(self._todo[0]):
                    return False
                self._todo.popleft()
        return True

    async def _read_on(self) -> bool:
        """Find out what is to be told next. False: nothing new is there."""
        rows = await self._journal.hooks.committed(after_pos=self._read, limit=_BATCH)
        last = {run_id: seq for _, run_id, seq in rows}
        drafts = {run_id: await self._draft(run_id, seq) for run_id, seq in last.items()}
        # Only now, and without a wait: a batch counts as a whole, or is read again as a whole.
        for run_id, draft in drafts.items():
            self._keep(run_id, draft.run)
        for pos, run_id, seq in rows:
            if found_here := drafts[run_id].found.get(seq):
                notice, at_ms = found_here
                self._todo.append(_Item(pos, notice, f"{run_id}.{seq}", at_ms))
            self._read = pos
        if not self._todo and self._read - self._place > _SKIP and self._holds():
            await self._move(self._read)
        return bool(rows)

    async def _draft(self, run_id: str, seq: int) -> _Draft:
        """What the records of one run say, up to this one, that were not read before. The run is
        ours meanwhile: should the batch fail, it is read from its beginning the next time."""
        found: dict[int, tuple[Moved | Notice, int]] = {}
        if run_id in self._left_alone:
            return _Draft(found, None)
        run = self._runs.pop(run_id, None) or Run(run_id)
        try:
            for record in await self._journal.read(run_id, after_seq=run.seq, limit=seq - run.seq):
                if record.seq > seq:
                    break  # the run was forgotten meanwhile: what is left of it comes in its place
                before = run.state if run.seq else None
                evolve(run, record)
                is_card = self._hook.wants is Notice
                if said := waits(record) if is_card else moved(before, run, record):
                    found[record.seq] = (said, record.at_ms)
        except (ChainBroken, FormatUnknown, ImpossibleEvent) as refused:
            _log.warning("Hook %s hears no more of %s: %s", self._hook.name, run_id, refused)
            return _Draft(found, None)
        return _Draft(found, run)

    def _keep(self, run_id: str, run: Run | None) -> None:
        if run is None:
            self._left_alone.add(run_id)
            return
        self._runs[run_id] = run
        if len(self._runs) > _CACHED_RUNS:
            self._runs.popitem(last=False)

    # --- telling it ---

    async def _settled(self, item: _Item) -> bool:
        """Tell it, unless that was done. False: it is another's to tell, or is to be told later."""
        errors = tries = 0
        while await self._hold():
            if self._place >= item.pos:
                return True  # another process has told it
            if self._clock.wall_ms() - item.at_ms > KEPT_MS:
                return await self._give_up(item, "it is more than a day old")
            if isinstance(item.notice, Notice) and await self._is_withdrawn(item.notice.run_id):
                return await self._move(item.pos)
            try:
                await self._hook.told.tell(item.id, item.notice)
            except NoticeRefused as refused:
                return await self._give_up(item, str(refused))
            except Unreached as unreached:
                why, wait_s = str(unreached), unreached.wait_s
            except Exception as error:  # whatever is in a function of somebody's
                errors, wait_s = errors + 1, 0.0
                why = type(error).__name__
                _log.warning("A notification hook failed. %s", self._hook.name, exc_info=error)
                if errors == self._hook.told.tries:
                    return await self._give_up(item, f"it has failed {errors} times")
            else:  # not above: trouble with the store is no failure of the hook
                return await self._move(item.pos)
            if self._leaving.is_set():
                _log.warning("Hook %s cannot be told %s now: %s", self._hook.name, item.id, why)
                return False
            tries += 1
            if tries == 1:
                _log.warning("Hook %s is told %s later: %s", self._hook.name, item.id, why)
            await self._rest(max(self._wait_s * 2 ** min(tries - 1, 20), wait_s))
        return False

    async def _is_withdrawn(self, run_id: str) -> bool:
        """Whether people may not see any more what the run asked for."""
        return bool(await self._journal.for_people(lambda look: look.withdrawn_seq(run_id)))

    async def _rest(self, seconds: float) -> None:
        """Wait before it is tried again: not all hooks at once, and not if we have to leave."""
        spread_s = min(seconds, _WAIT_MAX_S) * random.uniform(0.75, 1.25)
        with suppress(TimeoutError):
            async with asyncio.timeout(spread_s):
                await self._leaving.wait()

    async def _give_up(self, item: _Item, why: str) -> bool:
        _log.error("Hook %s is not told %s: %s.", self._hook.name, item.id, why)
        return await self._move(item.pos)

    # --- one process at a time ---

    def _holds(self) -> bool:
        return self._clock.boot_time().seconds + self._ttl_s / 2 < self._held_until_s

    async def _hold(self) -> bool:
        """Be the one who tells it, and know how far it was told."""
        if self._holds():
            return True
        name, now_s = self._hook.name, self._clock.boot_time().seconds
        place = await self._journal.hooks.take(name, owner=self._owner, ttl_s=self._ttl_s)
        if place is None:
            self._held_until_s = 0.0
            return False
        self._place, self._held_until_s = max(place, self._place), now_s + self._ttl_s
        return True

    async def _move(self, pos: int) -> bool:
        """It was told up to there: also if that cannot be written now, or another is at it."""
        now_s, ttl_s, is_mine = self._clock.boot_time().seconds, self._ttl_s, False
        self._place = max(self._place, pos)
        try:
            name, owner = self._hook.name, self._owner
            is_mine = await self._journal.hooks.move(name, pos, owner=owner, ttl_s=ttl_s)
        except StorageFailed as failed:
            _log.warning("Hook %s may be told %s once more: %s", self._hook.name, pos, failed)
        except JournalClosed:
            raise
        except Exception:  # as above: it was told, and that cannot be taken back
            _log.exception("Hook %s may be told %s once more.", self._hook.name, pos)
        self._held_until_s = now_s + ttl_s if is_mine else 0.0
        return True
