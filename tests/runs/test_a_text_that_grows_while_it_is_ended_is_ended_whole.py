"""A piece of text that is being written when its run is left comes before the end of its part."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from pullcord.core.events import Created, Event, TextEnded
from pullcord.core.run import Run
from pullcord.journal.facets.live_text import LiveTexts
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import Append, Claim
from pullcord.journal.store import LiveText
from pullcord.runtime.driving.left_behind import end_texts
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.ownership import Wanted


class LateText(LiveTexts):
    """Somebody's last pieces are written just after it was looked."""

    lease: Any = None
    pieces: Sequence[str] = ()

    async def unended(self, run_id: str) -> list[LiveText]:
        found = await super().unended(run_id)
        if self.pieces:
            offset = sum(len(text.text) for text in found)
            piece, *self.pieces = self.pieces
            await self.say(self.lease, "p", piece, offset=offset)
        return found


class LateJournal(Journal):
    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.live_text = self.late = LateText(self._writer, self._ledger, self.seal)


class Site:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal


class Desk:
    def __init__(self, journal: Journal, claim: Claim, *, most: int = 100) -> None:
        self.services, self.run, self._claim = Site(journal), claim.run, claim
        self._most = most  # events that are recorded together

    async def record(self, wanted: Wanted) -> list[Event]:
        run: Run = await self.services.journal.load(self.run.id)
        events = list(wanted(run)) if callable(wanted) else [wanted]
        if len(events) > self._most:
            return []
        epoch = self._claim.lease.epoch
        await self.services.journal.append(
            Append(run_id=run.id, events=events, expected_seq=run.seq, epoch=epoch)
        )
        return events


async def test_it_is_ended_with_all_that_was_shown() -> None:
    journal = LateJournal()
    journal.late.pieces = [" and", " bye"]
    born = Created(agent="a", thread="t")
    await journal.append(Append(run_id="r1", events=[born], expected_seq=0))
    claim = await journal.acquire("r1", owner="o", ttl_s=60)
    assert claim
    journal.late.lease = claim.lease
    await journal.live_text.say(claim.lease, "p", "Hello", offset=0)

    await end_texts(cast("LiveRun", Desk(journal, claim)))

    last = (await journal.read("r1"))[-1].event
    assert last == TextEnded(part="p", text="Hello and bye", complete=False)
    await journal.aclose()


@pytest.mark.parametrize("most", [100, 1], ids=["together", "each by itself"])
async def test_all_that_were_cut_are_ended_whether_or_not_they_may_be_together(most: int) -> None:
    journal = Journal(MemoryStore())
    born = Created(agent="a", thread="t")
    await journal.append(Append(run_id="r1", events=[born], expected_seq=0))
    claim = await journal.acquire("r1", owner="o", ttl_s=60)
    assert claim
    for part in ("p", "q"):
        await journal.live_text.say(claim.lease, part, f"{part} says", offset=0)
        await journal.live_text.say(claim.lease, part, " more", offset=6)

    await end_texts(cast("LiveRun", Desk(journal, claim, most=most)))

    *_, first, second = [record.event for record in await journal.read("r1")]
    assert first == TextEnded(part="p", text="p says more", complete=False)
    assert second == TextEnded(part="q", text="q says more", complete=False)
    assert await journal.live_text.unended("r1") == []
    await journal.aclose()
