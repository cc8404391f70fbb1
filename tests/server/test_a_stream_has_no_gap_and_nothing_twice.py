"""Whoever reads a run's events, cut off anywhere and as often as one likes, has the journal.

Every record exactly once and in order; of what is said live, every character once; through
pauses, restarts, slow reading and quarantine.
"""

import asyncio
import json
import random
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from pullcord import AgentConfig, Context, RunHandle, RunState
from pullcord.core.events import StepFinished, TextEnded, encode_event
from pullcord.core.show.panel import Panel
from pullcord.core.show.story import Names, tell
from pullcord.core.show.withhold import as_viewed
from pullcord.errors import StorageFailed
from pullcord.journal.stored_runs.run_records import START
from pullcord.journal.views.for_people import ForPeople
from pullcord.limits import Never
from pullcord.server.bounds import Bounds
from pullcord.server.event_streams import Stream
from pullcord.server.hub import Hub
from tests.runs.observed_runs import happened, seen
from tests.server.http import Message, Reader, flat, message_of, request_bytes
from tests.server.running_server import BOUND_S, RunningServer, running_server
from tests.storage.campaign import FULL, fresh_seed

CUTS: Final = 2_000 if FULL else 60
READERS: Final = 2_000 if FULL else 150
PAST: Final = attrgetter("_past")
PLACE: Final = attrgetter("_place")
LINE: Final = "the quick brown fox jumps over the lazy dog and is not seen again "


class Teller:
    """An agent that says what the test hands it, in parts, with steps in between."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[str] = asyncio.Queue()

    async def tells(self, ctx: Context) -> str:
        while (text := await ctx.say(self)) != "end":
            await ctx.step("count", counted, text)
        return "told"

    def __aiter__(self) -> "Teller":
        return self

    async def __anext__(self) -> str:
        if (word := await self.words.get()) == "\n":
            raise StopAsyncIteration
        return word

    def say(self, *words: str) -> None:
        for word in words:
            self.words.put_nowait(word)

    def end(self) -> None:
        self.say("\n", "end", "\n")


async def counted(text: str) -> int:
    return len(text)


async def asks(ctx: Context) -> Any:
    return await ctx.ask("Which one?")


@pytest.fixture
def teller() -> Teller:
    return Teller()


@pytest.fixture
async def there(tmp_path: Path, teller: Teller) -> AsyncGenerator[RunningServer]:
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, tells=teller.tells, asks=asks) as made,
    ):
        yield made


# --- what a reader has ----------------------------------------------------------------------------


class Book:
    """What one reader has put together, as a page would. It complains of gaps and doubles."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.parts: dict[str, str] = {}
        self.last_id = ""
        self.cuts = 0
        self.lagged = 0

    def take(self, message: Message) -> None:
        match message.event:
            case "record":
                seq = message.data["seq"]
                assert seq == len(self.records) + 1, f"{seq} after {len(self.records)}"
                self.records.append(message.data)
                event = message.data["event"]
                if event["type"] == "text_ended":
                    said = self.parts.pop(event["part"], "")
                    assert event["text"].startswith(said), (said, event)
            case "text":
                part, offset = message.data["part"], message.data["offset"]
                assert offset == len(self.parts.get(part, "")), (message, self.parts)
                self.parts[part] = self.parts.get(part, "") + message.data["text"]
            case "lagged":
                self.lagged += 1
            case kind:
                assert kind in ("panel", "row", "bye"), message
        self.last_id = message.id or self.last_id

    @property
    def has_ended(self) -> bool:
        return bool(self.records) and self.records[-1]["event"]["type"] == "completed"


async def journal(there: RunningServer, run: RunHandle) -> list[dict[str, Any]]:
    """The run's records as they are shown, with the words for them."""
    names = Names()
    return [
        {
            "seq": record.seq,
            "at_ms": record.at_ms,
            "epoch": record.epoch,
            "event": json.loads(encode_event(as_viewed(record.event, hide=False))),
            "told": json.loads(msgspec.json.encode(tell(record, names))),
            **({"drift_ms": record.drift_ms} if record.drift_ms else {}),
        }
        for record in await there.runtime.journal.read(run.id)
    ]


async def whole(reader: Reader, book: Book) -> None:
    """Read until the run has ended."""
    while not book.has_ended:
        message = await reader.message()
        assert message, "the stream has ended"
        book.take(message)


async def some_bytes(there: RunningServer, target: str, book: Book, most: int) -> bool:
    """Read so many bytes and be cut off in the midst of whatever comes then. Whether the run's
    end was among them."""
    headers = there.headers() | ({"Last-Event-ID": book.last_id} if book.last_id else {})
    reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
    try:
        writer.write(request_bytes("GET", target, headers.items()))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.partition(b"\r\n")[0], head
        raw = b""
        while len(raw) < most and not book.has_ended:
            if not (more := await reader.read(most - len(raw))):
                break
            raw += more
            if len(raw) >= most or b'"type":"completed"' in raw:
                break
    finally:
        writer.transport.abort()
    *blocks, _cut_off = unchunked(raw).split(b"\n\n")
    for block in blocks:
        if message := message_of(block):
            book.take(message)
    book.cuts += 1
    return book.has_ended


def unchunked(raw: bytes) -> bytes:
    found = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        try:
            length = int(size, 16)
        except ValueError:
            break  # cut off inside of a size
        found += raw[:length]
        raw = raw[length + 2 :]
    return found


# --- cut off --------------------------------------------------------------------------------------


@pytest.mark.campaign
@pytest.mark.timeout(900)
async def test_a_reader_that_is_cut_off_anywhere_has_the_journal_in_the_end(
    tmp_path: Path, teller: Teller
) -> None:
    """At random bytes, while the run talks, is paused, told something, and goes on."""
    seed = fresh_seed() if FULL else 5
    bounds, tells = Bounds(ring=4096, chunk=512), AgentConfig(teller.tells, limits=Never())
    async with (
        asyncio.timeout(900 if FULL else BOUND_S),
        running_server(tmp_path, bounds=bounds, tells=tells) as there,
    ):
        run = await there.start("tells")
        draw = random.Random(seed)
        book = Book()
        talking = asyncio.create_task(talk(teller, run, random.Random(seed + 1)))
        target = f"/runs/{run.id}/events"
        while book.cuts < CUTS:
            assert not await some_bytes(there, target, book, int(draw.expovariate(1 / 900)) + 150)
        talking.cancel()
        await asyncio.wait([talking])
        await run.resume(by="ana")
        teller.end()
        async with there.reading(target, last_id=book.last_id) as reader:
            await whole(reader, book)
        assert book.records == await journal(there, run)
        assert book.parts == {}
        ended = await happened(there.runtime, run.id, TextEnded)
        print(f"{book.cuts} cuts, {len(book.records)} records, {len(ended)} parts")


async def talk(teller: Teller, run: RunHandle, draw: random.Random) -> None:
    """Say things, begin new parts, pause and go on, until stopped."""
    while True:
        for _ in range(draw.randrange(1, 12)):
            teller.say(draw.choice(LINE.split()) + " ")
        if draw.random() < 0.15:
            teller.say("\n")
        match draw.random():
            case luck if luck < 0.04:
                await run.pause(by="bo")
                teller.say("held ", "back ")
                await asyncio.sleep(draw.random() * 0.01)
                await run.resume(by="bo")
            case luck if luck < 0.08:
                await run.redirect("faster", by="ana")
            case _:
                await asyncio.sleep(draw.random() * 0.01)


async def test_text_that_is_held_while_a_run_pauses_is_shown_when_it_goes_on(
    there: RunningServer, teller: Teller
) -> None:
    run = await there.start("tells")
    book = Book()
    async with there.reading(f"/runs/{run.id}/events") as reader:
        teller.say("one ")
        for message in await reader.until("text", text="one "):
            book.take(message)
        await run.pause(by="ana")
        teller.say("two ")
        for message in await reader.until("record", type="pause_requested"):
            book.take(message)
        await run.resume(by="ana")
        teller.say("three ")
        teller.end()
        await whole(reader, book)
    assert book.records == await journal(there, run)
    [first, *_] = await happened(there.runtime, run.id, TextEnded)
    assert first.text == "one two three "


@pytest.mark.parametrize("after", ["0", "now"])
async def test_who_connects_again_by_itself_is_not_told_twice(
    there: RunningServer, teller: Teller, after: str
) -> None:
    """A browser's own EventSource sends the address as it was, and where it is in a header."""
    run = await there.start("tells")
    teller.say("before", "\n")
    await seen(run, StepFinished)  # what is recorded of that part is recorded
    target = f"/runs/{run.id}/events?after={after}"
    async with there.reading(target) as reader:
        await reader.until("panel")
        teller.say("a ")
        await reader.until("text", text="a ")
        last_id = reader.last_id
    teller.say("b ")
    async with there.reading(target, last_id=last_id) as reader:
        first = await reader.until("text")
        assert [m.data["text"] for m in first if m.event == "text"] == ["b "]
        assert not [m for m in first if m.event == "record"]


async def test_what_was_said_is_not_told_again_after_the_record_that_has_all_of_it(
    there: RunningServer, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, and is over, just before the reader is given what came before it."""
    run = await there.start("tells")
    target, book, is_over = f"/runs/{run.id}/events", Book(), threading.Event()
    main, read = asyncio.get_running_loop(), PAST(Stream)
    teller.say("one ", "\n")
    async with there.reading(target) as watcher:
        await watcher.until("record", type="text_ended")

        async def past(stream: Stream, run_id: str) -> Any:
            if PLACE(stream) == START and not is_over.is_set():  # not the watcher, who is further
                main.call_soon_threadsafe(teller.say, "two ", "\n")
                await asyncio.to_thread(is_over.wait)
            return await read(stream, run_id)

        monkeypatch.setattr(Stream, "_past", past)
        reading = asyncio.create_task(had_all(there, target, book))
        try:
            await watcher.until("record", type="text_ended")
        finally:
            is_over.set()
        teller.end()
        await reading
    assert book.records == await journal(there, run)
    assert book.parts == {}


async def had_all(there: RunningServer, target: str, book: Book) -> None:
    async with there.reading(target) as reader:
        await whole(reader, book)


async def test_now_is_without_history_but_with_what_is_being_said(
    there: RunningServer, teller: Teller
) -> None:
    run = await there.start("tells")
    async with there.reading(f"/runs/{run.id}/events") as reader:
        teller.say("hello ")
        await reader.until("text", text="hello ")
    async with there.reading(f"/runs/{run.id}/events?after=now") as reader:
        found = await reader.until("text")
        assert [message.event for message in found] == ["text"]
        assert found[0].data["offset"] == 0


async def test_a_bar_is_told_how_the_run_is_and_nothing_else(there: RunningServer) -> None:
    run = await there.start("asks")
    await run.wait_for(RunState.WAITING)
    async with there.reading(f"/runs/{run.id}/events?only=panel") as reader:
        first = await reader.message()
        assert first
        assert (first.event, first.data["state"]) == ("panel", "waiting")
        await run.cancel(by="ana")
        taken = await reader.until("panel", state="cancelled")
        assert {message.event for message in taken} == {"panel"}


async def test_who_comes_after_an_answer_is_shown_nothing_older(there: RunningServer) -> None:
    run = await there.start("asks")
    await run.wait_for(RunState.WAITING)
    path = f"/runs/{run.id}"
    async with there.reading(f"{path}/events"):  # somebody watches: it is not looked at anew
        for _ in range(15):
            for verb, states in (("pause", {"pausing", "paused"}), ("resume", set[str]())):
                assert (await there.post(f"{path}/{verb}")).json["verdict"] == "applied"
                async with there.reading(f"{path}/events?only=panel") as reader:
                    [panel] = await reader.until("panel")
                assert (panel.data["state"] in states) == (verb == "pause"), (verb, panel)


# --- slow -----------------------------------------------------------------------------------------


async def test_a_slow_reader_is_told_so_and_then_has_everything(
    tmp_path: Path, teller: Teller
) -> None:
    bounds = Bounds(ring=2048, chunk=256)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, tells=teller.tells) as there,
    ):
        run = await there.start("tells")
        target = f"/runs/{run.id}/events"
        slow, quick = Book(), Book()
        async with (
            there.reading(target, buffer=32 * 1024) as behind,
            there.reading(target) as ahead,
        ):
            teller.say("first ")
            for message in await behind.until("text", text="first "):
                slow.take(message)
            for number in range(80):
                teller.say(f"{LINE * 120} {number}", "\n")
            teller.end()
            await whole(ahead, quick)  # not held up by the one who reads nothing meanwhile
            await whole(behind, slow)
        assert slow.lagged
        assert slow.records == quick.records == await journal(there, run)


async def test_a_reader_of_a_long_past_has_all_of_it(tmp_path: Path, teller: Teller) -> None:
    """More than fits in one look at the journal, in any sizes."""
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=Bounds(chunk=2048), tells=teller.tells) as there,
    ):
        run = await there.start("tells")
        for number in range(150):
            teller.say(LINE * (number % 40), f"{number}", "\n")
        teller.end()
        await run.result()
        for after in ("", "?after=0"):
            book = Book()
            async with there.reading(f"/runs/{run.id}/events{after}") as reader:
                await whole(reader, book)
            assert book.records == await journal(there, run)


# --- many, and gone -------------------------------------------------------------------------------


@pytest.mark.campaign
@pytest.mark.timeout(600)
async def test_many_readers_are_each_told_everything(tmp_path: Path, teller: Teller) -> None:
    async with (
        asyncio.timeout(600 if FULL else BOUND_S),
        running_server(tmp_path, tells=teller.tells) as there,
    ):
        run = await there.start("tells")
        books = [Book() for _ in range(READERS)]
        async with many(there, f"/runs/{run.id}/events", READERS) as readers:
            for number in range(10):
                teller.say(f"{number} ", LINE, "\n")
            teller.end()
            await asyncio.gather(*map(whole, readers, books))
        wanted = await journal(there, run)
        assert all(book.records == wanted for book in books)


@asynccontextmanager
async def many(there: RunningServer, target: str, count: int) -> AsyncGenerator[list[Reader]]:
    request = request_bytes("GET", target, there.headers().items())
    readers: list[Reader] = []
    try:
        for _ in range(count):
            readers.append(await Reader.open(there.port, request))
        yield readers
    finally:
        for reader in readers:
            reader.close()


async def test_a_run_goes_on_when_everybody_has_closed_the_page(
    there: RunningServer, teller: Teller
) -> None:
    run = await there.start("tells")
    async with many(there, f"/runs/{run.id}/events", 20) as readers:
        teller.say("hello ")
        for reader in readers:
            await reader.until("text")
    teller.say("and on ")
    teller.end()
    assert await run.result() == "told"
    told = {record["event"]["type"] for record in await journal(there, run)}
    assert not told & {"pause_requested", "cancel_requested", "paused", "cancelled"}


async def test_a_stop_of_the_server_lets_everybody_go_with_a_word_and_stops_no_run(
    tmp_path: Path, teller: Teller
) -> None:
    async with asyncio.timeout(BOUND_S), running_server(tmp_path, tells=teller.tells) as there:
        run = await there.start("tells")
        lists, watchers = many(there, "/events", 20), many(there, f"/runs/{run.id}/events", 30)
        async with lists as some, watchers as others:
            teller.say("hello ")
            for reader in others:
                await reader.until("text")
            assert there.server
            async with asyncio.timeout(10):
                await there.server.stop()
            for reader in (*some, *others):
                assert (await reader.until("bye"))[-1].data == {"why": "shutdown"}
                assert await reader.message() is None
        teller.end()
        assert await run.result() == "told"


async def test_a_reader_goes_on_where_it_was_when_the_server_was_started_again(
    tmp_path: Path, teller: Teller
) -> None:
    book = Book()
    async with asyncio.timeout(BOUND_S):
        async with running_server(tmp_path, tells=teller.tells) as there:
            run = await there.start("tells")
            port, run_id = there.port, run.id
            async with there.reading(f"/runs/{run_id}/events") as reader:
                teller.say("one ", "\n", "two ", "\n", "and so ")
                for message in await reader.until("text", text="and so "):
                    book.take(message)
        again = Teller()
        async with running_server(tmp_path, port=port, tells=again.tells) as there:
            run = await there.runtime.get(run_id)
            again.say("on ")
            again.end()
            async with there.reading(f"/runs/{run_id}/events", last_id=book.last_id) as reader:
                await whole(reader, book)
            assert book.records == await journal(there, run)


TROUBLE: Final = StorageFailed("Reading", path="store.db", why="I/O error", instead="Look at it.")


# --- the list of runs -----------------------------------------------------------------------------


async def test_a_list_is_told_of_every_run_that_changes(there: RunningServer) -> None:
    first = await there.start("asks")
    await first.wait_for(RunState.WAITING)
    async with there.reading("/events") as reader:
        second = await there.start("asks")
        await reader.until("row", run=second.id, state="waiting")
        await first.cancel(by="ana")
        await reader.until("row", run=first.id, state="cancelled")
    async with there.reading(f"/events?run={first.id}&after=now") as reader:
        await reader.until("panel", run=first.id)
        await second.cancel(by="ana")
        await reader.until("row", run=second.id, state="cancelled")


async def test_a_run_that_cannot_be_read_does_not_keep_the_list_from_the_others(
    there: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = await there.start("asks")
    await broken.wait_for(RunState.WAITING)
    look = ForPeople.panel
    tried = asyncio.Event()
    loop = asyncio.get_running_loop()

    def panel(people: ForPeople, run_id: str) -> Panel:
        if run_id == broken.id:
            loop.call_soon_threadsafe(tried.set)
            raise TROUBLE
        return look(people, run_id)

    async with there.reading("/events") as reader:
        monkeypatch.setattr(ForPeople, "panel", panel)
        await broken.redirect("left", by="ana")
        await tried.wait()
        other = await there.start("asks")
        await reader.until("row", run=other.id)


async def test_who_watches_a_run_that_cannot_be_read_any_more_is_let_go(
    there: RunningServer, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await there.start("tells")
    target = f"/runs/{run.id}/events"
    look = ForPeople.panel

    def panel(*_: object) -> Panel:
        raise TROUBLE

    async with there.reading(target) as reader:
        teller.say("one ")
        await reader.until("text", text="one ")
        monkeypatch.setattr(ForPeople, "panel", panel)
        teller.say("\n")
        assert (await reader.until("bye"))[-1].data == {"why": "trouble"}
        last_id = reader.last_id
    monkeypatch.setattr(ForPeople, "panel", look)
    async with there.reading(target, last_id=last_id) as reader:
        teller.say("two ")
        await reader.until("text", text="two ")


# --- quarantine -----------------------------------------------------------------------------------

SAID: Final = "the-word-nobody-may-have"


async def confesses(ctx: Context, given: Any) -> Any:
    async for _ in ctx.plan([f"plan {SAID}", "then"]):
        await ctx.step("look", counted_with_words)
        await ctx.say(f"I say {SAID}")
        # What is asked about is named after its first words: they are not to be had by its id.
        await ctx.ask(f"{SAID}: may I say so?", details={"what": SAID})


def hears_nothing(*_: object, **__: object) -> None: ...


async def counted_with_words() -> str:
    return f"result {SAID}"


async def test_nothing_that_was_said_is_sent_to_whoever_comes_after_a_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(BOUND_S), running_server(tmp_path, confesses=confesses) as there:
        run = await there.start("confesses", input=f"input {SAID}")
        await run.wait_for(RunState.WAITING)
        path = f"/runs/{run.id}"
        async with there.reading(f"{path}/events") as early, there.reading("/events") as rows:
            await early.until("record", type="asked")
            monkeypatch.setattr("pullcord.server.hub.Channel._add", hears_nothing)
            stop = await there.post(f"{path}/cancel", {"quarantine": True, "reason": "stop"})
            assert stop.status == 200
            # at once: whoever watches for all readers may not have heard of it yet
            for after in ("0", "1", "now"):
                async with there.reading(f"{path}/events?after={after}") as late:
                    taken = await late.until("panel", state="cancelled")
                    assert not [message for message in taken if SAID in str(message)]
            taken = await rows.until("row", state="cancelled")
            assert not [message for message in taken if SAID in str(message)]
        for place in (path, f"{path}/records", f"{path}/receipt", "/runs", "/inbox"):
            answer = await there.get(place)
            assert answer.status == 200
            assert SAID.encode() not in answer.body, place


async def test_a_quarantine_between_two_looks_is_not_overlooked(
    there: RunningServer, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is recorded after the run was looked at, and before what happened since is read."""
    run = await there.start("tells")
    async with there.reading(f"/runs/{run.id}/events") as reader:
        teller.say(f"I say {SAID}", "\n", "more")
        await reader.until("record", type="text_ended")
    look, is_first = Hub.look, True

    async def looking(hub: Hub, at: Any) -> Any:
        nonlocal is_first
        found = await look(hub, at)
        if is_first:
            is_first = False
            await run.cancel(by="ana", quarantine=True)
        return found

    monkeypatch.setattr(Hub, "look", looking)
    while is_first:  # until nobody watches any more, and so the run is looked at anew
        async with there.reading(f"/runs/{run.id}/events?after=now") as reader:
            await reader.until("panel")
    async with there.reading(f"/runs/{run.id}/events?after=now") as reader:
        await reader.until("panel", state="cancelled")
        async with there.reading(f"/runs/{run.id}/events") as late:
            taken = await late.until("panel", state="cancelled")
            assert SAID not in str([flat(message.data) for message in taken])
