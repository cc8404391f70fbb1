"""The rules of the journal, written once and carried out inside a store's write transaction.

Here, and nowhere else, it is decided what is appended: compare-and-set on the last number, the
owner's epoch, the state table (through `evolve`), controls, leases, and what text is accepted.
A `Ledger` is used by one thread at a time; its cache is checked against the store, never trusted.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from pullcord.core.acks import Ack
from pullcord.core.commands import Cancel, Command, Forget, Pause, Raise, Resume, Undo
from pullcord.core.decide import Decision, decide
from pullcord.core.events import (
    TAGS,
    Answered,
    AttentionRaised,
    Cancelled,
    ChildBorn,
    ChildEnded,
    Claimed,
    Created,
    Event,
    LateResult,
    LimitReached,
    Paused,
    PauseRequested,
    Planned,
    QuestionAsked,
    QuestionWithdrawn,
    Record,
    Resumed,
    StepStarted,
    StoodStill,
    Stopped,
    TakenOver,
    TextEnded,
    UndoStarted,
    encode_event,
)
from pullcord.core.fold import evolve
from pullcord.core.forget import forget
from pullcord.core.judging import acting_for, judged, left_by_finished, lost_calls, testimony
from pullcord.core.resting import needs_no_agent_to_end, nothing_to_stop_or_undo
from pullcord.core.run import Run
from pullcord.core.runaway import seen
from pullcord.core.states import NEEDS_OWNER, TABLE, TERMINAL, RunState
from pullcord.core.stops import ASKS, LISTED_MAX, NOTED, Act, PayloadsForgotten, StopShown, acts
from pullcord.core.undo import is_anything_left_to_undo, left_by
from pullcord.errors import (
    ChainBroken,
    Conflict,
    FamilyTooDeep,
    ImpossibleEvent,
    KillSwitchEngaged,
    RunNotFound,
    ThreadBusy,
)
from pullcord.journal.chain import GENESIS, Row, link
from pullcord.journal.clock import Clock
from pullcord.journal.evidence.stoplog import Noted, add_stops, is_asked, lengths
from pullcord.journal.monotonic import MonotonicClock, last_sign_of_life
from pullcord.journal.rules.idempotency import body_of, key_reused
from pullcord.journal.rules.leases import NOBODY, is_held, licensed, renewed, until
from pullcord.journal.rules.limit_checks import limit_hit
from pullcord.journal.rules.live_text import SaidPiece, add_live, replace_live
from pullcord.journal.rules.switch_pauses import (
    answered_by,
    check_engaged,
    engaged_by,
    held_runs,
    is_noted,
    pause_by,
    released_by,
    whose,
)
from pullcord.journal.store import Head, Holder, StoredAck, Transaction, View, joined
from pullcord.journal.stored_runs.forgotten import (
    Needs,
    digests_of,
    needs_of,
    refuse_forgotten,
    still_held,
    still_needed,
)
from pullcord.journal.stored_runs.snapshots import SNAPSHOT_EVERY, fold_to, keep, load
from pullcord.killswitch.flags import Flag, Flags, Raised, Scope, Whose
from pullcord.killswitch.pulled import Pulled
from pullcord.process import is_gone, new_owner
from pullcord.takeover import Before, has_warden

_A_MOMENT_S: Final = 10.0
_CACHED_RUNS: Final = 512
_EVERY_RUN: Final = 2**31
_BEGIN: Final = frozenset((StepStarted, ChildBorn, Planned))
_STARTS: Final = frozenset((Created, StepStarted, ChildBorn, UndoStarted))
_GOES_ON: Final = (Resume, Raise, Undo)
DEPTH_MAX: Final = 5_000
"""How many runs may work for one another in one line: a family that is deeper has lost its way."""


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Events for one run, to follow record `expected_seq`.

    `epoch` is the writer's licence; only a run's creation (`expected_seq=0`) needs none.
    `release` gives the run back in the same transaction. `alone`: only if no run on the thread of
    the one being created is still living.
    """

    run_id: str
    events: Sequence[Event]
    expected_seq: int
    epoch: int | None = None
    release: bool = False
    alone: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "events", tuple(self.events))


class Order(msgspec.Struct, frozen=True):
    """A command for one run, decided inside the same transaction."""

    run_id: str
    command: Command


Change: TypeAlias = Append | Order


class Appended(msgspec.Struct, frozen=True):
    """Where a run's journal ends now, and the time its new records carry. `first` are events that
    the journal had to record before those that it was given."""

    run_id: str
    seq: int
    at_ms: int
    drift_ms: int = 0
    first: tuple[Event, ...] = ()
    is_refused: bool = False  # a limit is reached: what that means for the run was recorded instead


class Lease(msgspec.Struct, frozen=True):
    """The right to write to a run, until it lapses or another takes over. Not a promise of time:
    the epoch is checked inside every append."""

    run_id: str
    owner: str
    epoch: int


class Claim(msgspec.Struct, frozen=True):
    """A run just taken: the lease, and the run as it is."""

    lease: Lease
    run: Run
    whose: list[Whose]  # by what the kill switch knows it
    before: tuple[str, ...] = ()  # the owners it was taken from, where something was under way
    last: str = ""  # the last owner, whether something was under way or not


class Ledger:
    """Carries out the domain verbs on transactions of one store."""

    def __init__(
        self,
        clock: Clock,
        *,
        gone: Callable[[str], bool] = is_gone,
        flags: Flags | None = None,
    ) -> None:
        self._clock = clock
        self._flags = flags or Flags("")  # in a transaction, only that they are there is looked at
        self._steady = MonotonicClock(clock)
        self._gone = gone
        self._cache: OrderedDict[str, tuple[Run, bytes]] = OrderedDict()
        self._heads: dict[str, Head] = {}
        self._needs: Needs | None = None
        self._number = -1

    def now_ms(self, tx: Transaction) -> int:
        """What the steady clock shows, set if nobody has set it in this boot."""
        return self._steady.now_ms(tx)

    # --- append, command ----------------------------------------------------------------------

    def write(self, tx: Transaction, changes: Sequence[Change]) -> list[Appended | Ack]:
        """Carry out all changes, in order, or none: an append that is refused raises."""
        results: list[Appended | Ack] = []
        for change in changes:
            if isinstance(change, Order):
                results.append(self.command(tx, change.run_id, change.command))
                continue
            appended = self.append(tx, change)
            results.append(appended)
            if appended.is_refused:
                return results  # what was to come with it has no reason any more
        for change in changes:
            if isinstance(change, Append) and change.expected_seq == 0:
                self._refuse_orphan(tx, change)
        return results

    def append(self, tx: Transaction, change: Append) -> Appended:
        """Add an owner's events, or create the run."""
        head = self._head(tx, change.run_id)
        if head is None:
            head = self._newborn(tx, change)
            if change.alone and not head.parent and (elder := tx.eldest(head.thread)):
                state = self._existing(tx, elder).state
                raise ThreadBusy(head.thread, run_id=elder, state=state)
        elif change.expected_seq > 0:
            licensed(head, change.epoch)
        if change.expected_seq != head.seq:
            raise Conflict(change.run_id, expected_seq=change.expected_seq, actual_seq=head.seq)
        if any(type(event) in _STARTS for event in change.events):
            self._refuse_if_switched_off(tx, head)
        epoch = change.epoch or 0
        first = self._gap(tx, head) if epoch else ()
        if first:  # before limits are asked: that time is nobody's
            holder = renewed(head.holder, self._clock.boot_time())
            head = self._extend(tx, head, first, epoch=epoch, holder=holder)
        if self._is_limited(tx, head, change.events):
            return Appended(change.run_id, head.seq, head.updated_at_ms, is_refused=True)
        holder = NOBODY if change.release else head.holder
        after = self._extend(tx, head, change.events, epoch=epoch, holder=holder)
        drift_ms = after.updated_at_ms - after.steady_ms
        return Appended(change.run_id, after.seq, after.updated_at_ms, drift_ms, first)

    def _is_limited(self, tx: Transaction, head: Head, events: Sequence[Event]) -> bool:
        """Whether nothing may begin: the run has lost its way, or a limit is reached. Then that is
        recorded, and stops it."""
        is_running = head.state is RunState.RUNNING
        if not is_running or not any(type(event) in _BEGIN for event in events):
            return False
        run = self._at(tx, head)
        if what := next((said for event in events if (said := seen(run, event))), ""):
            lost = PauseRequested(by="guard", source="guard", reason=what)
            self._stop_for(tx, head, lost)
            return True
        costs = any(isinstance(event, StepStarted) and event.reserve for event in events)
        now_ms = self._steady.now_ms(tx)
        hit = limit_hit(run, lambda run_id: self._found(tx, run_id), now_ms, costs=costs)
        if hit is None:
            return False
        self._stop_for(tx, self._existing(tx, hit.run_id), hit.asks_for())
        return True

    def _stop_for(self, tx: Transaction, head: Head, asked: PauseRequested | LimitReached) -> None:
        """Record what stops a run, unless something has already, and stop who works for it."""
        if TAGS[type(asked)] in TABLE[head.state].on:
            self._extend(tx, head, [asked], epoch=0, holder=head.holder)
        kind = Pause if isinstance(asked, PauseRequested) else Cancel
        self._pass_on(tx, head.run_id, kind(by=asked.by, reason=asked.reason, source=asked.source))

    def _found(self, tx: Transaction, run_id: str) -> Run | None:
        head = self._head(tx, run_id)
        return self._at(tx, head) if head else None

    def _gap(self, tx: Transaction, head: Head) -> tuple[Event, ...]:
        """What is to be recorded of an owner that gave no sign of life for longer than its lease:
        that is not time in which anybody has worked."""
        is_worked_on = TAGS[StoodStill] in TABLE[head.state].on
        if not is_worked_on or is_held(head, self._clock.boot_time()):
            return ()
        return (StoodStill(alive_ms=last_sign_of_life(tx, head.holder)),)

    def _answered_before(self, tx: Transaction, head: Head, ack: Ack) -> Ack:
        """Return the same answer, but for words that viewers may not see any more."""
        if not ack.message or not self._at(tx, head).is_quarantined:
            return ack
        said = "It was answered before; what was said then is withheld: the run is quarantined."
        return msgspec.structs.replace(ack, message=said)

    def command(self, tx: Transaction, run_id: str, command: Command) -> Ack:
        """Decide a control on the run as it is at this instant, and record it."""
        tx.hold(run_id, key=command.key)
        head = self._existing(tx, run_id)
        digest = body_of(command) if command.key is not None else b""
        if command.key is not None and (stored := tx.ack(run_id, command.key)):
            if stored.digest == digest:
                return self._answered_before(tx, head, msgspec.json.decode(stored.ack, type=Ack))
            return key_reused(head, command)
        if isinstance(command, _GOES_ON) and (refused := self._refusal(tx, head)):
            return _switched_off(head, command, refused)  # (and not for ever: with no key)
        seq, decision = self._decided(tx, head, command)
        if decision.events:
            goes_on = any(isinstance(event, Resumed) for event in decision.events)
            is_raise = isinstance(command, Raise) and goes_on
            passed = Resume(by=command.by, reason=command.reason) if is_raise else command
            self._pass_on(tx, run_id, passed)
        ack = _ack(decision, seq, self._existing(tx, run_id).state)
        if command.key is not None:
            tx.put_ack(run_id, command.key, StoredAck(digest, msgspec.json.encode(ack)))
        return ack

    def _decided(
        self, tx: Transaction, head: Head, command: Command, *, family: str = ""
    ) -> tuple[int, Decision]:
        """Decide a control of one run and record what that means. Also: where it is recorded."""
        now_ms, idle = self._steady.now_ms(tx), self._is_idle(tx, head)
        run = self._at(tx, head)
        decision = decide(run, command, idle=idle, now_ms=now_ms, family=family)
        if not decision.events:
            return decision.seq, decision
        if self._is_left_in(head, decision.events):
            dead = StoodStill(alive_ms=last_sign_of_life(tx, head.holder))
            head = self._extend(tx, head, [dead], epoch=head.epoch, holder=head.holder)
        self._extend(tx, head, decision.events, epoch=0, holder=head.holder)
        return head.seq + 1, decision

    def _is_left_in(self, head: Head, events: Sequence[Event]) -> bool:
        """Whether a run leaves a state in which nobody has worked for a while: its process died."""
        on = TABLE[head.state].on
        leaves = any(on.get(TAGS[type(event)], head.state) is not head.state for event in events)
        return leaves and TAGS[StoodStill] in on and not self._is_held(head)

    def forget(self, tx: Transaction, run_id: str, command: Forget) -> Ack:
        """Delete the payloads of a run and record the act, in its chain and in the stop log, in one
        transaction. The answer needs no key to be safe to ask for again: then it is `already`."""
        tx.hold(run_id)
        head = self._existing(tx, run_id)
        decision = forget(self._at(tx, head), command)
        if decision.events and (kept := self._kept(tx, head)):
            decision = kept
        if not decision.events:
            return _ack(decision, decision.seq, head.state)
        digests = digests_of(tx, head)  # before anything is written
        after = self._extend(tx, head, decision.events, epoch=0, holder=head.holder)
        thread = run_id if command.drop_thread_name else head.thread
        tx.erase(run_id, digests, thread=thread)
        self._heads[run_id] = msgspec.structs.replace(after, thread=thread)
        who, count = {"by": command.by, "via": command.via}, len(digests)
        act = PayloadsForgotten(**who, reason=command.reason, runs=(run_id,), records=count)
        self.note(tx, act, run_id)  # behind the erasure of what the log said of the run before
        return _ack(decision, after.seq, head.state)

    def _kept(self, tx: Transaction, head: Head) -> Decision | None:
        """Why somebody else still needs the run."""
        if self._is_held(head):
            return still_held(head)
        if self._needs is None:
            self._needs = needs_of(tx)
        needs, elder = self._needs, tx.eldest(head.thread)  # nobody begins on it meanwhile
        return still_needed(head, needs | {head.thread: elder} if elder else needs)

    def remark(self, tx: Transaction, run_id: str, raised: AttentionRaised) -> None:
        """Raise an attention item without the owner's licence. It changes nothing else."""
        tx.hold(run_id)
        head = self._existing(tx, run_id)
        run = self._at(tx, head)
        if not run.forgotten and run.attention.get(raised.item) != raised.text:
            self._extend(tx, head, [raised], epoch=0, holder=head.holder)

    def testify(self, tx: Transaction, run_id: str, late: LateResult) -> None:
        """Record what a former owner says of a step that it had begun: without a licence, and
        changing nothing else. What the run knows already is not said again."""
        tx.hold(run_id)
        head = self._existing(tx, run_id)
        if said := testimony(self._at(tx, head), late):
            self._extend(tx, head, said, epoch=0, holder=head.holder)

    def note(self, tx: Transaction, act: Act, run_id: str = "") -> None:
        """Add to the stop log what is no record of a run: the kill switch, say, or who watched.

        Who watched is dropped if the log has no such stop: a redirect that cut nothing is none.
        """
        head = self._existing(tx, run_id) if run_id else None
        if isinstance(act, StopShown) and not is_asked(tx, run_id, act.asked_seq):
            return
        noted = Noted(act, head.seq, head.hash) if head else Noted(act)
        add_stops(tx, self._clock, self._steady.now_ms(tx), head, [noted])

    def _pass_on(self, tx: Transaction, run_id: str, command: Command) -> None:
        """Awaited children share their parent's fate, in the same transaction: there is no moment
        in which a parent is stopped and a child of it is not, however deep the family is. What
        cancelled children did is undone by the run above them that was cancelled first."""
        if not isinstance(command, Pause | Resume | Cancel):
            return
        source = "kill_switch" if command.source == "kill_switch" else "parent"
        passed = msgspec.structs.replace(command, key=None, seen_seq=None, source=source)
        if isinstance(passed, Resume):
            passed = msgspec.structs.replace(passed, instruction=None)
        elif isinstance(passed, Cancel):
            passed = msgspec.structs.replace(passed, back_to="")  # a step of the parent's
        told = [run_id]
        for above in told:
            parent = self._at(tx, self._existing(tx, above))
            family = _undone_by(parent) if isinstance(passed, Cancel) else ""
            for child in parent.living_children():
                if (head := self._head(tx, child)) and self._reaches(tx, head, passed):
                    _, decision = self._decided(tx, head, passed, family=family)
                    told += [child] if decision.events else []
        for above in reversed(told):
            self._end_if_at_rest(tx, above)

    def _reaches(self, tx: Transaction, head: Head, passed: Pause | Resume | Cancel) -> bool:
        """A child that somebody else has paused is not resumed with its parent."""
        pause = self._at(tx, head).pause
        by_parent = pause is not None and pause.source in ("parent", "kill_switch")
        if not isinstance(passed, Resume):
            return True
        return by_parent and not self._refusal(tx, head)

    def _end_if_at_rest(self, tx: Transaction, run_id: str) -> None:
        """A cancelled run that nobody holds ends with the last of its children."""
        if (head := self._existing(tx, run_id)) and self._is_at_rest(tx, head):
            self._extend(tx, head, [Cancelled()], epoch=0, holder=head.holder)

    def _is_at_rest(self, tx: Transaction, head: Head) -> bool:
        is_left_alone = head.state is RunState.CANCELLING and self._is_idle(tx, head)
        return is_left_alone and nothing_to_stop_or_undo(self._at(tx, head))

    def _is_idle(self, tx: Transaction, head: Head) -> bool:
        """Nobody holds it, and no text of it is unfinished."""
        return not self._is_held(head) and not tx.live(head.run_id, after_pos=0)

    def _is_held(self, head: Head) -> bool:
        return is_held(head, self._clock.boot_time()) and not self._gone(head.holder.owner)

    def _extend(
        self, tx: Transaction, head: Head, events: Sequence[Event], *, epoch: int, holder: Holder
    ) -> Head:
        """Write `events` behind `head`. If it ends with them, its parent is told in the same
        transaction, however it came; and so on, if that was all the parent was waiting for."""
        after, ended = self._write(tx, head, events, epoch=epoch, holder=holder)
        parent = head.parent
        while ended and parent and (above := self._told(tx, parent, ended)):
            ended, parent = None, above.parent
            if self._is_at_rest(tx, above):
                _, ended = self._write(tx, above, [Cancelled()], epoch=0, holder=above.holder)
        return after

    def _write(
        self, tx: Transaction, head: Head, events: Sequence[Event], *, epoch: int, holder: Holder
    ) -> tuple[Head, ChildEnded | None]:
        """Write `events` behind `head`. The state table has the last word. Also: what the run's
        parent is to be told, if it has ended."""
        run = self._at(tx, head)
        self._cache.pop(head.run_id, None)  # the draft is ours alone until it is complete
        at_ms = max(self._clock.wall_ms(), head.updated_at_ms)  # the order shown is the order kept
        steady_ms = max(self._steady.now_ms(tx), head.steady_ms)  # (another machine's may lag)
        drift_ms = at_ms - steady_ms
        seq, digest = head.seq, head.hash
        rows: list[Row] = []
        noted: list[Noted] = []
        for event in events:
            seq += 1
            was, since = run.state, run.state_seq
            record = Record(head.run_id, seq, at_ms, epoch, event, drift_ms)
            evolve(run, record)
            if isinstance(event, TextEnded):
                replace_live(tx, head, event)
            payload = encode_event(event)
            covered = sha256(payload).digest()
            digest = link(digest, head.run_id, seq, at_ms, epoch, covered, drift_ms)
            rows.append(Row(seq, at_ms, epoch, payload, covered, digest, drift_ms))
            if type(event) in NOTED:
                live = tx.live(run.id, after_pos=0) if type(event) in ASKS else ()
                about = acts(was, since, run, record, lengths(live))
                noted += [Noted(act, seq, digest) for act in about]
        has_ended = run.ended and head.state not in TERMINAL
        if has_ended or head.seq == 0:
            self._needs = None  # there is one less who needs something, or one more
        if has_ended and (unfinished := tx.live(head.run_id, after_pos=0)):
            why = f"part {unfinished[0].part} of its text has not ended"
            raise ImpossibleEvent(head.run_id, event=run.state, why=why)
        due_ms = _due_ms(run, head, events)
        after = msgspec.structs.replace(
            head,
            state=run.state,
            epoch=run.epoch,
            holder=holder,
            seq=seq,
            hash=digest,
            updated_at_ms=at_ms,
            steady_ms=steady_ms,
            due_ms=due_ms,
        )
        kept = (head.state, head.epoch, head.holder, head.due_ms)
        if head.seq == 0 or kept != (run.state, run.epoch, holder, due_ms):
            tx.put_head(after)
        self._heads[head.run_id] = after
        tx.add_rows(head.run_id, rows)
        if noted:
            add_stops(tx, self._clock, steady_ms, run, noted)
        if seq // SNAPSHOT_EVERY > head.seq // SNAPSHOT_EVERY:
            keep(tx, run, digest)
        self._remember(run, digest)
        if not has_ended or not head.parent:
            return after, None
        used, left = run.used_at(steady_ms), left_by(run)
        return after, ChildEnded(child=head.run_id, state=run.state, used=used, left=left)

    def _told(self, tx: Transaction, parent: str, ended: ChildEnded) -> Head | None:
        """Write a child's end into its parent's journal. None: that one does not wait for it."""
        head = self._head(tx, parent)
        if head is None or TAGS[ChildEnded] not in TABLE[head.state].on:
            return None
        child = self._at(tx, head).children.get(ended.child)
        if child is None or not child.is_awaited:
            return None
        return self._write(tx, head, [ended], epoch=0, holder=head.holder)[0]

    def _refuse_orphan(self, tx: Transaction, change: Append) -> None:
        """A child is born in its parent's journal in the same transaction, or not at all."""
        first = change.events[0] if change.events else None
        if isinstance(first, Created) and first.parent is not None:
            parent = self._existing(tx, first.parent)
            if change.run_id not in self._at(tx, parent).children:
                why = f"its parent {first.parent} did not record the birth with it"
                raise ImpossibleEvent(change.run_id, event="created", why=why)
            if first.depth > DEPTH_MAX:
                raise FamilyTooDeep(first.parent, depth=DEPTH_MAX)

    def _newborn(self, tx: Transaction, change: Append) -> Head:
        first = change.events[0] if change.events else None
        if change.expected_seq != 0 or not isinstance(first, Created):
            raise RunNotFound(change.run_id)
        if first.forked_from is not None:
            refuse_forgotten(tx, first.forked_from, what="go on from")
        return Head(
            run_id=change.run_id,
            agent=first.agent,
            thread=first.thread,
            parent=first.parent,
            created_at_ms=self._clock.wall_ms(),
            state=Run(change.run_id).state,
            epoch=0,
            holder=NOBODY,
            seq=0,
            hash=GENESIS,
            updated_at_ms=0,
        )

    def _refuse_if_switched_off(self, tx: Transaction, head: Head) -> None:
        if refused := self._refusal(tx, head):
            raise KillSwitchEngaged(refused)

    def _refusal(self, tx: Transaction, head: Head) -> str:
        """Why the kill switch lets nothing start for a run. Empty: it does."""
        return self._flags.refusal(*whose(tx, head)) if self._flags.is_any_raised() else ""

    # --- leases -------------------------------------------------------------------------------

    def acquire(
        self,
        tx: Transaction,
        run_id: str,
        *,
        owner: str,
        ttl_s: float,
        held: Lease | None = None,
        code_version: str = "",
        trace: str = "",
    ) -> Claim | None:
        """Take a run that needs an owner and has none. None if it is not to be had.

        Being asked to drive a run confers nothing: a live lease is respected, unless it is the
        caller's own (`held`), as when its parked run has been resumed, or when its waiting run
        has something to do after all. Of a thread's living runs only the eldest is to be had,
        and the children that work for it.
        """
        tx.hold(run_id)
        if self._refusal(tx, self._existing(tx, run_id)):
            return None
        how = Claimed(owner=owner, epoch=0, code_version=code_version, trace=trace)
        return self._take(tx, run_id, how, ttl_s=ttl_s, held=held)

    def _take(
        self,
        tx: Transaction,
        run_id: str,
        how: Claimed,
        *,
        ttl_s: float,
        held: Lease | None = None,
    ) -> Claim | None:
        head = self._existing(tx, run_id)
        mine = held == Lease(run_id, head.holder.owner, head.epoch)
        first = head.parent or head.state in TERMINAL or tx.eldest(head.thread) == run_id
        if not mine and (self._is_held(head) or not first):
            return None
        is_due = head.state in NEEDS_OWNER or (mine and head.state is RunState.WAITING)
        is_left = head.state in TERMINAL and is_anything_left_to_undo(self._at(tx, head))
        if not (is_due or is_left):
            return None
        lease = Lease(run_id, how.owner, head.epoch + 1)
        before = () if mine else acting_for(self._at(tx, head), head.holder.owner)
        last = "" if mine else self._at(tx, head).owner
        alive_ms = last_sign_of_life(tx, head.holder)
        claimed = msgspec.structs.replace(
            how, epoch=lease.epoch, alive_ms=alive_ms, same_owner=mine
        )
        if head.state is RunState.PAUSING:  # paused is said when its steps are judged
            claimed = TakenOver(**msgspec.structs.asdict(claimed))
        holder = until(how.owner, self._clock.boot_time(), ttl_s)
        after = self._extend(tx, head, [claimed], epoch=lease.epoch, holder=holder)
        return Claim(lease, self._at(tx, after).copy(), whose(tx, after), before, last)

    def renew(self, tx: Transaction, leases: Sequence[Lease], *, ttl_s: float) -> list[Lease]:
        """Hold on to these for longer, and return those that are lost. A lease that lapsed may be
        renewed as long as nobody has taken the run over."""
        lost: list[Lease] = []
        for lease in leases:
            head = self._existing(tx, lease.run_id)
            if head.holder.owner == lease.owner:
                if head.epoch == lease.epoch:
                    self._renew(tx, head, until(lease.owner, self._clock.boot_time(), ttl_s))
            elif head.epoch != lease.epoch or head.state not in TERMINAL:
                lost.append(lease)
        return lost

    def _renew(self, tx: Transaction, head: Head, holder: Holder) -> None:
        if gap := self._gap(tx, head):
            self._extend(tx, head, gap, epoch=head.epoch, holder=holder)
        else:
            self._put(tx, msgspec.structs.replace(head, holder=holder))

    def release(self, tx: Transaction, lease: Lease) -> None:
        """Let go. Nothing happens if another has taken over meanwhile."""
        head = self._existing(tx, lease.run_id)
        if head.epoch == lease.epoch:
            self._put(tx, msgspec.structs.replace(head, holder=NOBODY))

    def free_the_gone(self, tx: Transaction) -> list[str]:
        """Take away what owners hold whose process is dead. Return those whose wardens are still
        ending what they held: theirs is taken away when that is over, because a process on another
        machine could not ask them."""
        gone = [owner for owner in tx.owners() if self._gone(owner)]
        ending = [owner for owner in gone if has_warden(owner)]
        for owner in set(gone) - set(ending):
            tx.free(owner)
        if gone:
            self._heads.clear()
        return ending

    def engaged(self, tx: Transaction, flag: Flag, raised: Raised) -> None:
        """Write into the stop log that the kill switch was engaged. Once, whoever comes first.
        `raised`: the flags, as they were read before the transaction."""
        if not is_noted(tx, flag):
            held = held_runs(tx, raised, limit=LISTED_MAX)
            self.note(tx, engaged_by(flag, held))

    def answered(self, tx: Transaction, scope: Scope, pulled: Pulled, raised: Raised) -> None:
        """Write into the stop log what pulling the kill switch has done."""
        for flag in [flag for flag in raised.flags if flag.scope == scope]:
            self.engaged(tx, flag, raised)
            self.note(tx, answered_by(flag, pulled))

    def hold(self, tx: Transaction, run_id: str, flag: Flag) -> Claim | None:
        """Pause a run for the kill switch. Returned: no process drives it, so it was claimed only
        to be brought to rest; also one that was wrapping up at a limit."""
        self.command(tx, run_id, pause_by(flag))
        return self.take_to_rest(tx, run_id, ends=True)

    def released(
        self, tx: Transaction, scope: Scope, raised: Raised, *, by: str, reason: str, via: str
    ) -> None:
        """Write into the stop log that somebody releases the kill switch."""
        check_engaged(raised, scope)
        for flag in raised.flags:  # nothing is released of which nobody knows that it was engaged
            self.engaged(tx, flag, raised)
        self.note(tx, released_by(scope, by=by, reason=reason, via=via))

    def left_cancelled(self, view: View) -> list[str]:
        """The cancelled runs whose process is gone, and which can end without their agent."""
        heads = view.heads(states=[RunState.CANCELLING], thread=None, before=None, limit=_EVERY_RUN)
        return [
            head.run_id
            for head in heads
            if not self._is_held(head) and needs_no_agent_to_end(load(view, head))
        ]

    def take_to_rest(self, tx: Transaction, run_id: str, *, ends: bool = False) -> Claim | None:
        """Claim a stopped run that nobody drives, only to bring it to rest. None: it has an owner
        after all, is not being stopped, or waits for a process that knows its agent: a claim would
        keep that one away. `ends`: also one that is out of limits."""
        tx.hold(run_id)
        head = self._existing(tx, run_id)
        state = head.state
        if state not in (RunState.PAUSING, RunState.CANCELLING) and not (
            ends and state is RunState.STOPPING
        ):
            return None
        if state is RunState.CANCELLING:
            run = self._at(tx, head)
            is_to_judge = run.open_steps() or tx.live(run_id, after_pos=0)
            if not is_to_judge and not nothing_to_stop_or_undo(run):
                return None
        how = Claimed(owner=new_owner(), epoch=0)
        return self._take(tx, run_id, how, ttl_s=_A_MOMENT_S)

    def bring_to_rest(
        self,
        tx: Transaction,
        claim: Claim,
        before: Mapping[str, Before],
        left: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Do what the owner of a stopped run would have had to do, as far as that needs no agent:
        judge its steps, end its texts, and let it be paused or cancelled; or end without a last
        word, if it is out of limits. `before`: what of its owners may still act; `left`: what steps
        have started that does not end."""
        run_id = claim.lease.run_id
        tx.hold(run_id)
        if self._existing(tx, run_id).epoch != claim.lease.epoch:
            return  # another has taken it meanwhile, and sees to it
        run = self._at(tx, self._existing(tx, run_id))  # somebody may have commanded it meanwhile

        def acts(step: str) -> bool:
            known = run.steps[step]
            return before[known.owner].may_act(known.run_in)

        still = left or {}
        events = lost_calls(run, before)
        for step in run.open_steps():
            events += judged(run, step, may_act=acts(step), left=still.get(step, ()))
        events += left_by_finished(run, still)
        for part, text in joined(tx.live(run_id, after_pos=0)).items():
            step = run.step_of_output(part)
            events.append(TextEnded(part=part, text=text, complete=False, step=step))
        if run.state is RunState.PAUSING:
            events.append(Paused(rung="abandoned"))
        ends = claim.run.state is run.state is RunState.STOPPING
        if ends and run.reached and not run.living_children() and not run.defers:
            events.append(Stopped(leaves=run.reached.leaves))
        epoch = claim.lease.epoch
        if events:
            self.append(tx, Append(run_id=run_id, events=events, expected_seq=run.seq, epoch=epoch))
        run = self._at(tx, self._existing(tx, run_id))
        if run.state is RunState.CANCELLING and nothing_to_stop_or_undo(run):
            end = [Cancelled()]
            self.append(tx, Append(run_id=run_id, events=end, expected_seq=run.seq, epoch=epoch))
        self.release(tx, claim.lease)

    # --- live text ----------------------------------------------------------------------------

    def say(self, tx: Transaction, lease: Lease, said: SaidPiece) -> str:
        """Add text to a part that has not ended: `shown`, `held` while pausing, or `refused`."""
        head = self._existing(tx, lease.run_id)
        licensed(head, lease.epoch)
        return add_live(tx, head, said, ended=lambda: self._at(tx, head).texts)

    # --- the end of a run, and the run behind it ----------------------------------------------

    def _head(self, tx: Transaction, run_id: str) -> Head | None:
        """The head as this ledger left it, if nobody else has written since; else as it is."""
        number = tx.number()
        if not 0 <= number - self._number <= 1 or len(self._heads) > _CACHED_RUNS:
            self._heads.clear()
            self._needs = None
        self._number = number
        if head := self._heads.get(run_id):
            return head
        if head := tx.head(run_id):
            self._heads[run_id] = head
        return head

    def _put(self, tx: Transaction, head: Head) -> None:
        tx.put_head(head)
        self._heads[head.run_id] = head

    def _existing(self, tx: Transaction, run_id: str) -> Head:
        if head := self._head(tx, run_id):
            return head
        raise RunNotFound(run_id)

    def _at(self, tx: Transaction, head: Head) -> Run:
        """The run at `head`: the cached draft, brought up to date, or folded from the store."""
        run, digest = self._cache.pop(head.run_id, (None, b""))
        if run is not None and run.seq <= head.seq:
            try:
                run = fold_to(tx, head, run, digest)
            except (ChainBroken, ImpossibleEvent):
                run = None  # the draft was of a transaction that never committed
        else:
            run = None
        run = run or load(tx, head)
        self._remember(run, head.hash)
        return run

    def _remember(self, run: Run, digest: bytes) -> None:
        if run.state in TERMINAL:
            return
        self._cache[run.id] = (run, digest)
        if len(self._cache) > _CACHED_RUNS:
            self._cache.popitem(last=False)


def _undone_by(parent: Run) -> str:
    """The run that has what the children of this one did undone, if it is being cancelled so."""
    cancel = parent.cancel
    if cancel is None or not cancel.undo or parent.ended:
        return ""
    return cancel.family or parent.id


def _switched_off(head: Head, command: Command, why: str) -> Ack:
    return Ack(
        verdict="rejected",
        seq=head.seq,
        state=head.state,
        reason="kill_switch",
        message=f"Cannot {command.verb} run {head.run_id}: {why}. Nothing was changed. Somebody "
        "has to release it first: pullcord kill-switch release",
    )


def _ack(decision: Decision, seq: int, state: RunState) -> Ack:
    return Ack(
        verdict=decision.verdict,
        seq=seq,
        state=state,
        reason=decision.reason,
        message=decision.message,
    )


def _due_ms(run: Run, head: Head, events: Sequence[Event]) -> int:
    """When the next open timer of the run is due; of an ended run, an undo that was asked for."""
    if run.state in TERMINAL:
        return 1 if is_anything_left_to_undo(run) else 0  # at once, whatever the clock says
    if run.state is RunState.CANCELLING:
        return 0
    if not any(isinstance(event, QuestionAsked | Answered | QuestionWithdrawn) for event in events):
        return head.due_ms
    timers = [run.questions[name].due_ms for name in run.open_questions()]
    return min((due_ms for due_ms in timers if due_ms), default=0)
