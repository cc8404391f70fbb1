"""Promise: whatever has happened to a run, every surface shows the same of it, and none shows what
another hides.

A run is made of random records, controls and live text, all of which say a word. After each of
them it is read through the command line, the bar of a terminal, `top`, the server and a handle;
some of those have followed it from some record on. When the run is quarantined or forgotten, none
of them has the word any more, but for what was handed over before to those who cannot take it back.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from pullcord.cli.commands.doctor import examine_store
from pullcord.cli.live.local_run import LocalRun
from pullcord.cli.local_runs import LocalRuns
from pullcord.client.http import ServerEvent as Sent
from pullcord.client.replies import item, record
from pullcord.core.commands import Answer, Cancel, Command, Forget, Pause, Redirect, Rename, Resume
from pullcord.core.events import (
    AttentionRaised,
    Cancelled,
    Completed,
    Created,
    Event,
    Failed,
    GuardTripped,
    ItemStarted,
    Paused,
    PlanItem,
    Planned,
    QuestionAsked,
    Record,
    Remembered,
    StepFailed,
    StepFinished,
    StepStarted,
    TextEnded,
    encode_event,
)
from pullcord.core.states import RunState
from pullcord.core.values import dump
from pullcord.errors import PullcordError, RunForgotten
from pullcord.journal.journal import Journal
from pullcord.journal.open_store import opened
from pullcord.journal.rules.ledger import Append, Lease
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import START
from pullcord.tui.local_source import LocalSource
from tests.conftest import FULL
from tests.server.running_server import BOUND_S, RunningServer, running_server

WORD: Final = "zzword"
RUN: Final = "r1"
SEEDS: Final = 400 if FULL else 8
MOVES: Final = 24


def said_by(item: Record | LiveText) -> str:
    """As it would be kept: a record with its number, or a piece of text."""
    if isinstance(item, Record):
        return f"{item.seq} {encode_event(item.event).decode()}"
    return f"text {item.part} {item.offset} {item.text}"


class Watcher:
    """Somebody who follows the run and keeps what they are shown, as long as they may.

    `takes_back`: they let go of what they may not show any more. What a terminal has printed, or a
    program was told, cannot be taken back."""

    def __init__(self, name: str, *, takes_back: bool) -> None:
        self.name = name
        self.takes_back = takes_back
        self.told: list[str] = []
        self.changed = asyncio.Event()

    def take(self, *items: Record | LiveText) -> None:
        for what in items:
            self.told.append(said_by(what))
            if isinstance(what, Record) and isinstance(what.event, TextEnded):
                begins = f"text {what.event.part} "  # the record has all of it
                self.told = [one for one in self.told if not one.startswith(begins)]
        self.changed.set()

    def let_go(self) -> None:
        self.told = []

    async def has(self, wanted: Sequence[str]) -> None:
        """Wait until they have exactly this."""
        try:
            async with asyncio.timeout(BOUND_S):
                while sorted(self.told) != sorted(wanted):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            only, missing = set(self.told) - set(wanted), set(wanted) - set(self.told)
            raise AssertionError(f"{self.name} alone has {only}, and has not {missing}") from None


class Story:
    """One run, driven by nobody but this."""

    def __init__(self, journal: Journal, seed: int) -> None:
        self.journal = journal
        self.dice = random.Random(seed)
        self._lease: Lease | None = None
        self._texts: dict[str, int] = {}
        self._n = 0

    async def begins(self) -> None:
        born = Created(agent="a", thread="t", input=dump(WORD))
        await self.journal.append(Append(run_id=RUN, events=[born], expected_seq=0))

    async def goes_on(self) -> None:
        """Something more happens to it; if it cannot, nothing does."""
        self._n += 1
        move = self.dice.choices([self._record, self._text, self._control], [6, 3, 2])[0]
        try:
            await move()
        except PullcordError:
            pass

    async def is_cancelled(self) -> None:
        if self.dice.random() < 0.8:
            await self._command(Cancel(by="ana"))

    async def is_quarantined(self) -> None:
        if self.dice.random() < 0.7:
            await self._command(Cancel(by="ana", quarantine=True))

    async def ends(self) -> None:
        if self._lease:
            await self._append(Cancelled(), Failed(error=WORD))

    async def is_gone(self) -> None:
        if self.dice.random() < 0.5:
            await self.journal.retention.forget(RUN, Forget(by="ana"))

    async def _own(self) -> Lease | None:
        """None: it rests, and needs no owner."""
        claim = await self.journal.acquire(RUN, owner="w", ttl_s=3600, held=self._lease)
        self._lease = claim.lease if claim else self._lease
        return self._lease

    async def _record(self) -> None:
        name = f"{self.dice.choice('abc')}{self._n}"
        run = await self.journal.load(RUN)
        open_step = (run.open_steps() or ["none"])[0]
        event: Event = self.dice.choice(
            [
                StepStarted(step=name, name=name, tool="look", args=dump(WORD)),
                StepStarted(step=name, name=name, model="m", args=dump(WORD)),
                StepFinished(step=open_step, result=dump(WORD)),
                StepFailed(step=open_step, error=WORD, at=WORD, traceback=WORD),
                TextEnded(part=name, text=WORD, complete=self.dice.random() < 0.5),
                QuestionAsked(question=f"{WORD}-{name}", text=WORD, details=dump(WORD)),
                QuestionAsked(
                    question=name,
                    kind="approval",
                    tool="send",
                    text=WORD,
                    details=dump({"args": {"to": WORD}}),
                    call="c",
                    step=f"s{name}",
                    due_ms=10**15,
                ),
                Planned(plan=name, items=(PlanItem(f"{name}-1", WORD),)),
                ItemStarted(plan=name, item=f"{name}-1", text=WORD),
                Remembered(key=name, value=dump(WORD)),
                GuardTripped(guard="g", on_hit="pause", part="p", evidence=WORD),
                AttentionRaised(item=name, text=WORD),
                Paused(),
                Completed(result=dump(WORD)) if self._n > MOVES // 2 else Paused(),
            ]
        )
        await self._append(event)

    async def _append(self, *events: Event) -> None:
        lease = await self._own()
        for event in events if lease else ():
            head = await self.journal.head(RUN)
            try:
                await self.journal.append(
                    Append(run_id=RUN, events=[event], expected_seq=head.seq, epoch=head.epoch)
                )
            except PullcordError:
                continue

    async def _text(self) -> None:
        lease, part = await self._own(), self.dice.choice(["p1", "p2"])
        text = f"{WORD} {self._n} "
        at = self._texts.get(part, 0)
        if lease and await self.journal.live_text.say(lease, part, text, offset=at) != "refused":
            self._texts[part] = self._texts.get(part, 0) + len(text)

    async def _control(self) -> None:
        commands: list[Command] = [
            Pause(by="ana"),
            Resume(by="ana", instruction=WORD),
            Redirect(by="ana", instruction=WORD),
            Answer(by="ana", question="x", value=dump(WORD)),
            Rename(by="ana", title=f"{WORD} {self._n}"),
        ]
        if self._n > MOVES // 3:
            commands += [Cancel(by="ana"), Cancel(by="ana", quarantine=True)]
        await self._command(self.dice.choice(commands))

    async def _command(self, command: Command) -> None:
        await self.journal.command(RUN, command)


# --- the surfaces ---------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def shown(panel: Any) -> Any:
    """But for the time: two surfaces look a moment apart."""
    seen = plain(panel)
    return {k: v for k, v in seen.items() if k not in ("at_ms", "times", "hold_left_ms", "meters")}


def waiting(inbox: Any) -> Any:
    """But for the time, and for what only the page needs."""
    seen = plain(inbox)
    for card in seen["cards"]:
        del card["expires_in_ms"]
        card.pop("shown", None)
        card.pop("policy", None)
    return seen


class Surfaces:
    """Everything that shows runs, over one store."""

    def __init__(self, there: RunningServer, desk: LocalRuns) -> None:
        self.there, self.desk = there, desk
        self.journal = there.runtime.journal
        self.top = LocalSource(self.journal, me="ana", name="store")
        self.bar = LocalRun(desk, RUN, after=START, hold_s=10.0)

    async def answers(self) -> dict[str, dict[str, Any]]:
        """What each of them shows, by what is shown."""
        page = (await self.there.get(f"/runs/{RUN}")).json
        records = (await self.there.get(f"/runs/{RUN}/records")).json["records"]
        receipt = (await self.there.get(f"/runs/{RUN}/receipt")).json
        in_words = receipt.pop("lines", [])
        inbox = (await self.there.get("/inbox")).json
        return {
            "records": {
                "cli": [said_by(one) for one in self.desk.records(RUN)],
                "server": [said_by(record(RUN, one)) for one in map(_wired, records)],
            },
            "in words": {"server": [in_words, [one.pop("told") for one in records]]},
            "receipt": {
                "cli": self._or_forgotten(lambda: plain(self.desk.receipt(RUN))),
                "top": await self._receipt_on_top(),
                "server": "forgotten" if "forgotten" in receipt.get("code", "") else receipt,
            },
            "panel": {
                "cli": shown(self.desk.panel(RUN)),
                "list": shown(self.desk.listed(RunState, 1)[0]),
                "bar": shown(self.bar.look().panel),
                "top": shown((await self.top.panels(RUN))[0]),
                "server": shown(page["panel"]),
            },
            "inbox": {
                "cli": waiting(self.desk.waiting(RUN)),
                "top": waiting(await self.top.waiting(RUN)),
                "server": waiting(inbox),
            },
            "input and result": {"server": [page["input"], page["result"]]},
            "findings": {"doctor": plain(list(examine_store(self.desk, self.desk.where)))},
        }

    def _or_forgotten(self, look: Callable[[], Any]) -> Any:
        try:
            return look()
        except RunForgotten:
            return "forgotten"

    async def _receipt_on_top(self) -> Any:
        try:
            return plain(await self.top.receipt(RUN))
        except RunForgotten:
            return "forgotten"

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[list[Watcher]]:
        """Four who follow the run from its first record on."""
        page, top = Watcher("server", takes_back=True), Watcher("top", takes_back=True)
        program, terminal = (Watcher(name, takes_back=False) for name in ("handle", "terminal"))
        async with asyncio.TaskGroup() as following:
            ways = (self._on_a_page(page), self._on_top(top), self._in_a_program(program))
            tasks = [following.create_task(way) for way in ways]
            yield [page, top, program, terminal]
            for task in tasks:
                task.cancel()

    async def _on_a_page(self, page: Watcher) -> None:
        async with self.there.reading(f"/runs/{RUN}/events") as reader:
            while message := await reader.message():
                event = Sent(message.id, message.event, msgspec.json.encode(message.data))
                if message.event == "anew":
                    page.let_go()
                elif message.event in ("record", "text"):
                    page.take(item(RUN, event)[1])

    async def _on_top(self, top: Watcher) -> None:
        async with aclosing(self.top.follow(RUN)) as batches:
            async for items, is_anew in batches:
                if is_anew:
                    top.let_go()
                top.take(*(what for _, what in items))

    async def _in_a_program(self, program: Watcher) -> None:
        handle = await self.there.runtime.get(RUN)
        async with aclosing(handle.events()) as events:
            async for _, what in events:
                program.take(what)


def _wired(said: Any) -> Any:
    return msgspec.convert({**said, "event": msgspec.json.encode(said["event"])}, Wired)


class Wired(msgspec.Struct):
    seq: int
    at_ms: int
    epoch: int
    event: bytes
    drift_ms: int = 0


@asynccontextmanager
async def surfaces(folder: Path) -> AsyncGenerator[Surfaces]:
    async with running_server(folder) as there:
        store = opened(str(folder / "store.db"), make=False)
        try:
            yield Surfaces(there, LocalRuns(store))
        finally:
            store.close()


# --- the promise ----------------------------------------------------------------------------------


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_all_surfaces_show_the_same_and_none_shows_what_another_hides(
    tmp_path: Path, seed: int
) -> None:
    async with surfaces(tmp_path) as here:
        story = Story(here.journal, seed)
        await story.begins()
        async with here.watched() as watchers:
            ends = (story.is_cancelled, story.is_quarantined, story.ends, story.is_gone)
            for move in (*[story.goes_on] * MOVES, *ends):
                before = {watcher.name: len(watcher.told) for watcher in watchers}
                await move()
                await all_show_the_same(here, watchers, before)


async def all_show_the_same(
    here: Surfaces, watchers: list[Watcher], before: dict[str, int]
) -> None:
    run = await here.journal.load(RUN)
    is_withdrawn = bool(run.forgotten or (run.cancel and run.cancel.quarantine))
    news = await here.journal.for_people(lambda look: look.news(RUN, START))
    truth = [said_by(what) for _, what in news.items]
    [terminal] = [watcher for watcher in watchers if watcher.name == "terminal"]
    terminal.take(*(what for _, what in here.bar.news()))
    for watcher in watchers:
        if watcher.takes_back or not is_withdrawn:
            await watcher.has(truth)
    answers = await here.answers()
    for what, by in answers.items():
        [first, *others] = by.values()
        assert all(other == first for other in others), (what, by)
    if is_withdrawn:
        assert WORD not in json.dumps(answers)
        assert WORD not in "".join(truth)
        for watcher in watchers:
            assert WORD not in "".join(watcher.told[before[watcher.name] :]), watcher.name
