"""The runs of a store on this machine."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Final

from pullcord.core.acks import Ack
from pullcord.core.commands import Command
from pullcord.core.receipts import Receipt
from pullcord.core.show.panel import Panel
from pullcord.core.states import RunState
from pullcord.core.stops import StopShown
from pullcord.errors import JournalClosed
from pullcord.journal.journal import Journal
from pullcord.journal.stored_runs.run_records import Item
from pullcord.journal.views.for_people import News as Happened
from pullcord.journal.views.inbox import Inbox
from pullcord.journal.views.local_viewer import LocalViewer
from pullcord.journal.watch import Changed
from pullcord.tui.source import ListUpdate, RunUpdate

_BATCH: Final = 500
_TELL_S: Final = 0.1  # what changes faster is told together


class LocalSource:
    """A `Source` that reads a journal, and has its controls decided there."""

    def __init__(self, journal: Journal, *, me: str, name: str) -> None:
        self._journal = journal
        self._me = me
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def listed(
        self, states: Iterable[RunState], *, before: str | None, limit: int
    ) -> list[Panel]:
        return await self._journal.for_people(
            lambda look: look.panels(states, before=before, limit=limit)
        )

    async def panels(self, *run_ids: str) -> list[Panel]:
        return await self._journal.for_people(lambda look: [look.panel(one) for one in run_ids])

    async def changes(self) -> AsyncGenerator[ListUpdate]:
        loop, heard, changed = asyncio.get_running_loop(), asyncio.Event(), set[str]()

        def take(runs: Changed) -> None:
            changed.update(runs)
            heard.set()

        def on_change(runs: Changed) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(take, runs)

        stop = self._journal.changes.watch(on_change)
        try:
            yield ListUpdate(is_fresh=True)
            while True:
                await heard.wait()
                heard.clear()
                told, changed = changed, set[str]()
                if told:
                    yield ListUpdate(await self.panels(*told))
                await asyncio.sleep(_TELL_S)
        finally:
            stop()

    async def switched_off(self) -> list[str]:
        return [
            flag.said() for flag in await asyncio.to_thread(self._journal.kill_switch.flags.raised)
        ]

    async def follow(self, run_id: str) -> AsyncGenerator[RunUpdate]:
        [panel] = await self.panels(run_id)
        noted = list[StopShown]()
        reader = LocalViewer(self._me, "top", since=panel.seq, noted=noted.append)
        is_anew = False
        with suppress(JournalClosed):
            while True:
                async with aclosing(
                    self._journal.changes.follow(run_id, limit=_BATCH)
                ) as following:
                    async for items in _until_withdrawn(following, reader):
                        for _, what in items:
                            reader.has(what)
                        yield RunUpdate(items, is_anew=is_anew)
                        is_anew = False
                        while noted:  # when it is on the screen: evidence may wait, a person not
                            await self._journal.stop_log.note(noted.pop(0), run_id)
                is_anew = True

    async def waiting(self, run_id: str) -> Inbox:
        return await self._journal.for_people(lambda look: look.inbox(run_id))

    async def receipt(self, run_id: str) -> Receipt:
        return await self._journal.for_people(lambda look: look.receipt(run_id))

    async def command(self, run_id: str, command: Command) -> Ack:
        return await self._journal.command(run_id, command)


async def _until_withdrawn(
    following: AsyncGenerator[Happened], reader: LocalViewer
) -> AsyncGenerator[Sequence[Item]]:
    """Yield what happens until something that was yielded may not be shown any more."""
    withdrawn_seq: int | None = None
    async for items, seq in following:
        for _, what in items:
            reader.comes(what)
        if withdrawn_seq not in (None, seq):
            return
        withdrawn_seq = seq
        yield items
