"""The runs of a store on this machine."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from pullcord.core.acks import Ack
from pullcord.core.commands import Command
from pullcord.core.events import CancelRequested, Record, TextEnded
from pullcord.core.panel import Panel
from pullcord.core.receipts import Receipt, receipt
from pullcord.core.states import RunState
from pullcord.core.stops import StopShown
from pullcord.core.withhold import as_viewed
from pullcord.errors import JournalClosed
from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.journal.reader import Reader
from pullcord.journal.reading import Item
from pullcord.journal.seeing import Seen, panel_of
from pullcord.journal.store import LiveText
from pullcord.journal.watch import Changed
from pullcord.tui.source import News, Waiting

_BATCH: Final = 500
_TELL_S: Final = 0.1  # what changes faster is told together


class Local:
    """A `Source` that reads a journal, and has its controls decided there."""

    def __init__(self, journal: Journal, clock: Clock, *, me: str, name: str) -> None:
        self._journal = journal
        self._clock = clock
        self._me = me
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def listed(
        self, states: Iterable[RunState], *, before: str | None, limit: int
    ) -> list[Panel]:
        found = await self._journal.listed(states=states, before=before, limit=limit)
        return [self._panel(seen) for seen in found]

    async def panels(self, *run_ids: str) -> list[Panel]:
        return [self._panel(seen) for seen in await self._journal.seen(*run_ids)]

    def _panel(self, seen: Seen) -> Panel:
        return panel_of(seen, wall_ms=self._clock.wall_ms())

    async def changes(self) -> AsyncGenerator[News]:
        loop, heard, changed = asyncio.get_running_loop(), asyncio.Event(), set[str]()

        def take(runs: Changed) -> None:
            changed.update(runs)
            heard.set()

        def on_change(runs: Changed) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(take, runs)

        stop = self._journal.watch(on_change)
        try:
            yield News(is_fresh=True)
            while True:
                await heard.wait()
                heard.clear()
                told, changed = changed, set[str]()
                if told:
                    yield News(await self.panels(*told))
                await asyncio.sleep(_TELL_S)
        finally:
            stop()

    async def switched_off(self) -> list[str]:
        return [flag.said() for flag in await asyncio.to_thread(self._journal.flags.raised)]

    async def follow(self, run_id: str) -> AsyncGenerator[Sequence[Item]]:
        run = await self._journal.load(run_id)
        hide = run.cancel is not None and run.cancel.quarantine
        noted = list[StopShown]()
        reader = Reader(self._me, "top", since=run.seq, noted=noted.append)
        with suppress(JournalClosed):
            async with aclosing(self._journal.batches(run_id, limit=_BATCH)) as batches:
                async for items in batches:
                    hide = hide or any(_quarantines(what) for _, what in items)
                    shown = _viewed(items, hide=hide)
                    for _, what in shown:
                        reader.comes(what)
                        reader.has(what)
                    yield shown
                    while noted:  # when it is on the screen: evidence may wait, a person not
                        await self._journal.note(noted.pop(0), run_id)

    async def waiting(self, run_id: str) -> Waiting:
        inbox = await self._journal.waiting_for_people(run_id)
        return Waiting(inbox, await self._journal.now_ms())

    async def receipt(self, run_id: str) -> Receipt:
        run = await self._journal.load(run_id)
        records = await self._journal.read(run_id)
        cut = {r.event.part: r.event.text for r in records if isinstance(r.event, TextEnded)}
        return receipt(run, cut, await self._journal.members(run_id))

    async def command(self, run_id: str, command: Command) -> Ack:
        return await self._journal.command(run_id, command)


def _quarantines(what: Record | LiveText) -> bool:
    event = what.event if isinstance(what, Record) else None
    return isinstance(event, CancelRequested) and event.quarantine


def _viewed(items: Sequence[Item], *, hide: bool) -> list[Item]:
    shown = list[Item]()
    for cursor, what in items:
        if isinstance(what, Record):
            seen = msgspec.structs.replace(what, event=as_viewed(what.event, hide=hide))
            shown.append((cursor, seen))
        elif not hide:
            shown.append((cursor, what))
    return shown
