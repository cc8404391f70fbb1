"""An owner's hold on one run: it records what happens, and finds out when it was overtaken.

Controls are decided in the store, so an owner never has to ask "was I cancelled?" before it
writes. It writes; if something came first the append conflicts, the owner reads what came and
decides again, with `admit`, what may still be recorded.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, cast

from pullcord.core.admit import admit
from pullcord.core.events import Event, Record, TextEnded
from pullcord.core.fold import evolve
from pullcord.core.run import Run
from pullcord.core.states import TABLE
from pullcord.errors import Conflict, Fenced, StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Appended, Change, Claim, Lease
from pullcord.runtime.watching.observer import UNSEEN, Life

Wanted: TypeAlias = Event | Callable[[Run], Sequence[Event]]
"""What an owner wants to record: an event, or what makes the events from the run as it is."""


def together(*events: Event) -> Wanted:
    """Events of which no crash may leave one without the other."""
    return lambda _: events


class _TurnLock(asyncio.Lock):
    """Whose turn it is. Somebody wants to know when a turn has ended."""

    def __init__(self, mine: "Ownership") -> None:
        super().__init__()
        self._mine = mine

    def release(self) -> None:
        super().release()
        self._mine.after_turn()


class _Unheard(NamedTuple):
    """What was sent to the storage, and may or may not have been recorded there."""

    wanted: Wanted  # whoever tries again asks for the very same
    events: list[Event]
    after_seq: int


class Ownership:
    """The owner's side of a claimed run. Its tasks take turns."""

    def __init__(self, journal: Journal, claim: Claim, life: Life = UNSEEN) -> None:
        self._journal = journal
        self._turn = _TurnLock(self)
        self._unheard: list[_Unheard] = []
        self.has_news = False  # records, of others or our own, that nobody has looked at yet
        self.after_turn: Callable[[], object] = lambda: None  # called whenever one has ended
        self.lease: Lease = claim.lease
        self.run: Run = claim.run
        self.life = life
        life.began(self.run)

    @property
    def is_writing(self) -> bool:
        """Whether a record of ours may just be on its way."""
        return self._turn.locked()

    async def retake(self, *, ttl_s: float, code_version: str) -> bool:
        """Go on under a new lease, after the run has been at rest. False: it is not to be had."""
        async with self._turn:
            life = self.life.again(self.run)
            claim = await self._journal.acquire(
                self.run.id,
                owner=self.lease.owner,
                ttl_s=ttl_s,
                held=self.lease,
                code_version=code_version,
                trace=life.trace,
            )
            if claim is not None:
                self.life.ended(self.run)
                self.lease, self.run, self.life = claim.lease, claim.run, life
                life.began(self.run)
            return claim is not None

    async def record(self, wanted: Wanted, *with_it: Change, release: bool = False) -> list[Event]:
        """Record what is wanted, or what has become of it, and return what was recorded.

        Empty: a control or another decision overtook it, or a limit is reached, and nothing was
        written; in particular a `StepStarted` that comes back empty must not start. Several events
        are recorded together or not at all. `with_it` (changes to other runs, in the same
        transaction) and `release` belong to the events themselves: what has become of a result
        that was overtaken is recorded alone.

        Raises:
            Fenced: another process owns the run now. Abandon it.
            BudgetBusy: it may begin when calls that are under way have ended, or not at all.
        """
        async with self._turn:
            if (unheard := await self._recorded_unheard(wanted)) is not None:
                return unheard
            while True:
                self.check()
                asked = wanted(self.run) if callable(wanted) else (wanted,)
                asked = [self._journal.seal.event(event) for event in asked]  # as we shall read it
                events = await self._admitted(asked)
                if not events:
                    if await self._catch_up():
                        continue  # it may only have been too early
                    return []
                is_itself = events == asked
                mine = Append(
                    run_id=self.run.id,
                    events=events,
                    expected_seq=self.run.seq,
                    epoch=self.lease.epoch,
                    release=release and is_itself,
                )
                try:
                    results = await self._journal.append(mine, *(with_it if is_itself else ()))
                except Conflict as conflict:
                    if conflict.run_id != self.run.id or not await self._catch_up():
                        raise
                    continue
                except StorageFailed:  # the storage may have it all the same
                    self._unheard.append(_Unheard(wanted, events, self.run.seq))
                    raise
                appended = cast("Appended", results[0])
                if appended.is_refused:  # a limit is reached: what follows from it is there to read
                    await self._catch_up()
                    return []
                self._follow(events, appended)
                return events

    def check(self) -> None:
        """Refuse to go on if the run's records say that it is another's.

        Raises:
            Fenced: it is.
        """
        mine, now = self.lease.epoch, self.run.epoch
        if mine != now:
            why = "another process has taken it over"
            raise Fenced(self.run.id, epoch=mine, current_epoch=now, why=why)

    async def say(self, part: str, text: str, *, offset: int, while_pausing: bool = True) -> bool:
        """Add live text to a part. False: none is accepted in the state the run is in now."""
        async with self._turn:
            fate = await self._journal.live_text.say(
                self.lease, part, text, offset=offset, keep_held=while_pausing
            )
            is_accepted = fate == "shown" or (fate == "held" and while_pausing)
            if not is_accepted:
                await self._catch_up()
            return is_accepted

    async def _admitted(self, asked: Sequence[Event]) -> list[Event]:
        if len(asked) == 1:
            return list(admit(self.run, await self._as_it_may_be(asked[0])))
        may = all(admit(self.run, event) == (event,) for event in asked)
        return list(asked) if may else []

    async def _as_it_may_be(self, event: Event) -> Event:
        """The end of a text, after text is no longer accepted, is a cut where it was shown to."""
        if not isinstance(event, TextEnded) or TABLE[self.run.state].text != "refused":
            return event
        shown = await self._journal.live_text.said_in(self.run.id, event.part)
        return TextEnded(part=event.part, text=shown, complete=False, step=event.step)

    async def catch_up(self) -> int:
        """Take in what others have recorded since, and return how many records that was."""
        async with self._turn:
            return await self._catch_up()

    async def _recorded_unheard(self, wanted: Wanted) -> list[Event] | None:
        """What was recorded when this was asked for before, if it was and nobody was told so: the
        storage had failed in the middle of the commit. Nobody else writes under our epoch."""
        unheard = next((one for one in self._unheard if one.wanted is wanted), None)
        if unheard is None:
            return None
        records = await self._journal.read(self.run.id, after_seq=unheard.after_seq)
        self._unheard.remove(unheard)
        mine = [record.event for record in records if record.epoch == self.lease.epoch]
        length = len(unheard.events)
        if not any(mine[at : at + length] == unheard.events for at in range(len(mine))):
            return None
        await self._catch_up()
        return unheard.events

    async def _catch_up(self) -> int:
        records = await self._journal.read(self.run.id, after_seq=self.run.seq)
        self.has_news = self.has_news or bool(records)
        for record in records:
            evolve(self.run, record)
        self.life.saw(self.run, records)
        return len(records)

    def _follow(self, events: list[Event], appended: Appended) -> None:
        self.has_news = True
        epoch, at_ms, drift_ms = self.lease.epoch, appended.at_ms, appended.drift_ms
        numbered = enumerate((*appended.first, *events), self.run.seq + 1)
        records = [Record(self.run.id, n, at_ms, epoch, event, drift_ms) for n, event in numbered]
        for record in records:
            evolve(self.run, record)
        self.life.saw(self.run, records)
