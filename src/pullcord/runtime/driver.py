"""One claimed run, carried on until it rests: ended, paused, waiting, given back, or lost.

The driver looks at the run as its records make it and does what that state asks for; everything
that happens (a control, a step that lands, an alarm) only makes it look again. So there is no
order of events it has to have been written for.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final

from pullcord.core.commands import Cancel
from pullcord.core.events import (
    Blocked,
    Cancelled,
    Completed,
    Failed,
    Paused,
    Requeued,
    Rung,
    StepInDoubt,
    Stopped,
)
from pullcord.core.screening import NO_GUARDS, Guards
from pullcord.core.states import RunState
from pullcord.core.undo import is_anything_left_to_undo, to_undo
from pullcord.errors import Fenced, JournalClosed, PullcordError, StorageFailed
from pullcord.journal.holding import pause_by
from pullcord.journal.ledger import Claim
from pullcord.killswitch.flags import Flag
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.doors import Doors
from pullcord.runtime.entry import Entry
from pullcord.runtime.failing import described
from pullcord.runtime.flight import Flight
from pullcord.runtime.guarding import RESULT, trip
from pullcord.runtime.left_behind import (
    end_texts,
    judge_what_was_begun,
    name_approved_and_never_called,
    name_policies_without_a_tool,
    name_the_vanished,
    name_what_goes_on,
)
from pullcord.runtime.memory import remember
from pullcord.runtime.observing import UNSEEN, Life
from pullcord.runtime.ownership import together
from pullcord.runtime.processes import Process
from pullcord.runtime.reaching import Reach
from pullcord.runtime.releasing import Releasing
from pullcord.runtime.site import Site
from pullcord.runtime.undoing import Undoing, policy_for

_log: Final = logging.getLogger("pullcord.runtime")
_S = RunState
_LOOKS: Final = 20
_SHUT_DOWN: Final = "its process was shut down while it was under way"


class Driver(Doors):
    """Drives one run."""

    def __init__(
        self,
        site: Site,
        claim: Claim,
        enter: "Callable[[Driver], Coroutine[Any, Any, Any]]",
        *,
        code_version: str = "",
        guards: Guards = NO_GUARDS,
        life: Life = UNSEEN,
    ) -> None:
        super().__init__(site, claim, guards, life)
        self._enter, self._code_version, self._claim = enter, code_version, claim
        self._entry = self._new_entry(claim.run.id)
        self._is_over = self._is_leaving = self._is_parking = False
        self.is_gone = asyncio.Event()  # nobody drives the run here any more
        self._looks = 0  # how often it looked without asking the journal, which may be gone
        self._is_behind = True  # there may be records that it has not seen
        self._rung: Rung = ""
        self._undoing: Undoing | None = None
        self._releasing: Releasing | None = None
        self._quiet = Alarm(site.alarms, self._block)
        self._park = Alarm(site.alarms, self._give_up_memory)
        self._leave_by = Alarm(site.alarms, self._cut_now)
        self._wants_to_block = False
        self._has_asked_how = False  # the agent was entered once more, to say how to undo
        self._is_for_undo = False  # the run has ended, and was taken up once more
        self._is_silenced = False  # the kill switch has come before its last word
        self._held_by: Flag | None = None  # it has cut the run, which does not say so yet

    def _new_entry(self, run_id: str) -> Entry:
        grace_s = self.site.habits.stop_grace_s

        def let_go(goes_on: Callable[[], bool]) -> None:
            self.mind("the agent", goes_on)

        return Entry(run_id, self.gate, self.site.alarms, grace_s, self.news, self.guards, let_go)

    @property
    def lets_steps_finish(self) -> bool:
        """The runtime closes: steps have its grace, and do not have to stand at a checkpoint."""
        return self._is_leaving and not self._may_cut and self.run.state is _S.RUNNING

    # --- what others tell it ---

    def heard(self, seq: int) -> None:
        """The journal of the run has grown up to this record: one of our own, or somebody's."""
        self._heard_seq = max(seq, self._heard_seq)
        if not self.mine.is_writing:
            self._see_who_it_was()

    def _see_who_it_was(self) -> None:
        if self._heard_seq > self.run.seq:
            self._is_behind = True
            self.news()
        elif self.mine.has_news:
            self.news()
        self.mine.has_news = False

    def leave(self) -> None:
        """The runtime closes: bring the run to where another process can go on with it."""
        if not self._is_leaving:
            self._is_leaving = True
            self._leave_by.set(self.site.habits.shutdown_grace_s)
            self.news()

    # --- the life of it ---

    async def drive(self) -> None:
        """Carry the run on. Returns when it is at rest and no longer in memory, or lost."""
        try:
            await judge_what_was_begun(self, self._claim)
            await end_texts(self)
            if self.run.state is _S.PAUSING:  # its owner was lost before it could say so
                await self._name_what_goes_on()
                await self.record(Paused(rung="abandoned"))
            self.news()
            self.memory = await self._try(lambda: remember(self.site.journal, self.run))
            self._begin()
            while not self._is_over:
                await self._news.wait()
                self._news.clear()
                await self._look()
        except (Fenced, JournalClosed, StorageFailed) as lost:
            _log.warning("Run %s is abandoned: %s", self.run.id, lost)
        except PullcordError as error:
            _log.exception("Run %s cannot be driven.", self.run.id)
            await self._fail(error)
        finally:
            # Also when this very task is cancelled: that is nobody's cancel of the run. Nothing
            # is recorded; whoever owns the run next goes on from its records.
            self._drop()

    def _begin(self) -> None:
        """Enter the agent; not where there is nothing for it to do."""
        is_cancelling = self.run.state is _S.CANCELLING or self.run.ended or self._is_stopping
        self._is_for_undo = self.run.ended
        self.hold_off()
        if is_cancelling:
            self.gate.close()  # it gets as far as it was, to say again how to release what it holds
        wraps_up = self.run.state is _S.STOPPING and not is_cancelling
        has_work = self.run.state is _S.RUNNING or wraps_up
        if (has_work or (is_cancelling and self.run.defers)) and not self._held_by:
            self.is_only_unwinding = is_cancelling
            with self.mine.life.inside():
                self._entry.begin(self._enter(self), only_to_unwind=is_cancelling)
        else:
            self._is_parking = True

    @property
    def _is_stopping(self) -> bool:
        """A limit is reached, and there is nothing left for the agent to do."""
        limit = self.run.reached
        has_no_last_word = self._is_silenced or (limit is not None and limit.then != "wrap_up")
        return self.run.state is _S.STOPPING and has_no_last_word

    def _is_known(self, step: str) -> bool:
        """Whether it can be undone without the agent's help."""
        return policy_for(step, self.run.steps[step], self.tools, self.site.policies) is not None

    async def _fail(self, error: PullcordError) -> None:
        """Something that should be impossible: end the run, or whoever takes it meets the same."""
        doubts = [StepInDoubt(step=step) for step in self.run.open_steps()]
        end = Failed(error=f"it could not be driven: {described(error)}")
        try:
            await end_texts(self)
            await self.mine.record(together(*doubts, end), release=True)
        except PullcordError:
            _log.exception("Run %s could not even be ended.", self.run.id)

    async def _look(self) -> None:
        self._looks = 0 if self._is_behind else self._looks + 1
        if self._is_behind or self._looks > _LOOKS:
            self._is_behind, self._looks = False, 0
            await self._try(self.mine.catch_up)
        self._wake_waiters()
        self.mine.check()
        self.hold_off()
        if self._held_by:
            await self._tell_of_hold(self._held_by)
        state = self.run.state
        if state not in (_S.PAUSED, _S.WAITING):
            self._park.off()
        match state:
            case _S.RUNNING:
                await self._running()
            case _S.PAUSING:
                await self._pausing()
            case _S.PAUSED | _S.WAITING:
                await self._resting()
            case _S.QUEUED:
                await self._take_again()
            case _S.STOPPING:
                await self._stopping()
            case _S.CANCELLING:
                await self._cancelling()
            case _S.CANCELLED | _S.COMPLETED | _S.FAILED | _S.STOPPED:
                await self._after_the_end()

    async def _after_the_end(self) -> None:
        """Ended; or taken up once more, because something was left to be undone."""
        if not self._is_for_undo:
            self._is_over = True
        elif not self._unwound():
            return
        elif self.is_switched_off:
            await self._give_back()
        elif not self._knows_how():
            self._ask_how()
        elif self._undone(hurry=False) or self._leaves_undo_to_others():
            await self._name_what_goes_on()
            await self._give_back()

    def _wake_waiters(self) -> None:
        self._moved.set_result(None)
        self._moved = asyncio.get_running_loop().create_future()

    @property
    def _is_through(self) -> bool:
        """The agent has ended, and so have the calls that it did not wait for."""
        return self._entry.is_done and (not self._sides or self._entry.has_failed)

    async def _running(self) -> None:
        is_ending = self._is_through and not self._flights and not self.run.living_children()
        # Parking: the kill switch has unwound it, and somebody resumed it before it was paused.
        if (self._is_leaving or self._is_parking) and not is_ending:
            self.gate.shut()
            if not self._landed() or not self._unwound():
                return
            await end_texts(self)
            cause = "shutdown" if self._is_leaving else "kill switch"
            if await self.record(Requeued(cause=cause), release=True):
                self._is_over = True
            return
        if self.is_switched_off:
            return
        self.gate.open()
        told_seq = max(self.run.instructions, default=0)
        for flight in list(self._flights):
            flight.unpause()
            if told_seq > flight.begun_seq:
                flight.redirect()
        if self._is_through:
            await self._finish()
        elif self._waiting and not self._busy and not self._flights and not self.gate.holding:
            await self._wait_or_block()
        else:
            self._wants_to_block = False
            self._quiet.off()

    async def _wait_or_block(self) -> None:
        if not self._wants_to_block:
            self._quiet.set(self.site.habits.quiet_s)
            return
        self._wants_to_block = False
        await self.record(Blocked(seen_seq=self.run.seq))
        self.news()

    async def _pausing(self) -> None:
        self.gate.shut()
        for flight in self._flights:
            flight.pause()
        if self.run.pause and self.run.pause.hurried_seq:
            for flight in self._flights:
                if flight.effect != "once":  # it is begun again on resume
                    flight.stop()
        if self._may_cut and not self._landed():
            return
        if any(not flight.is_held for flight in self._flights) or self._busy:
            return
        for _ in range(3):  # what was in flight may have been the last of it
            await asyncio.sleep(0)
        is_to_release = self.is_switched_off and bool(self.run.defers)
        is_last = self._is_through and not self.run.living_children() and not self._entry.hit
        if is_last and not is_to_release:
            await self._finish()
        elif not self._busy and all(flight.is_held for flight in self._flights):
            frozen = tuple(sorted(flight.name for flight in self._flights if flight.is_frozen))
            await self._name_what_goes_on()
            await self.record(Paused(rung=self._highest(), frozen=frozen))
            self._say_why()
            self.news()

    def _say_why(self) -> None:
        """Whoever waits for a result does not look: nobody has asked for this pause."""
        pause = self.run.pause
        if pause and pause.source in ("limit", "guard"):
            _log.warning("Run %s is paused by %s: %s", self.run.id, pause.by, pause.reason)

    async def _resting(self) -> None:
        """Paused or waiting: kept in memory for a while, ready to go on at once."""
        self.gate.shut()
        if self.run.state is _S.PAUSED:  # one that was waiting was paused without us
            await self._name_what_goes_on()
        has_ended = self._is_through and not self.run.living_children()
        is_kept = not self._is_leaving and not self._is_parking
        if self.run.state is _S.WAITING and (self.gate.holding or has_ended) and is_kept:
            return await self._take_again()  # a parallel branch found something to do
        if not self._is_leaving and not self._is_parking:
            return self._park.set(self.site.habits.park_after_s)
        if self._is_parking and self._flights and not self._is_leaving:
            self._is_parking = False  # a step stands at its checkpoint: unwinding would cut it
            return None
        if not self._landed() or not self._unwound():
            return None
        await end_texts(self)
        await self._give_back()
        return None

    async def _take_again(self) -> None:
        """Resumed, answered or redirected: whoever holds it in memory goes on before others."""
        if self._is_leaving or self._is_parking:
            if self._landed() and self._unwound():
                await self._give_back()
            return
        # If it is not to be had, somebody has paused it again, or taken it: the next look tells.
        ttl_s = self.site.licence.ttl_s
        await self._try(lambda: self.mine.retake(ttl_s=ttl_s, code_version=self._code_version))
        self._rung = ""
        self.news()

    async def _stopping(self) -> None:
        """A limit is reached. What was under way ends by itself; or the agent, with a last word."""
        for flight in self._flights:
            flight.unpause()
        if not self._is_stopping and not self._is_leaving:
            if self.is_switched_off:
                return
            self.gate.open()
            if self._is_through:
                await self._finish()
            return
        self.gate.close()
        if (self._flights and not self._may_cut) or not self._landed() or not self._unwound():
            return
        if not self._is_stopping:  # the last word is said in another life
            await self._give_back()
            return
        if self.run.living_children():
            if self._is_leaving and self._may_cut:
                await self._give_back()
            return
        if self.is_switched_off and self.run.defers:
            if self._is_leaving:
                await self._give_back()
            return
        if not self._released(hurry=False):
            return
        await end_texts(self)
        if await self.record(self._stopped(), release=True):
            self._is_over = True
        self.news()

    def _stopped(self, end: Completed | Failed | None = None) -> Stopped:
        """How a run ends whose limits are reached, whatever its agent made of that."""
        leaves = self.run.reached.leaves if self.run.reached else ()
        if isinstance(end, Completed):
            return Stopped(leaves=leaves, result=end.result)
        return Stopped(leaves=leaves, error=end.error if end else "")

    async def _cancelling(self) -> None:
        self.gate.close()
        is_hurried = self.run.cancel is not None and bool(self.run.cancel.hurried_seq)
        if is_hurried:
            for flight in self._flights:
                flight.stop()
                flight.hurry()
            self._entry.hurry()
        if not self._landed() or not self._unwound():
            return
        if self.run.living_children():
            if self._is_leaving and self._may_cut:
                await self._give_back()
            return
        if self.is_switched_off and (is_anything_left_to_undo(self.run) or self.run.defers):
            if self._is_leaving:
                await self._give_back()
            return
        if not self._knows_how():
            self._ask_how()
            return
        if not self._undone(hurry=is_hurried):
            if self._leaves_undo_to_others():
                await self._give_back()
            return
        if not self._released(hurry=is_hurried):
            return
        await end_texts(self)
        await self._name_what_goes_on()
        if await self.record(Cancelled(rung=self._highest()), release=True):
            self._is_over = True
        self.news()

    async def _finish(self) -> None:
        """The agent returned or raised. What it leaves open is closed before that is recorded."""
        self.gate.close()  # tasks that the agent has left behind begin nothing more
        if self._flights or self._busy:
            return None
        end = self._entry.end()
        if (hit := self._entry.hit) is not None and RESULT not in self.memory.tripped:
            return await trip(self, hit, part=RESULT)
        if isinstance(end, Failed):
            await self._cancel_children()
        if self.run.living_children():
            if self.run.state is _S.RUNNING:
                await self.record(Blocked(seen_seq=self.run.seq))
            return None
        if self.is_switched_off and self.run.defers:
            return None  # released when it is resumed
        if not self._released(hurry=False):
            return None
        await end_texts(self)
        if isinstance(end, Completed):
            await name_the_vanished(self)
        await name_policies_without_a_tool(self)
        await name_approved_and_never_called(self)
        said = self._stopped(end) if self.run.state is _S.STOPPING else end
        said = self.site.journal.sealed(said)
        recorded = await self.record(said, release=True)
        if recorded == [said]:
            self._is_over = True
        self.news()
        return None

    async def _name_what_goes_on(self) -> None:
        await self._try(lambda: name_what_goes_on(self.site.journal, self.run))

    async def _cancel_children(self) -> None:
        gone = Cancel(by=self.run.id, reason="its parent failed", source="parent")
        for child in self.run.living_children():
            await self._try(lambda child=child: self.site.journal.command(child, gone))
        await self._try(self.mine.catch_up)

    # --- the kill switch ---

    @property
    def is_switched_off(self) -> bool:
        """Whether the kill switch holds this run. Also asked by its thread."""
        return self.site.switch.covers(*self.whose) is not None

    def hold_off(self) -> None:
        """Nothing more begins, and what is under way is cut, if the kill switch holds this run. At
        once: that the run is paused is told to the journal next, which may be slow, or gone."""
        if (flag := self.site.switch.covers(*self.whose)) is None:
            return
        self._held_by = flag
        self.gate.shut()
        for flight in list(self._flights):
            flight.stop(doubt=flag.said())
            flight.hurry()
        if self._undoing:
            self._undoing.leave(now=True)
        if self._releasing:
            self._releasing.leave()
        for apart in tuple(self.aparts):
            apart.cut()
        self._is_silenced = self._is_silenced or self.run.state is _S.STOPPING
        self._is_parking = True
        self._unwound()  # its own code too: it is entered again when somebody resumes it

    async def _tell_of_hold(self, flag: Flag) -> None:
        """Have it paused where it is; also if the switch was released by now, for it was cut."""
        if self.run.state in (_S.RUNNING, _S.QUEUED, _S.WAITING):
            await self._try(lambda: self.site.journal.command(self.run.id, pause_by(flag)))
            await self._try(self.mine.catch_up)
        self._held_by = None

    def cut_sockets(self) -> None:
        """Shut what its model calls talk through, and kill what its steps have started. From any
        thread."""
        for flight in tuple(self._flights):
            if flight.transport:
                flight.transport()
            if flight.started:
                flight.started.kill()
        for apart in tuple(self.aparts):
            apart.kill()

    def going_on(self) -> list[tuple[str, str]]:
        """What goes on although the kill switch holds it. Asked by its thread."""
        of = f"run {self.run.id}"
        left = [
            (f"step {flight.name!r} of {of}", "it ignores being cancelled, or holds its event loop")
            for flight in tuple(self._flights)
            if flight.is_working and flight.manner.run_in != "process" and not flight.is_held
        ]
        if not left and self.gate.is_open:
            left = [(of, "its event loop is held")]
        is_in_a_door = any(task and self._entry.is_by(task) for task in tuple(self._busy))
        if not left and self._entry.is_in_memory and not self._flights and not is_in_a_door:
            left = [(f"the agent of {of}", "its own code ignores being cancelled")]
        return left

    # --- the lease ---

    def lapse(self) -> None:
        """This process may not act now: it stood still, or cannot reach its store."""
        for flight in tuple(self._flights):
            flight.lapse()

    def look_again(self) -> None:
        """There may be records that it has not heard of."""
        self._is_behind = True
        self.news()

    def renewed(self) -> None:
        """It may again, as if nothing had been."""
        for flight in tuple(self._flights):
            flight.renewed()
        self._wake_waiters()

    # --- bringing things to rest ---

    def _land(self, flight: Flight) -> None:
        self._flights.discard(flight)
        what, started = f"what step {flight.name!r} has started", flight.started
        if flight.rung == "abandoned" or (flight.rung and flight.is_working):
            what = f"step {flight.name!r}"
            self.mind(what, lambda: flight.is_working)
        else:
            flight.started = None  # from here on only what goes on refers to it
        if started:
            self.mind(what, started)
        is_stopping = self.run.state in (_S.PAUSING, _S.CANCELLING)
        if is_stopping and (flight.rung == "abandoned" or not self._rung):
            self._rung = flight.rung
        self.news()

    def _landed(self) -> bool:
        """Whether no step is in the air. A cancel stops them; a shutdown gives them its grace, and
        thaws those that are frozen."""
        is_cancel = self.run.state is _S.CANCELLING
        for flight in self._flights:
            if flight.is_frozen and not is_cancel:
                flight.unpause()
            stands = flight.is_held and self.run.state is not _S.RUNNING
            if is_cancel or self._may_cut or stands:
                flight.stop(doubt="" if is_cancel else _SHUT_DOWN)
        return not self._flights

    def _unwound(self) -> bool:
        """Whether the agent is out of memory and no door of it is doing anything."""
        is_told = self._is_at_a_door
        self.gate.close()
        self._wake_waiters()
        return self._entry.is_unwound(is_told=is_told) and not self._busy

    @property
    def _is_at_a_door(self) -> bool:
        return bool(self.gate.turned_away or self.gate.holding or self._waiting or self._busy)

    def _highest(self) -> Rung:
        if "abandoned" in (self._rung, self._entry.rung):
            return "abandoned"
        return self._rung or self._entry.rung or "cooperative"

    def _undone(self, *, hurry: bool) -> bool:
        """Whether nothing is left to be undone. It is never given up for being in a hurry."""
        if not is_anything_left_to_undo(self.run):
            return True
        if (self._undoing is None or self._undoing.is_over) and not self._is_leaving:
            self._undoing = Undoing(self)
        if self._undoing and hurry:
            self._undoing.hurry()
        if self._undoing and self._is_leaving:
            self._undoing.leave(now=self._may_cut)
        return False

    def _knows_how(self) -> bool:
        """Whether what is to be undone and released can be, or the agent was asked how already."""
        if self._has_asked_how or self._is_leaving:
            return True
        undo = all(map(self._is_known, to_undo(self.run)))
        return undo and all(defer in self.defers for defer in self.run.defers)

    def _ask_how(self) -> None:
        """Enter the agent once more, only to be told how what it did is undone and released."""
        self._has_asked_how = True
        self._entry = self._new_entry(self.run.id)
        self.is_only_unwinding = True
        self._entry.begin(self._enter(self), only_to_unwind=True)
        self.news()

    def _leaves_undo_to_others(self) -> bool:
        """The runtime closes, and nothing is being undone here any more."""
        return self._is_leaving and (self._undoing is None or self._undoing.is_over)

    async def _give_back(self) -> None:
        await self._try(lambda: self.site.journal.release(self.mine.lease))
        self._is_over = True

    def _released(self, *, hurry: bool) -> bool:
        """Whether nothing is left to be released. What takes too long is named, not waited for."""
        if not self.run.defers:
            return True
        if self._releasing is None or self._releasing.is_over:
            self._releasing = Releasing(self)
        if hurry or self._may_cut:
            self._releasing.hurry()
        return False

    def _drop(self) -> None:
        """Let go of everything in memory, recording nothing."""
        self._is_dropped = True
        self.mine.life.ended(self.run)
        self.gate.close()
        self._wake_waiters()
        for alarm in (self._quiet, self._park, self._leave_by):
            alarm.off()
        for flight in self._flights:
            flight.stop()
            if flight.landed:  # what it has done all the same is told to who owns the run now
                self.site.waits_for(flight.landed)
        for side in self._sides:
            side.cancel()
        if self._undoing:
            self._undoing.leave(now=True)
        self._entry.drop()
        if self._releasing:
            self._releasing.hurry()

    def carries(self, task: "asyncio.Task[Any]") -> str | None:
        """What this task does for the run: a step, or (empty) what its agent does in between.
        None: nothing. Also called by other threads."""
        steps = (flight.name for flight in tuple(self._flights) if flight.is_by(task))
        return next(steps, "" if self._entry.is_by(task) else None)

    @contextmanager
    def cutting(self, flight: Flight, process: Process) -> Generator[Reach]:
        """While inside, controls reach the process also if this event loop is blocked."""
        reach = Reach(flight.manner, process)
        with self.site.control.cutting(self.run.id, reach.hear, after_seq=flight.begun_seq):
            yield reach

    # --- alarms ---

    def _block(self) -> None:
        self._wants_to_block = True
        self.news()

    def _give_up_memory(self) -> None:
        self._is_parking = True
        self.news()

    def _cut_now(self) -> None:
        self._may_cut = True
        self.news()
