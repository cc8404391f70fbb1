"""A world: a store, a witness, the actors on it; and what a person is told of it, and when."""

import asyncio
import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

import pullcord
from pullcord import Record, Run, RunHandle, Runtime
from pullcord.core.events import ChildBorn, Claimed
from pullcord.core.fold import evolve, replay
from pullcord.errors import PullcordError
from pullcord.journal.stored_runs.run_records import START
from tests import nursery
from tests.world.effects import WITNESS, now
from tests.world.lives import LEASE_S, Life
from tests.world.places import Database, File, Place
from tests.world.witness import ROOT, Effect, Witness

BOUND_S: Final = 60.0
ACTORS_MAX: Final = 8
PRELOADED: Final = ("tests.world.actors", "pullcord.agents.pydantic_ai")


class Told(NamedTuple):
    """A record, and when a person who watches the run was shown it."""

    record: Record
    at: float
    state: str  # of the run, with it


class Actor:
    """An actor's process, as the nemesis sees it."""

    def __init__(
        self, name: str, number: int, process: "subprocess.Popen[str]", place: Place
    ) -> None:
        self.name, self.number, self.pid = name, number, process.pid
        self._place = place
        self._process = process
        self.url = self.token = ""
        self.is_stopped = False
        self.shut_down_at = 0.0
        self.is_ready = asyncio.Event()
        self.writer: asyncio.StreamWriter | None = None
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._pidfd = -1

    @property
    def is_alive(self) -> bool:
        return self._pidfd >= 0 and not select.select([self._pidfd], [], [], 0)[0]

    def signal(self, number: signal.Signals) -> None:
        self.is_stopped = number is signal.SIGSTOP or (
            self.is_stopped and number is not signal.SIGCONT
        )
        if number is signal.SIGTERM:
            self.shut_down_at = self.shut_down_at or now()
        with contextlib.suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, number)

    async def stands_still(self) -> None:
        """Stop it, but not in the middle of a commit to a file: nobody else could write then, and
        no rule of ours can end that (the error names it: tests/storage)."""
        while True:
            self.signal(signal.SIGSTOP)
            await asyncio.sleep(0.01)  # it is stopped a moment after the signal
            if not self._place.is_held_by(self.pid):
                return
            self.signal(signal.SIGCONT)
            await asyncio.sleep(0.01)

    async def gone(self) -> None:
        while self.is_alive:  # noqa: ASYNC110 (another process ends)
            await asyncio.sleep(0.01)

    def tell(self, **what: Any) -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(json.dumps(what).encode() + b"\n")

    def wardens(self) -> list[int]:
        """Its children that are wardens: what it starts by itself, and is no tool."""
        found: list[int] = []
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        return [pid for pid in found if b"pullcord.warden" in _cmdline(pid)]

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class World:
    """Everything that there is while one seed is played."""

    def __init__(
        self, folder: Path, place: Place, *, plant: str = "", lease_s: float = LEASE_S
    ) -> None:
        self.folder, self.place, self._plant, self._lease_s = folder, place, plant, lease_s
        self.witness = Witness(folder)
        self.actors: dict[str, Actor] = {}  # the living one of each name
        self.everybody: list[Actor] = []
        self.told: dict[str, list[Told]] = {}  # run → what was shown of it
        self.looks: dict[str, Run] = {}  # the same, folded: only to choose what to do next
        self.roots: dict[str, str] = {}  # fork → the run it goes on from
        self.failures: list[str] = []  # of ours: a watcher that broke
        self._followers: set[asyncio.Task[None]] = set()
        self._born = asyncio.Event()
        self._numbers: dict[str, int] = {}
        self.runtime: Runtime

    # --- actors ---

    async def enters(self, name: str, **how: Any) -> Actor:
        """Bear an actor of this name; returns when it drives runs, or has died trying."""
        number = self._numbers.setdefault(name, len(self._numbers) + 1)
        given: dict[str, Any] = {"plant": self._plant, "lease_s": self._lease_s} | how
        life = Life(
            name=name,
            store=self.place.address(number),
            line=str(self.folder / "line.sock"),
            provider=self.witness.provider,
            log=str(self.folder / f"{name}.log"),
            **given,
        )
        actor = Actor(name, number, self._starts(life), self.place)
        self.actors[name] = actor
        self.everybody.append(actor)
        dying = asyncio.create_task(actor.gone())
        ready = asyncio.create_task(actor.is_ready.wait())
        await asyncio.wait({dying, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=BOUND_S)
        dying.cancel()
        ready.cancel()
        return actor

    def _starts(self, life: Life) -> "subprocess.Popen[str]":
        environment = {
            WITNESS: self.witness.socket,
            "PULLCORD_STATE": state_folder(),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        }
        with Path(life.log).open("a") as log:
            return nursery.start(
                "tests.world.actors",
                msgspec.json.encode(life).decode(),
                preloaded=PRELOADED,
                env=os.environ | environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                said = json.loads(line)
                if "started" in said:
                    if said.get("of"):
                        self.roots[said["started"]] = said["of"]
                    self.follow(said["started"])
                elif actor := next((a for a in self.everybody if a.pid == said["pid"]), None):
                    actor.url, actor.token = said.get("url", ""), said.get("token", "")
                    actor.writer = writer
                    actor.is_ready.set()
        writer.close()

    # --- what a person is told ---

    def follow(self, run_id: str) -> None:
        if run_id not in self.told:
            self.told[run_id] = []
            task = asyncio.create_task(self._following(run_id))
            self._followers.add(task)
            task.add_done_callback(self._followers.discard)

    async def _following(self, run_id: str) -> None:
        run, place = await self.run(run_id), START
        while True:
            try:
                async with contextlib.aclosing(run.events(after=place)) as events:
                    async for place, item in events:  # noqa: B007 (it is gone on from there)
                        if isinstance(item, Record):
                            self._take(run_id, item)
                return
            except PullcordError:
                await asyncio.sleep(0.05)

    def _take(self, run_id: str, record: Record) -> None:
        at = now()
        if run_id in self.looks:
            evolve(self.looks[run_id], record)
        else:
            self.looks[run_id] = replay(run_id, [record])
        self.told[run_id].append(Told(record, at, self.looks[run_id].state.value))
        if isinstance(record.event, ChildBorn):
            self.follow(record.event.child)

    async def run(self, run_id: str) -> RunHandle:
        async with asyncio.timeout(BOUND_S):
            while True:
                try:
                    return await self.runtime.get(run_id)
                except PullcordError:
                    await asyncio.sleep(0.02)

    def state(self, run_id: str) -> str:
        """As far as a person has been shown it."""
        return self.looks[run_id].state.value if run_id in self.looks else ""

    def owner(self, run_id: str) -> Actor | None:
        """The living actor that drives the run, as far as a person has been shown."""
        claims = [one.record.event for one in self.told.get(run_id, ())]
        pids = [claim.owner.split("-")[1] for claim in claims if isinstance(claim, Claimed)]
        return next((a for a in self.actors.values() if pids and str(a.pid) == pids[-1]), None)

    def effects(self) -> list[Effect]:
        return self.witness.seen()

    async def until(self, holds: Callable[[], object], bound_s: float = BOUND_S) -> None:
        """Look again and again, within a bound: other processes bring it about."""
        try:
            async with asyncio.timeout(bound_s):
                while not holds():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise TimeoutError(f"waited in vain for {bound_s} s\n{self._tale()}") from None

    async def tells(self) -> str:
        """The tale, after everybody was asked to say what they do."""
        for actor in self.actors.values():
            if actor.is_alive and actor.writer:
                actor.tell(do="tell")
        await asyncio.sleep(1)
        return self._tale()

    def _tale(self) -> str:
        """What was last seen of every run and actor, for whoever has to find out why."""
        runs = [f"{run}: {told[-1:]}" for run, told in self.told.items()]
        logs = [f"{a.name} ({a.pid}), alive: {a.is_alive}\n{self._log(a)}" for a in self.everybody]
        return "\n".join([*runs, *logs])

    def _log(self, actor: Actor) -> str:
        path = self.folder / f"{actor.name}.log"
        return path.read_text()[-20_000:] if path.exists() else ""

    # --- its end ---

    async def close(self) -> None:
        for task in list(self._followers):
            task.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)
        for actor in self.everybody:
            actor.signal(signal.SIGCONT)
            actor.signal(signal.SIGKILL)
        for actor in self.everybody:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await actor.gone()
            actor.close()
        await asyncio.to_thread(self._ends_strays)

    def _ends_strays(self) -> None:
        """Whatever still carries this world's mark was started by it: it must not tick for ever."""
        mark = f"WORLD_WITNESS={self.witness.socket}".encode()
        mine = self.witness.socket.encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                is_ours = mark in (entry / "environ").read_bytes().split(b"\0")
                if is_ours and mine not in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


@asynccontextmanager
async def world(kind: str, *, actors: int = ACTORS_MAX, **how: Any) -> AsyncGenerator[World]:
    """A world of its own on this kind of store, gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="pcw-") as name, contextlib.ExitStack() as left:
        folder = Path(name)
        left.enter_context(_state_of_its_own())
        place: Place = File(folder) if kind == "sqlite" else Database(actors)
        left.callback(place.close)
        made = World(folder, place, **how)
        left.callback(made.witness.close)
        line = await asyncio.start_unix_server(made._connected, str(folder / "line.sock"))  # pyright: ignore
        try:
            async with pullcord.open(place.address()) as made.runtime:
                try:
                    yield made
                finally:
                    place.back()
                    await made.close()
        finally:
            line.close()


_worlds: list[str | None] = []  # those that are open; first, what the variable was before them


@contextlib.contextmanager
def _state_of_its_own() -> Generator[None]:
    """What lies beside stores in PostgreSQL goes to a folder of this process, for all worlds that
    are open at once: the name of the store's schema and port keep them apart."""
    _worlds.append(os.environ.get("PULLCORD_STATE"))
    os.environ["PULLCORD_STATE"] = state_folder()
    try:
        yield
    finally:
        if len(_worlds) > 1:
            _worlds.pop()
        elif (before := _worlds.pop()) is None:
            os.environ.pop("PULLCORD_STATE", None)
        else:
            os.environ["PULLCORD_STATE"] = before


@cache
def state_folder() -> str:
    made = tempfile.mkdtemp(prefix="pcw-state-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
