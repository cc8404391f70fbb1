"""The journal as the rest of the program sees it: domain verbs, awaited, durable on return."""

import asyncio
import math
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from operator import is_
from typing import Any, TypeVar, cast

import msgspec

from pullcord.core.acks import Ack
from pullcord.core.commands import Command, Forget, check_command
from pullcord.core.conditions import Used
from pullcord.core.events import (
    AttentionRaised,
    Created,
    Event,
    LateResult,
    Record,
    TextEnded,
)
from pullcord.core.limits import Limits
from pullcord.core.run import Run
from pullcord.core.sealed import sealed
from pullcord.core.secrets import Secrets
from pullcord.core.states import RunState
from pullcord.core.stops import Act
from pullcord.core.values import check_id, check_text
from pullcord.errors import InvalidInput, KillSwitchEngaged, PullcordError
from pullcord.journal.bystanders import unasked
from pullcord.journal.checking import check_change, check_ttl
from pullcord.journal.clock import Clock
from pullcord.journal.families import (
    Effect,
    effects_to_undo,
    finding,
    members,
    undone_of,
    works_for,
)
from pullcord.journal.for_people import ForPeople, News
from pullcord.journal.hands import Answer, Hands, ThreadHands, settled
from pullcord.journal.holding import (
    check_engaged,
    held_runs,
    lower,
    outcomes,
    to_hold,
    unnoted,
)
from pullcord.journal.hook_places import HookPlaces
from pullcord.journal.ledger import Append, Appended, Change, Claim, Lease, Ledger, Order
from pullcord.journal.limiting import budgets_of, used_of
from pullcord.journal.live import Live
from pullcord.journal.memory import MemoryStore
from pullcord.journal.opening import opened
from pullcord.journal.place import is_url
from pullcord.journal.reading import (
    ALL,
    START,
    Cursor,
    Item,
    birth,
    existing,
    records_of,
    reusable,
    stream,
)
from pullcord.journal.retention import Candidate, Wanted, candidates
from pullcord.journal.snapshots import load
from pullcord.journal.steady import steady_now
from pullcord.journal.stopping import LetGo, Outside, Read, Steps, Stopping, Write
from pullcord.journal.store import Head, LiveText, Scrubbed, StopRow, Store, View
from pullcord.journal.watch import Changed, Watch
from pullcord.killswitch.flags import Flags, Scope
from pullcord.killswitch.pulled import Pulled

T = TypeVar("T")


class Journal:
    """An append-only record per run, and what everyone agrees on. What may be relied upon:

    - what a call returned from survives `kill -9` and a power cut;
    - the changes of one `append` are all there or none of them is, also across runs;
    - of two writers from the same `expected_seq` one is refused, and so is any earlier owner;
    - a command is decided on the run as it is at that instant, and its `Ack` names the winner;
    - a cancelled caller's write is finished first: the outcome is never in doubt in this process;
    - nothing that is registered as secret is written: everything passes `sealed` before it is.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        hands: Hands | None = None,
        secrets: Secrets | None = None,
        path: str = "",
    ) -> None:
        self.secrets = secrets or Secrets()
        self.flags = Flags(path)  # the kill switch, which is not in the store
        self.path, self.side = path, f"{path}-side" if path else ""
        self._store = store
        self._clock = clock or store.clock
        self._ledger = Ledger(self._clock, flags=self.flags)
        self._stopping = Stopping(self._ledger, path)
        self._hands = hands or ThreadHands(store)
        self._watch: Watch | None = None
        self._boot, self._base_ms = "", cast("int | None", None)  # see `now_ms`
        self._watch_lock = threading.Lock()
        self._closing = threading.Lock()

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
        closed: Answer[None] = Answer(loop=loop)

        def close() -> None:
            try:
                self._close()
            finally:
                loop.call_soon_threadsafe(closed.set_result, None)

        threading.Thread(target=close, name="pullcord-closer", daemon=True).start()
        await settled(closed)

    def _close(self) -> None:
        with self._closing:  # one after the other; the second finds nothing left to do
            self._hands.close()
            with self._watch_lock:
                watch, self._watch = self._watch, None
            try:
                if watch:
                    watch.close()
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
        if self.secrets:
            changes = tuple(map(self._sealed, changes))
        try:
            return await self._hands.write(lambda tx: self._ledger.write(tx, changes))
        except KillSwitchEngaged as refused:
            raise KillSwitchEngaged(await self._told(refused.said)) from None

    async def command(self, run_id: str, command: Command) -> Ack:
        """Decide a control and return its answer, durable. A refusal is an answer, not an error.

        Raises:
            RunNotFound, InvalidInput: there is nothing to decide.
        """
        check_id(run_id)
        check_command(command)
        written = check_command(sealed(command, self.secrets)) if self.secrets else command
        ack = await self._perform(self._stopping.command(run_id, written))
        if ack.reason == "kill_switch":
            ack = msgspec.structs.replace(ack, message=await self._told(ack.message))
        return ack

    async def _told(self, said: str) -> str:
        """What the kill switch refuses, with who engaged it and why. No transaction reads that."""
        return (await asyncio.to_thread(self.flags.look)).told(said)

    async def forget(self, run_id: str, command: Forget) -> Ack:
        """Delete what was said and done in an ended run that nobody needs. A refusal is an answer.
        Then `scrub`, once for as many runs as there are.

        Raises:
            RunNotFound, InvalidInput: there is nothing to decide.
            ChainBroken: it is damaged, and so it is evidence; nothing was deleted.
        """
        check_id(run_id)
        check_command(command)
        written = check_command(sealed(command, self.secrets)) if self.secrets else command
        return await self._hands.write(lambda tx: self._ledger.forget(tx, run_id, written))

    async def finish_cancelled(self) -> list[str]:
        """Let every cancelled run end whose process is gone, as far as that needs no agent, and
        return which have. Nobody has to press anything again."""
        return await self._perform(self._stopping.finish_cancelled())

    async def let_go_by(self, claim: Claim) -> LetGo:
        """Have the owners before let go of a run that was taken from them. Return when their
        wardens have ended what they held for it, or do not answer."""
        [said] = await self._perform(self._stopping.let_go([claim]))
        return said

    async def _perform(self, steps: Steps[T]) -> T:
        """Do what a stop needs, step by step, and return what comes of it."""
        result: Any = None
        trouble: PullcordError | None = None
        while True:
            try:
                step = steps.send(result) if trouble is None else steps.throw(trouble)
            except StopIteration as end:
                return end.value
            result, trouble = None, None
            try:
                match step:
                    case Write(job):
                        result = await self._hands.write(job)
                    case Read(job):
                        result = await self._hands.read(job)
                    case Outside(job):
                        result = await asyncio.to_thread(job)
            except PullcordError as error:
                trouble = error

    async def hold(self, *, within_s: float = math.inf) -> list[str]:
        """Pause every living run that the kill switch reaches, and return which that were; or as
        many as there is time for: the rest cannot start either."""
        raised = await asyncio.to_thread(self.flags.look)
        found = await self._hands.read(lambda view: to_hold(view, raised))
        for flag in await self._hands.read(lambda view: unnoted(view, raised)):
            await self._hands.write(lambda tx, f=flag: self._ledger.engaged(tx, f, raised))
        held, trouble = await self._perform(self._stopping.hold(found, within_s=within_s))
        if trouble:
            raise trouble
        return held

    async def answered(self, scope: Scope, pulled: Pulled) -> Pulled:
        """Record what pulling the kill switch has done, and return it with who else is there, as
        the journal knows."""
        now, raised = self._clock.boot_time(), await asyncio.to_thread(self.flags.look)
        others = await self._hands.read(lambda view: unasked(view, raised, now, self.side))
        known = pulled._replace(left=[*pulled.left, *others])
        await self._hands.write(lambda tx: self._ledger.answered(tx, scope, known, raised))
        return known

    async def held(self) -> tuple[list[str], list[Pulled]]:
        """Return every living run that the kill switch reaches, and what pulling it has done."""
        raised = await asyncio.to_thread(self.flags.look)
        return await self._hands.read(
            lambda view: (held_runs(view, raised), outcomes(view, raised))
        )

    async def release_switch(self, scope: Scope, *, by: str, reason: str, via: str) -> None:
        """Record that the kill switch is released for this, and only then release it.

        Raises:
            InvalidInput: it is not engaged for that.
            StorageFailed: it stays engaged.
        """
        raised = await asyncio.to_thread(self.flags.look)
        check_engaged(raised, scope)
        await self.hold()  # what nobody has paused yet would start behind the release
        await self._hands.write(
            lambda tx: self._ledger.released(tx, scope, raised, by=by, reason=reason, via=via)
        )
        lower(self.flags, scope)

    async def remark(self, run_id: str, raised: AttentionRaised) -> None:
        """Raise an attention item, or say more of an open one, without owning the run: whoever
        does may be unable to. Says nothing twice."""
        check_change(Append(run_id=run_id, events=[raised], expected_seq=0))
        await self._hands.write(lambda tx: self._ledger.remark(tx, run_id, raised))

    async def testify(self, run_id: str, late: LateResult) -> None:
        """Say what became of a step that was begun under a lease that is lost: evidence, recorded
        without a licence. Says nothing twice."""
        late = cast("LateResult", self.sealed(late))
        check_change(Append(run_id=run_id, events=[late], expected_seq=0))
        await self._hands.write(lambda tx: self._ledger.testify(tx, run_id, late))

    async def note(self, act: Act, run_id: str = "") -> None:
        """Add to the stop log what is no record of a run, or beside its records."""
        act = sealed(act, self.secrets) if self.secrets else act
        await self._hands.write(lambda tx: self._ledger.note(tx, act, run_id))

    async def stops(self, *, run: str | None = None, after: int = 0) -> list[StopRow]:
        """Return the stop log after an entry, or what it says of one run, as it is stored."""
        return await self._hands.read(lambda view: view.stops(after=after, limit=ALL, run=run))

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
        check_id(self.secrets.seal(owner), kind="owner")
        code_version = check_text(self.secrets.seal(code_version), field="code version")
        check_ttl(ttl_s)
        return await self._hands.write(
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

    async def free_the_gone(self) -> list[str]:
        """Take away what owners hold whose process on this machine is dead. Return those whose
        wardens have not ended everything yet: ask again soon."""
        return await self._hands.write(self._ledger.free_the_gone)

    async def renew(self, *leases: Lease, ttl_s: float) -> list[Lease]:
        """Hold these runs for `ttl_s` from now, in one transaction. Return the leases that are
        lost: another owner has the run, or it was given back. Abandon those."""
        check_ttl(ttl_s)
        return await self._hands.write(lambda tx: self._ledger.renew(tx, leases, ttl_s=ttl_s))

    async def release(self, lease: Lease) -> None:
        """Give a run back. Does nothing if it is lost already."""
        await self._hands.write(lambda tx: self._ledger.release(tx, lease))

    async def say(
        self, lease: Lease, part: str, text: str, *, offset: int, keep_held: bool = True
    ) -> str:
        """Add live text to a part: `shown`, `held` (the run is pausing) or `refused`.

        Returns when it is durable: text is shown only after that. The part's end is a record.
        Without `keep_held`, what is held was not added: say it again when the run goes on.
        """
        check_id(self.secrets.seal(part), kind="part")
        check_text(text, field="text")
        text = self.secrets.seal(text)  # who says it in pieces has sealed it before: see `Sealer`
        said = Live(part=part, offset=offset, text=text, keep_held=keep_held)
        return await self._hands.write(lambda tx: self._ledger.say(tx, lease, said))

    def sealed(self, event: Event) -> Event:
        """The event as it would be written."""
        return sealed(event, self.secrets, streamed=(TextEnded,))

    def _sealed(self, change: Change) -> Change:
        check_id(self.secrets.seal(change.run_id))
        if isinstance(change, Order):
            written: Change = Order(change.run_id, sealed(change.command, self.secrets))
        else:
            events = tuple(self.sealed(event) for event in change.events)
            if all(map(is_, events, change.events)):
                return change
            written = msgspec.structs.replace(change, events=events)
        check_change(written)  # what was an id is none with a reference in it
        return written

    async def scrub(self, *, rewrite: bool = False) -> Scrubbed:
        """See to it that what was deleted cannot be read in the store's files. See `Store.scrub`:
        `gone`, or why it is not yet."""
        return await asyncio.to_thread(self._store.scrub, rewrite=rewrite)

    # --- read ---

    async def for_people(self, look: Callable[[ForPeople], T], *, hold_s: float = 10.0) -> T:
        """Return what `look` finds at one look at the store, as people may see it.

        `hold_s`: how long a pause lets a model finish its answer.
        """
        return await self._hands.read(
            lambda view: look(ForPeople(view, self._clock, hold_s=hold_s))
        )

    async def forgettable(self, wanted: Wanted) -> list[Candidate]:
        """Return the runs that are meant, each with why it cannot be forgotten now, if so."""
        return await self._hands.read(lambda view: candidates(view, wanted))

    async def birth(self, run_id: str, *, what: str) -> Created:
        """Return how the run began, for whoever is to go on from it (`what`: in which way).

        Raises:
            RunForgotten: that is not known any more.
        """
        return await self._hands.read(lambda view: birth(view, run_id, what=what))

    async def reusable(self, run_id: str, *, what: str) -> Created:
        """`birth` for a run that begins with something of this one: its input, its steps.

        Raises:
            InvalidInput: it, or a run that it goes on from, is quarantined.
            RunForgotten: that is not known any more.
        """
        return await self._hands.read(lambda view: reusable(view, run_id, what=what))

    async def load(self, run_id: str) -> Run:
        """Return the run as its records make it."""
        return await self._hands.read(lambda view: load(view, existing(view, run_id)))

    async def members(self, run_id: str) -> list[tuple[Run, bool]]:
        """Return everybody who works for the run or has worked for it, and of each whether what it
        did is final. See `families.members`."""

        def look(view: View) -> list[tuple[Run, bool]]:
            return list(members(load(view, existing(view, run_id)), finding(view)))

        return await self._hands.read(look)

    async def works_for(self, run_id: str, above: str) -> bool:
        """Return whether it is the run `above`, or was started under it, by whomever."""
        return await self._hands.read(lambda view: works_for(view, run_id, above))

    async def effects_to_undo(self, run_id: str) -> list[Effect]:
        """Return what is still to be undone of the run and of those who worked for it, the newest
        first, over all of them."""
        return await self._hands.read(lambda view: effects_to_undo(view, run_id))

    async def undone_of(self, run_id: str) -> int:
        """Return how many steps of the run, and of those who worked for it, are undone."""
        return await self._hands.read(lambda view: undone_of(view, run_id))

    async def head(self, run_id: str) -> Head:
        """Return the end of the run's journal and who holds it."""
        return await self._hands.read(lambda view: existing(view, run_id))

    async def read(self, run_id: str, *, after_seq: int = 0, limit: int = ALL) -> list[Record]:
        """Return the run's records after `after_seq`, each checked against the one before."""
        return await self._hands.read(lambda view: records_of(view, run_id, after_seq, limit))

    def read_now(self, run_id: str, *, after_seq: int = 0) -> list[Record]:
        """`read` for a thread that has no event loop, such as the one that hears controls."""
        return self._store.read(lambda view: records_of(view, run_id, after_seq, ALL))

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
        return await self._hands.read(
            lambda view: view.heads(states=wanted, thread=thread, before=before, limit=limit)
        )

    async def claimable(self, *, agents: Iterable[str], limit: int = 50) -> list[str]:
        """Return runs of these agents that need an owner and have none, oldest first."""
        known, now = tuple(agents), self._clock.boot_time()
        return await self._hands.read(
            lambda view: view.claimable(boot=now.boot, now_s=now.seconds, agents=known, limit=limit)
        )

    async def due(self, *, agents: Iterable[str], limit: int = 50) -> list[tuple[str, int]]:
        """Return runs of these agents with a timer, and when it is due, soonest first."""
        known = tuple(agents)
        return await self._hands.read(lambda view: view.due(agents=known, limit=limit))

    async def live_text(self, run_id: str) -> list[LiveText]:
        """Return what was said in parts that have not ended: after a crash, the next owner's to
        record as cut."""
        return await self._hands.read(lambda view: view.live(run_id, after_pos=0))

    async def said_in(self, run_id: str, part: str) -> str:
        """Return what was said in one part that has not ended."""
        return await self._hands.read(lambda view: view.live_said(run_id, part))

    async def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        """Return the ids of runs that begin like this, in order."""
        return await self._hands.read(lambda view: view.beginning_with(prefix, limit=limit))

    async def used(self, run_id: str) -> Used:
        """Return what the run, and everybody who works for it, has used up."""
        return await self._hands.read(
            lambda view: used_of(view, run_id, steady_now(view, self._clock))
        )

    async def budgets_of(self, run_id: str) -> list[tuple[Limits, Used]]:
        """Return the limits that bind the run, the nearest first, and what has been used of each:
        its own, and those of the runs it works for or has worked for."""
        return await self._hands.read(
            lambda view: budgets_of(view, run_id, steady_now(view, self._clock))
        )

    async def now_ms(self) -> int:
        """What the clock shows that never jumps: by it everything is decided that has a time."""
        boot = self._clock.boot_time().boot
        while self._base_ms is None or self._boot != boot:
            self._boot, self._base_ms = boot, await self._hands.read(lambda v: v.boot_base(boot))
            if self._base_ms is None:
                await self._hands.write(self._ledger.now_ms)  # nobody has written in this boot
        return self.steady_ms()

    def steady_ms(self) -> int:
        """The same, at once, for who has asked before."""
        assert self._base_ms is not None
        return self._base_ms + round(self._clock.boot_time().seconds * 1000)

    # --- hear ---

    def watch(self, on_change: Callable[[Changed], None]) -> Callable[[], None]:
        """Call `on_change(runs)` soon after any commit, by any process, with the runs that have
        changed and the number of the last record of each. Return what ends it.

        It is called from one thread of the journal's own, without an event loop: a blocked loop
        does not delay it. It must be quick; if it raises it is called again for the same runs, a
        few times. With no runs at all it is told that the journal is being closed.
        """
        with self._watch_lock:
            if self._watch is None:
                self._watch = Watch(self._store)
            return self._watch.add(on_change)

    def ask_watch(self, run_id: str) -> None:
        """Have everybody who watches told of this run, changed or not, as soon as that can be
        read. From any thread; it never waits for the store."""
        with self._watch_lock:
            if self._watch is not None:
                self._watch.ask(run_id)

    @property
    def hooks(self) -> HookPlaces:
        """How far each hook was told, and what there is to tell it."""
        return HookPlaces(self._hands, self._clock)

    async def subscribe(self, run_id: str, *, after: Cursor = START) -> AsyncGenerator[Item]:
        """Yield everything in the run after `after`, then what happens, for ever. No gap, no
        duplicate, in order. Live text comes before the record that ends its part."""
        async with aclosing(self._changes(run_id)) as changes:
            async for _ in changes:
                read = self._hands.read
                while items := await read(lambda view, at=after: stream(view, run_id, at)):
                    after = items[-1][0]
                    for item in items:
                        yield item

    async def follow(
        self, run_id: str, *, after: Cursor = START, limit: int = ALL
    ) -> AsyncGenerator[News]:
        """The same for people: what has happened as they may see it, then what happens, as much at
        a time as there is, but no more than `limit` records."""

        def look(at: ForPeople) -> News:
            return at.news(run_id, after, limit)

        async with aclosing(self._changes(run_id)) as changes:
            async for _ in changes:
                while (news := await self.for_people(look)).items:
                    after = news.items[-1][0]
                    yield news

    async def _changes(self, run_id: str) -> AsyncGenerator[None]:
        """Yield at once, and after every commit that may have changed the run."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def on_change(runs: Changed) -> None:
            is_mine = run_id in runs or not runs  # none: the journal is being closed
            if is_mine and not changed.is_set():
                loop.call_soon_threadsafe(changed.set)

        stop = self.watch(on_change)
        try:
            while True:
                changed.clear()
                yield
                await changed.wait()
        finally:
            stop()
