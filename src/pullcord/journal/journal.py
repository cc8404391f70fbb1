"""The journal as the rest of the program sees it: domain verbs, awaited, durable on return.

A dozen verbs are here. What concerns one matter only is in a facet of the journal, by its name.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from pullcord.core.acks import Ack
from pullcord.core.commands import Command, check_command
from pullcord.core.events import Record
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.text.secrets import Secrets
from pullcord.core.values import check_id, check_text
from pullcord.errors import InvalidInput, KillSwitchEngaged
from pullcord.journal.change_checks import check_change, check_ttl
from pullcord.journal.clock import Clock
from pullcord.journal.facets.changes import Changes
from pullcord.journal.facets.clock import StoreClock
from pullcord.journal.facets.families import Families
from pullcord.journal.facets.kill_switch import KillSwitch
from pullcord.journal.facets.live_text import LiveTexts
from pullcord.journal.facets.queue import RunQueue
from pullcord.journal.facets.retention import Retention
from pullcord.journal.facets.seal import Seal
from pullcord.journal.facets.stop_log import StopLog
from pullcord.journal.facets.witness import Witness
from pullcord.journal.hook_places import HookPlaces
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.open_store import opened
from pullcord.journal.rules.ledger import Appended, Change, Claim, Lease, Ledger
from pullcord.journal.rules.undriven_stops import Stopping
from pullcord.journal.rules.undriven_stops_awaited import performed
from pullcord.journal.store import Head, Store
from pullcord.journal.store_location import is_url
from pullcord.journal.stored_runs.run_records import ALL, existing, records_of
from pullcord.journal.stored_runs.snapshots import load
from pullcord.journal.views.for_people import ForPeople
from pullcord.journal.writer import ThreadWriter, WriteOutcome, Writer, settled
from pullcord.killswitch.flags import Flags

T = TypeVar("T")


class Journal:
    """An append-only record per run, and what everyone agrees on. What may be relied upon:

    - what a call returned from survives `kill -9` and a power cut;
    - the changes of one `append` are all there or none of them is, also across runs;
    - of two writers from the same `expected_seq` one is refused, and so is any earlier owner;
    - a command is decided on the run as it is at that instant, and its `Ack` names the winner;
    - a cancelled caller's write is finished first: the outcome is never in doubt in this process;
    - nothing that is registered as secret is written: everything passes the `seal` before it is.

    Its facets, each in `journal/facets` under the same name (`hooks`: in `hook_places`):

    - `changes`: hear of commits, stream a run; `live_text`: what is being said;
    - `families`: a run with those who work for it and those who go on from it;
    - `queue`: runs that need an owner, and the owners before; `clock`: what decides about time;
    - `witness`: what was seen of a run by a process that does not own it;
    - `kill_switch`: what it holds; `stop_log`: every stop; `retention`: what is forgotten;
    - `seal`: how secrets are kept out; `hooks`: how far each hook was told.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        writer: Writer | None = None,
        secrets: Secrets | None = None,
        path: str = "",
    ) -> None:
        self.secrets = secrets or Secrets()
        self.path, self.side = path, f"{path}-side" if path else ""
        self._store, self._clock = store, clock or store.clock
        self._closing = threading.Lock()
        flags = Flags(path)
        ledger = self._ledger = Ledger(self._clock, flags=flags)
        stopping = self._stopping = Stopping(ledger, path)
        writer = self._writer = writer or ThreadWriter(store)
        seal = self.seal = Seal(self.secrets)
        self.changes = Changes(store, writer, self._clock)
        self.live_text = LiveTexts(writer, ledger, seal)
        self.families = Families(writer, self._clock)
        self.queue = RunQueue(writer, ledger, stopping, self._clock)
        self.clock = StoreClock(writer, ledger, self._clock)
        self.witness = Witness(writer, ledger, seal)
        self.kill_switch = KillSwitch(
            flags, writer, ledger, stopping, clock=self._clock, side=self.side
        )
        self.stop_log = StopLog(writer, ledger, seal)
        self.retention = Retention(store, writer, ledger, seal)
        self.hooks = HookPlaces(writer, self._clock)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        secrets: Secrets | None = None,
    ) -> "Journal":
        """Open the SQLite store at `path`, made if there is none; or the PostgreSQL one at a URL,
        `postgresql://USER@HOST/DATABASE`. `":memory:"` keeps nothing.

        Raises:
            InvalidInput: a clock is given for a store that brings its own.
            StoreRefused: the path cannot serve as a store; the message says what to do.
            FormatUnknown: a newer pullcord wrote it.
        """
        if os.fspath(path) == ":memory:":
            return cls(MemoryStore(), clock=clock, secrets=secrets)
        if clock is not None and is_url(os.fspath(path)):
            raise InvalidInput(
                "Cannot open a store in PostgreSQL with clock=: its leases count on the database's "
                "own clock, which all machines share. Nothing was opened. Leave clock= out."
            )
        store = opened(path)
        return cls(store, clock=clock, secrets=secrets, path=store.beside)

    async def __aenter__(self) -> "Journal":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Finish what was handed in and let go of the store. Safe to call twice, at once too.

        A caller that is cancelled meanwhile waits for it all the same: half closed is not a state.
        """
        loop = asyncio.get_running_loop()
        closed: WriteOutcome[None] = WriteOutcome(loop=loop)

        def close() -> None:
            try:
                self._close()
            finally:
                loop.call_soon_threadsafe(closed.set_result, None)

        threading.Thread(target=close, name="pullcord-closer", daemon=True).start()
        await settled(closed)

    def _close(self) -> None:
        with self._closing:  # one after the other; the second finds nothing left to do
            self._writer.close()
            try:
                self.changes.close()
            finally:
                self._store.close()

    # --- write ---

    async def append(self, *changes: Change) -> list[Appended | Ack]:
        """Carry out every change in one transaction and return what became of each, in order.

        Raises:
            Conflict: a run does not end at the `expected_seq` given for it.
            Fenced: the epoch is not the run's present one.
            ImpossibleEvent: the state table does not allow it.
            RunNotFound: no such run, and the change does not create it.
        """
        for change in changes:
            check_change(change)
        written = self.seal.changes(changes)
        try:
            return await self._writer.write(lambda tx: self._ledger.write(tx, written))
        except KillSwitchEngaged as refused:
            raise KillSwitchEngaged(await self.kill_switch.told(refused.said)) from None

    async def command(self, run_id: str, command: Command) -> Ack:
        """Decide a control and return its answer, durable. A refusal is an answer, not an error.

        Raises:
            RunNotFound, InvalidInput: there is nothing to decide.
        """
        check_id(run_id)
        check_command(command)
        written = self.seal.command(command)
        ack = await performed(self._stopping.command(run_id, written), self._writer)
        if ack.reason == "kill_switch":
            said = await self.kill_switch.told(ack.message)
            ack = msgspec.structs.replace(ack, message=said)
        return ack

    async def acquire(
        self,
        run_id: str,
        *,
        owner: str,
        ttl_s: float,
        held: Lease | None = None,
        code_version: str = "",
        trace: str = "",
    ) -> Claim | None:
        """Take a run that needs an owner and has none, or whose lease has lapsed. Else None.

        `held` is the caller's own lease, of a run that it has kept while it was at rest.
        """
        check_id(run_id)
        check_id(self.seal.text(owner), kind="owner")
        code_version = check_text(self.seal.text(code_version), field="code version")
        check_ttl(ttl_s)
        return await self._writer.write(
            lambda tx: self._ledger.acquire(
                tx,
                run_id,
                owner=owner,
                ttl_s=ttl_s,
                held=held,
                code_version=code_version,
                trace=trace,
            )
        )

    async def renew(self, *leases: Lease, ttl_s: float) -> list[Lease]:
        """Hold these runs for `ttl_s` from now, in one transaction. Return the leases that are
        lost: another owner has the run, or it was given back. Abandon those."""
        check_ttl(ttl_s)
        return await self._writer.write(lambda tx: self._ledger.renew(tx, leases, ttl_s=ttl_s))

    async def release(self, lease: Lease) -> None:
        """Give a run back. Does nothing if it is lost already."""
        await self._writer.write(lambda tx: self._ledger.release(tx, lease))

    # --- read ---

    async def for_people(self, look: Callable[[ForPeople], T], *, hold_s: float = 10.0) -> T:
        """Return what `look` finds at one look at the store, as people may see it.

        `hold_s`: how long a pause lets a model finish its answer.
        """
        return await self._writer.read(
            lambda view: look(ForPeople(view, self._clock, hold_s=hold_s))
        )

    async def load(self, run_id: str) -> Run:
        """Return the run as its records make it."""
        return await self._writer.read(lambda view: load(view, existing(view, run_id)))

    async def head(self, run_id: str) -> Head:
        """Return the end of the run's journal and who holds it."""
        return await self._writer.read(lambda view: existing(view, run_id))

    async def read(self, run_id: str, *, after_seq: int = 0, limit: int = ALL) -> list[Record]:
        """Return the run's records after `after_seq`, each checked against the one before."""
        return await self._writer.read(lambda view: records_of(view, run_id, after_seq, limit))

    async def runs(
        self,
        *,
        states: Iterable[RunState] = RunState,
        thread: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Head]:
        """Return the newest runs in these states; page on with `before`, a run id."""
        wanted = tuple(states)
        return await self._writer.read(
            lambda view: view.heads(states=wanted, thread=thread, before=before, limit=limit)
        )
