"""The runs of a server, as a screen asks for them. A thread waits for each answer and each stream,
so that no server, however slow, holds up a key."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from typing import Any, Final, TypeVar

import msgspec

from pullcord.client.event_stream import ANEW, BACK, LOST, EventStream
from pullcord.client.http import Client, ServerEvent
from pullcord.client.replies import item
from pullcord.client.server_runs import ServerRuns
from pullcord.core.acks import Ack
from pullcord.core.commands import Command
from pullcord.core.receipts import Receipt
from pullcord.core.show.panel import Panel
from pullcord.core.states import NEEDS_OWNER, RunState
from pullcord.errors import ServerRefused
from pullcord.journal.views.inbox import Inbox
from pullcord.killswitch.flags import Flag, Scope
from pullcord.tui.source import ListUpdate, RunUpdate

T = TypeVar("T")
_BATCH: Final = 500
_FEW: Final = 3
_PAGE: Final = 100


class ServerSource:
    """A `Source` that asks a server. One connection for looking, one for controls: a control does
    not wait behind a list."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looks = _Line(client)
        self._controls = _Line(client)

    @property
    def name(self) -> str:
        return self._client.where.url

    def close(self) -> None:
        self._looks.close()
        self._controls.close()

    async def listed(
        self, states: Iterable[RunState], *, before: str | None, limit: int
    ) -> list[Panel]:
        wanted = list(states)
        return await self._looks.ask(lambda there: there.listed(wanted, limit, before))

    async def panels(self, *run_ids: str) -> list[Panel]:
        found: dict[str, Panel] = {}
        if len(run_ids) > _FEW:  # most of them are in one page of those that are being driven
            page = await self.listed(NEEDS_OWNER, before=None, limit=_PAGE)
            found = {panel.run: panel for panel in page}
        for run in run_ids:
            if run not in found:
                found[run] = await self._looks.ask(lambda there, run=run: there.panel(run))
        return [found[run] for run in run_ids]

    async def changes(self) -> AsyncGenerator[ListUpdate]:
        ear = EventStream(self._client, "/events", "now", patience=float("inf"))
        async with aclosing(_heard(ear)) as batches:
            async for events in batches:
                news = ListUpdate()
                for event in events:
                    news = _after(news, event, where=self.name)
                if news != ListUpdate():
                    yield news

    async def switched_off(self) -> list[str]:
        found = await self._looks.ask(lambda there: there.switch("status", "", "", ""))
        return [_said(one) for one in found["engaged"]]

    async def follow(self, run_id: str) -> AsyncGenerator[RunUpdate]:
        ear = EventStream(self._client, f"/runs/{run_id}/events", "0", patience=float("inf"))
        async with aclosing(_heard(ear)) as batches:
            async for events in batches:
                is_anew = False
                for number, one in enumerate(events):
                    if one.kind == ANEW:
                        is_anew, events = True, events[number + 1 :]
                told = [item(run_id, one) for one in events if one.kind in ("record", "text")]
                if told or is_anew:
                    yield RunUpdate(told, is_anew=is_anew)

    async def waiting(self, run_id: str) -> Inbox:
        return await self._looks.ask(lambda there: there.waiting(run_id))

    async def receipt(self, run_id: str) -> Receipt:
        return await self._looks.ask(lambda there: there.receipt(run_id))

    async def command(self, run_id: str, command: Command) -> Ack:
        return await self._controls.ask(lambda there: there.command(run_id, command))


class _Line:
    """One connection, used by one thread at a time."""

    def __init__(self, client: Client) -> None:
        self._client = Client(client.where, client.credential)
        self._remote = ServerRuns(self._client)
        self._turn = threading.Lock()

    def close(self) -> None:
        """A thread that still waits for an answer finds it cut, and closes it itself."""
        self._client.cut()
        if self._turn.acquire(blocking=False):
            self._client.close()
            self._turn.release()

    async def ask(self, work: Callable[[ServerRuns], T]) -> T:
        """Have it asked by a thread that nobody has to wait for: who leaves, leaves at once."""
        loop, answer = asyncio.get_running_loop(), asyncio.Future[T]()

        def settle(value: T | None, error: Exception | None) -> None:
            if answer.done():  # whoever asked has gone
                return
            if error:
                answer.set_exception(error)
            else:
                answer.set_result(value)  # pyright: ignore[reportArgumentType]

        def asks() -> None:
            value, error = None, None
            try:
                with self._turn:
                    value = work(self._remote)
            except Exception as raised:
                error = raised
            _tell(loop, settle, value, error)

        threading.Thread(target=asks, name="pullcord-ask", daemon=True).start()
        return await answer


def _after(news: ListUpdate, event: ServerEvent, *, where: str) -> ListUpdate:
    """The news with one event more."""
    match event.kind:
        case "row":
            return news._replace(panels=[*news.panels, _panel(event)])
        case _ if event.kind == BACK:
            return ListUpdate(news.panels, is_fresh=True)
        case _ if event.kind == LOST:
            why = event.data.decode()
            trouble = f"No answer from {where}: {why}. Trying again. Runs go on as they are."
            return ListUpdate(news.panels, trouble=trouble)
        case _:
            return news


def _said(engaged: dict[str, Any]) -> str:
    scope = Scope(engaged["scope"], engaged["name"]) if engaged["scope"] != "all" else Scope()
    return Flag(scope, "", engaged["by"], engaged["reason"], "", engaged["at_ms"]).said()


def _panel(event: ServerEvent) -> Panel:
    try:
        return msgspec.json.decode(event.data, type=Panel)
    except msgspec.DecodeError as error:
        raise ServerRefused(f"The server tells something that cannot be read: {error}.") from None


async def _heard(ear: EventStream) -> AsyncGenerator[list[ServerEvent]]:
    """What is told, as it comes, some at a time. A thread listens until this is closed."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    told: deque[ServerEvent] = deque()
    end: list[Exception] = []

    def listens() -> None:
        try:
            for event in ear.events():
                told.append(event)
                _tell(loop, news.set)
        except Exception as error:
            end.append(error)
        _tell(loop, news.set)

    threading.Thread(target=listens, name="pullcord-listen", daemon=True).start()
    try:
        while True:
            await news.wait()
            news.clear()
            has_ended = bool(end)
            while told:
                yield [told.popleft() for _ in range(min(len(told), _BATCH))]
            if has_ended:
                raise end[0]
    finally:
        ear.cut()


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[..., object], *args: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
        loop.call_soon_threadsafe(what, *args)
