"""Carries on one claimed run until it rests: ended, paused, waiting, given back, or lost.

The driver states the facts about its run in this process and performs the moves that follow from
them (`pullcord.runtime.driving.moves`). A control, a landed step or an alarm only makes it look
again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
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
from pullcord.core.states import RunState
from pullcord.core.text.screening import NO_GUARDS, Guards
from pullcord.core.undo import to_undo
from pullcord.errors import Fenced, JournalClosed, PullcordError, StorageFailed
from pullcord.journal.rules.ledger import Claim, Lease
from pullcord.journal.rules.switch_pauses import pause_by
from pullcord.killswitch.flags import Flag
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.driving.agent_entry import AgentEntry
from pullcord.runtime.driving.guard_verdicts import RESULT, trip
from pullcord.runtime.driving.left_behind import (
    end_texts,
    judge_what_was_begun,
    name_approved_and_never_called,
    name_policies_without_a_tool,
    name_the_vanished,
    name_what_goes_on,
)
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.driving.moves import Here, Move, enters, moves
from pullcord.runtime.driving.releasing import Releasing
from pullcord.runtime.driving.undoing import Undoing, policy_for
from pullcord.runtime.ownership import together
from pullcord.runtime.services import Services
from pullcord.runtime.steps.failures import described
from pullcord.runtime.steps.memory import remember
from pullcord.runtime.steps.orders import asked_of, order_for
from pullcord.runtime.watching.observer import UNSEEN, Life

_log: Final = logging.getLogger("pullcord.runtime")
_S = RunState
_TURNS: Final = 3
_SHUT_DOWN: Final = "its process was shut down while it was under way"
_LOSSES: Final = (_S.STOPPING, _S.CANCELLING, _S.CANCELLED, _S.COMPLETED, _S.FAILED, _S.STOPPED)


class Driver:
    """Drives one run."""

    def __init__(
        self,
        services: Services,
        claim: Claim,
        enter: Callable[[LiveRun], Coroutine[Any, Any, Any]],
        *,
        code_version: str = "",
        guards: Guards = NO_GUARDS,
        life: Life = UNSEEN,
    ) -> None:
        self.live = LiveRun(services, claim, guards, life)
        self._enter, self._code_version, self._claim = enter, code_version, claim
        self._agent = self._new_agent()
        self._was_ended = claim.run.ended
        self._cut_by: Flag | None = None  # it has cut the run; the journal does not know yet
        self._undoing: Undoing | None = None
        self._releasing: Releasing | None = None
        self._quiet = Alarm(services.alarms, self.live.news)
        self._idle = Alarm(services.alarms, self.live.news)
        self._leave_by = Alarm(services.alarms, self._leave_now)
        self._is_over = False
        self.is_gone = asyncio.Event()  # this process does not drive the run any more
        self._awaited: dict[Move, Callable[[], Awaitable[object]]] = {
            Move.TELL_OF_CUT: self._tell_of_cut,
            Move.BLOCK: self._block,
            Move.PAUSE: self._pause,
            Move.NAME: self._name_what_goes_on,
            Move.TAKE_AGAIN: self._take_again,
            Move.TRIP: self._trip,
            Move.CANCEL_CHILDREN: self._cancel_children,
            Move.FINISH: self._finish,
            Move.STOP: self._stop,
            Move.CANCEL: self._cancel,
            Move.REQUEUE: self._requeue,
            Move.GIVE_BACK: self._give_back,
        }
        self._at_once: dict[Move, Callable[[], object]] = {
            Move.OPEN_GATE: self.live.gate.open,
            Move.SHUT_GATE: self.live.gate.shut,
            Move.CLOSE_GATE: self.live.gate.close,
            Move.GO_ON: self._obey,
            Move.HOLD: self._obey,
            Move.THAW: self._thaw,
            Move.LAND: self._land,
            Move.HURRY: self._hurry,
            Move.UNWIND: self._unwind,
            Move.ASK_HOW: self._ask_how,
            Move.UNDO: self._undo,
            Move.RELEASE: self._release,
            Move.COUNT_QUIET: lambda: self._quiet.set(self.services.timing.quiet_s),
            Move.COUNT_IDLE: self._count_idle,
            Move.BE_OVER: self._be_over,
        }

    def _new_agent(self) -> AgentEntry:
        live, services = self.live, self.live.services
        let_go, grace_s = partial(live.mind, "the agent"), services.timing.stop_grace_s
        return AgentEntry(
            live.run.id, live.gate, services.alarms, grace_s, live.news, live.guards, let_go
        )

    @property
    def services(self) -> Services:
        return self.live.services

    @property
    def lease(self) -> Lease:
        return self.live.lease

    # --- the life of it ---

    async def drive(self) -> None:
        """Carry the run on. Return when it rests and has left memory, or when it is lost."""
        live = self.live
        try:
            await self._take_up()
            while not self._is_over:
                await live.next_look()
                self.hold_off()
                await self._perform(self._here())
        except (Fenced, JournalClosed, StorageFailed) as lost:
            _log.warning("Run %s is abandoned: %s", live.run.id, lost)
        except PullcordError as error:
            _log.exception("Run %s cannot be driven.", live.run.id)
            await self._fail(error)
        finally:
            # Also if this task is cancelled: that does not cancel the run. The driver records
            # nothing, and the next owner goes on from the records.
            self._drop()

    async def _take_up(self) -> None:
        """Decide the steps that the last owner began, and enter the agent if it has work."""
        live = self.live
        await judge_what_was_begun(live, self._claim)
        await end_texts(live)
        if live.run.state is _S.PAUSING:  # its owner was lost before it recorded the pause
            await self._name_what_goes_on()
            await live.record(Paused(rung="abandoned"))
        live.news()
        live.memory = await live.stubborn(lambda: remember(self.services.journal, live.run))
        self.hold_off()
        if enters(live.run, self._here()):
            with live.mine.life.inside():
                self._agent.begin(self._enter(live), only_to_unwind=False)

    def _here(self) -> Here:
        live, flights = self.live, self.live.flights
        agent = self._agent.where
        caught = agent in ("returned", "raised") and self._agent.hit is not None
        return Here(
            agent=agent,
            has_asides=bool(live.asides),
            is_flying=bool(flights),
            is_moving=any(not flight.is_held for flight in flights),
            is_busy=bool(live.busy_tasks),
            is_waiting=live.waiting > 0,
            is_backing_off=live.backing_off > 0,
            is_at_gate=live.gate.holding > 0,
            is_quiet=self._quiet.has_rung,
            is_idle=self._idle.has_rung,
            caught="" if not caught else "told" if RESULT in live.memory.tripped else "untold",
            is_switched_off=live.is_switched_off,
            was_cut=self._cut_by is not None,
            leaving=live.leaving,
            was_ended=self._was_ended,
            knows_how=live.run.state not in _LOSSES or self._knows_how(),
            is_undoing=self._undoing is not None and not self._undoing.is_over,
            is_releasing=self._releasing is not None and not self._releasing.is_over,
        )

    async def _perform(self, here: Here) -> None:
        """Perform the next moves. If one changes a fact, look again before awaiting anything."""
        todo = moves(self.live.run, here)
        for move in todo:
            if move in self._at_once:
                self._at_once[move]()
        if self._here() != here:
            return self.live.news()
        for alarm, counting in ((self._quiet, Move.COUNT_QUIET), (self._idle, Move.COUNT_IDLE)):
            if counting not in todo:
                alarm.off()
        if Move.TELL_OF_CUT not in todo:
            self._cut_by = None
        for move in todo:
            if move in self._awaited:
                await self._awaited[move]()
        return None

    def _knows_how(self) -> bool:
        """Return whether it knows every undo and release, or has already asked the agent."""
        live = self.live
        if live.is_only_unwinding:
            return True
        is_known = all(map(self._can_be_undone, to_undo(live.run)))
        return is_known and all(defer in live.defers for defer in live.run.defers)

    def _can_be_undone(self, step: str) -> bool:
        """Return whether this step can be undone without the agent's help."""
        known = self.live.run.steps[step]
        return policy_for(step, known, self.live.tools, self.services.policies) is not None

    # --- moves that are done at once ---

    def _obey(self) -> None:
        for flight in list(self.live.flights):
            asked = asked_of(self.live.run, since=flight.begun_seq)
            flight.obey(order_for(asked, flight.manner))

    def _thaw(self) -> None:
        for flight in self.live.flights:
            flight.unpause()

    def _land(self) -> None:
        """Stop the steps for a cancel. For a shutdown, thaw frozen steps and give them time."""
        live = self.live
        is_cancel = live.run.state is _S.CANCELLING
        for flight in live.flights:
            if flight.is_frozen and not is_cancel:
                flight.unpause()
            stands = flight.is_held and live.run.state is not _S.RUNNING
            if is_cancel or live.leaving == "now" or stands:
                flight.stop(doubt="" if is_cancel else _SHUT_DOWN)

    def _hurry(self) -> None:
        for flight in self.live.flights:
            flight.obey("hurry")
        self._agent.hurry()

    def _unwind(self) -> None:
        gate = self.live.gate
        is_told = gate.turned_away or gate.holding or self.live.waiting or self.live.busy_tasks
        gate.close()
        self.live.wake_waiters()
        for apart in tuple(self.live.aparts):  # a check of a call; for the switch, anything
            apart.cut()
        self._agent.unwind(is_told=bool(is_told))

    def _ask_how(self) -> None:
        self.live.gate.close()  # the agent gets only as far as before
        self._agent = self._new_agent()
        self.live.is_only_unwinding = True
        with self.live.mine.life.inside():
            self._agent.begin(self._enter(self.live), only_to_unwind=True)
        self.live.news()

    def _undo(self) -> None:
        """Begin or go on to undo the effects. A hurry does not give up an undo."""
        if self._undoing and self._undoing.broke:
            raise self._undoing.broke  # a second try would end the same way
        leaving = self.live.leaving
        if (self._undoing is None or self._undoing.is_over) and not leaving:
            self._undoing = Undoing(self.live)
        if self._undoing and self._is_hurried:
            self._undoing.hurry()
        if self._undoing and leaving:
            self._undoing.leave(now=leaving == "now")

    def _release(self) -> None:
        """Begin or go on to release. A release that takes too long is named, not awaited."""
        if self._releasing and self._releasing.broke:
            raise self._releasing.broke
        if self._releasing is None or self._releasing.is_over:
            self._releasing = Releasing(self.live)
        if self._is_hurried or self.live.leaving == "now":
            self._releasing.hurry()

    def _count_idle(self) -> None:
        if not self._idle.has_rung:
            self._idle.set(self.services.timing.park_after_s)

    @property
    def _is_hurried(self) -> bool:
        cancel = self.live.run.cancel
        return self.live.run.state is _S.CANCELLING and bool(cancel and cancel.hurried_seq)

    def _be_over(self) -> None:
        self._is_over = True

    # --- moves that await ---

    async def _tell_of_cut(self) -> None:
        """Pause the run where it was cut, even if the kill switch is released by now."""
        flag, self._cut_by = self._cut_by, None
        if flag is not None:
            command = self.services.journal.command
            await self.live.stubborn(lambda: command(self.live.run.id, pause_by(flag)))
            await self.live.stubborn(self.live.mine.catch_up)
        self.live.news()

    async def _block(self) -> None:
        await self.live.record(Blocked(seen_seq=self.live.run.seq))
        self.live.news()

    async def _pause(self) -> None:
        for _ in range(_TURNS):  # the agent may end right after its last step
            await asyncio.sleep(0)
        self.live.news()
        if Move.PAUSE not in moves(self.live.run, self._here()):
            return
        frozen = tuple(sorted(flight.name for flight in self.live.flights if flight.is_frozen))
        await self._name_what_goes_on()
        await self.live.record(Paused(rung=self._highest(), frozen=frozen))
        pause = self.live.run.pause
        if pause and pause.source in ("limit", "guard"):  # no person asked for this pause
            _log.warning("Run %s is paused by %s: %s", self.live.run.id, pause.by, pause.reason)

    async def _take_again(self) -> None:
        # If it fails, a person paused the run again or a process took it: the next look tells.
        ttl_s, version = self.services.licence.ttl_s, self._code_version
        retake = self.live.mine.retake
        await self.live.stubborn(lambda: retake(ttl_s=ttl_s, code_version=version))
        self.live.rung = ""
        self.live.news()

    async def _trip(self) -> None:
        if (hit := self._agent.hit) is not None:
            await trip(self.live, hit, part=RESULT)

    async def _cancel_children(self) -> None:
        run, command = self.live.run, self.services.journal.command
        gone = Cancel(by=run.id, reason="its parent failed", source="parent")
        for child in run.living_children():
            await self.live.stubborn(lambda child=child: command(child, gone))
        await self.live.stubborn(self.live.mine.catch_up)

    async def _finish(self) -> None:
        live, end = self.live, self._agent.end()
        await end_texts(live)
        if isinstance(end, Completed):
            await name_the_vanished(live)
        await name_policies_without_a_tool(live)
        await name_approved_and_never_called(live)
        await self._end(self._stopped(end) if live.run.state is _S.STOPPING else end)

    async def _stop(self) -> None:
        await end_texts(self.live)
        await self._end(self._stopped())

    async def _cancel(self) -> None:
        await end_texts(self.live)
        await self._name_what_goes_on()
        await self._end(Cancelled(rung=self._highest()))

    async def _requeue(self) -> None:
        await end_texts(self.live)
        await self._end(Requeued(cause="shutdown" if self.live.leaving else "kill switch"))

    async def _end(self, end: Completed | Failed | Stopped | Cancelled | Requeued) -> None:
        """Record the end of the run and release the lease, unless a control comes first."""
        sealed = self.services.journal.seal.event(end)
        self._is_over = await self.live.record(sealed, release=True) == [sealed]
        self.live.news()

    def _stopped(self, end: Completed | Failed | None = None) -> Stopped:
        """Return the end of a run whose limits are reached, with its agent's result or error."""
        reached = self.live.run.reached
        leaves = reached.leaves if reached else ()
        if isinstance(end, Completed):
            return Stopped(leaves=leaves, result=end.result)
        return Stopped(leaves=leaves, error=end.error if end else "")

    async def _give_back(self) -> None:
        if self.live.run.state in (_S.PAUSED, _S.WAITING):
            await end_texts(self.live)
        if self.live.run.state is _S.PAUSED or self.live.run.ended:
            await self._name_what_goes_on()
        await self.live.stubborn(lambda: self.services.journal.release(self.live.mine.lease))
        self._is_over = True

    async def _name_what_goes_on(self) -> None:
        await self.live.stubborn(lambda: name_what_goes_on(self.services.journal, self.live.run))

    def _highest(self) -> Rung:
        if "abandoned" in (self.live.rung, self._agent.rung):
            return "abandoned"
        return self.live.rung or self._agent.rung or "cooperative"

    # --- the end of it here ---

    async def _fail(self, error: PullcordError) -> None:
        """End the run as failed. Otherwise the next owner would meet the same error."""
        doubts = [StepInDoubt(step=step) for step in self.live.run.open_steps()]
        end = Failed(error=f"it could not be driven: {described(error)}")
        try:
            await end_texts(self.live)
            await self.live.mine.record(together(*doubts, end), release=True)
        except PullcordError:
            _log.exception("Run %s could not even be ended.", self.live.run.id)

    def _drop(self) -> None:
        """Let go of everything in memory, and record nothing."""
        self.live.drop()
        for alarm in (self._quiet, self._idle, self._leave_by):
            alarm.off()
        if self._undoing:
            self._undoing.leave(now=True)
        self._agent.drop()
        if self._releasing:
            self._releasing.hurry()

    # --- the runtime closes ---

    def leave(self) -> None:
        """Hand the run over, so that another process can go on with it."""
        if not self.live.leaving:
            self.live.leaving = "asked"
            self._leave_by.set(self.services.timing.shutdown_grace_s)
            self.live.news()

    def _leave_now(self) -> None:
        self.live.leaving = "now"
        self.live.news()

    # --- the kill switch ---

    def hold_off(self) -> None:
        """If the kill switch holds this run, let nothing begin and cut the work under way. The
        journal hears of the pause afterwards, because it may be slow or gone."""
        if (flag := self.services.switch.covers(*self.live.whose)) is None:
            return
        self._cut_by = flag
        self.live.gate.shut()
        if self.live.flights or self.live.asides:
            self._agent.has_not_ended()  # what it has left to others is cut with it
        for flight in list(self.live.flights):
            flight.stop(doubt=flag.said())
            flight.hurry()
        if self._undoing:
            self._undoing.leave(now=True)
        if self._releasing:
            self._releasing.leave()
        self._unwind()  # the agent's own code too: a resume enters it again

    def cut_sockets(self) -> None:
        """Shut its model calls' sockets, and kill its steps' processes. Any thread may call it."""
        for flight in tuple(self.live.flights):
            if flight.transport:
                flight.transport()
            if flight.started:
                flight.started.kill()
        for apart in tuple(self.live.aparts):
            apart.kill()

    def going_on(self) -> list[tuple[str, str]]:
        """Return the work that goes on under the kill switch. The switch's thread calls it."""
        live, of = self.live, f"run {self.live.run.id}"
        left = [
            (f"step {flight.name!r} of {of}", "it ignores being cancelled, or holds its event loop")
            for flight in tuple(live.flights)
            if flight.is_working and flight.manner.run_in != "process" and not flight.is_held
        ]
        if not left and live.gate.is_open:
            left = [(of, "its event loop is held")]
        is_in_a_door = any(task and self._agent.is_by(task) for task in tuple(live.busy_tasks))
        if not left and self._agent.is_in_memory and not live.flights and not is_in_a_door:
            left = [(f"the agent of {of}", "its own code ignores being cancelled")]
        return left

    # --- the lease ---

    def lapse(self) -> None:
        """Hold every step: this process stood still, or cannot reach its store, and may not act."""
        for flight in tuple(self.live.flights):
            flight.lapse()

    def renewed(self) -> None:
        """Let every step go on: this process may act again."""
        for flight in tuple(self.live.flights):
            flight.renewed()
        self.live.wake_waiters()

    def carries(self, task: "asyncio.Task[Any]") -> str | None:
        """Return the step that this task works for; "": the agent's own code; None: not this run.
        Any thread may call it."""
        steps = (flight.name for flight in tuple(self.live.flights) if flight.is_by(task))
        return next(steps, "" if self._agent.is_by(task) else None)
