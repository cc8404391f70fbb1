"""One attempt of a step, from its durable intent to its durable outcome.

A cut stops only the user's function: a task of its own, or a tree of processes. No control cancels
the task around it, which records the outcome. So an outcome that arrives in the same instant as a
cancel is kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, Literal

from pullcord.core.events import (
    AttentionRaised,
    Effect,
    Event,
    LateResult,
    Rung,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
)
from pullcord.core.judging import in_doubt
from pullcord.core.run import Run
from pullcord.core.undo import undo_item
from pullcord.core.values import NULL, dump
from pullcord.errors import Fenced, InvalidInput, JournalClosed, PullcordError
from pullcord.journal.clock import Clock
from pullcord.runtime.alarms import Alarm, Alarms
from pullcord.runtime.ownership import Wanted, together
from pullcord.runtime.processes.started_work import HURRY_S, IGNORES, STARTER, StartedWork
from pullcord.runtime.processes.warden_client import NotStarted, Process
from pullcord.runtime.steps.failures import Cut, Lost, ResultLost, ToolFailed, Vanished, described
from pullcord.runtime.steps.manner import Manner
from pullcord.runtime.steps.orders import Order
from pullcord.warden.frames import own_place, own_traceback

Record = Callable[[Wanted], Awaitable[list[Event]]]
Call = Callable[[], Awaitable[Any]]
Pass = Callable[[Event], Awaitable[Event]]
_NUDGE_S: Final = 0.5  # how long a call may take to notice its closed connection
_WARDEN_S: Final = 3.0  # how long the warden may take beyond its ladder before we give up on it


class Flight:
    """A step under way. `landed` returns its recorded outcome. None: it could not be recorded."""

    def __init__(
        self,
        step: str,
        name: str,
        attempt: int,
        manner: Manner,
        *,
        begun_seq: int = 0,
        record: Record,
        later: Callable[[Coroutine[Any, Any, None]], object],
        alarms: Alarms,
        clock: Clock,
        passed: Pass | None = None,
        refusal: Callable[[], str] = str,
        licensed: Callable[[], Awaitable[None]],
        testify: Callable[[LateResult], Awaitable[None]],
        started: StartedWork | None = None,
    ) -> None:
        self.step, self.name, self.attempt, self.manner = step, name, attempt, manner
        self.begun_seq = begun_seq
        self.rung: Rung = ""
        self.is_held = False  # it stands still, at its own checkpoint or frozen
        self.is_redirected = False  # an instruction from a person stopped it
        self.is_withheld = False  # a guard found something in its outcome
        self.value: Any = None
        self.error: BaseException | None = None
        self._record, self._later, self._clock, self._alarms = record, later, clock, alarms
        self._passed = passed  # returns the outcome that may be recorded
        self._refusal = refusal  # why nothing may start now; empty: it may
        self._licensed = licensed  # returns when this process may act
        self._testify = testify  # records a late result for another owner of the run
        self.started = started  # the work that it starts, if that is watched
        self._left: tuple[str, ...] = ()  # work that goes on although it was cut, perhaps its own
        self.spent: Spent | None = None  # its cost so far, if any
        self.transport: Callable[[], bool] | None = None  # closes its connection, if it has one
        self.halt: Callable[[], None] | None = None  # stops its thread, if that is possible
        self._process: Process | None = None
        self._is_freezing = False
        self._has_begun = False  # its function was called
        self._is_timed_out = False
        self._doubt = ""  # why its outcome is unknown
        self._left_s = manner.timeout_s
        self._running_since = 0.0
        self._abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inner: asyncio.Task[Any] | None = None
        self._timer = Alarm(alarms, self._time_is_up)
        self._ladder = Alarm(alarms, self._climb)
        self._hold = Alarm(alarms, self.stop)
        self._nudge = Alarm(alarms, self._cancel_inner)
        self._rungs, self._is_hurried = 0, False
        self.landed: asyncio.Task[list[Event] | None] | None = None

    @property
    def effect(self) -> Effect:
        return self.manner.effect

    def take_off(self, call: Call) -> "asyncio.Task[list[Event] | None]":
        self.landed = asyncio.create_task(self._fly(call))
        return self.landed

    def take(self, process: Process) -> bool:
        """Make this process the thing to stop. False: the step was cut, do not start it."""
        if self.rung:
            return False
        self._process = process
        return True

    @property
    def is_working(self) -> bool:
        """Whether its function was called, and that or the work it started still goes on."""
        is_inside = self._inner is not None and not self._inner.done()
        return self._has_begun and (is_inside or bool(self.started and self.started.goes_on))

    def is_by(self, task: "asyncio.Task[Any]") -> bool:
        return task is self._inner

    # --- stopping it ---

    def stop(self, *, doubt: str = "") -> None:
        """Begin to climb the ladder. At the last rung, let go of the step and record that.

        `doubt`: why it is cut, if no person decided that (a shutdown, the kill switch). A person
        then has to judge whether it had an effect.
        """
        if self.rung:
            return
        self._doubt = doubt if self.effect == "once" else ""
        self._climb()

    def hurry(self) -> None:
        """Climb the next rung at once: the second press.

        Each rung gets its own turn of the loop: of two cancellations in one turn a task sees only
        one.
        """
        if self._rungs == 1 and not self._is_hurried:
            self._is_hurried = True
            self._ladder.off()
            asyncio.get_running_loop().call_soon(self._climb_on)

    def _climb_on(self) -> None:
        if self._inner is None or not self._inner.done():
            self._climb()

    def _climb(self) -> None:
        self._rungs += 1
        if self._rungs > 2 or (self._rungs == 2 and self.manner.run_in == "thread"):
            if not self._abandoned.done():
                self.rung = "abandoned"
                self._abandoned.set_result(None)
            return
        is_first = self._rungs == 1
        grace_s = self.manner.grace_s if is_first else HURRY_S
        if self.transport:
            self.rung = "transport_closed"
            # Not both at once: a cancellation that meets its library closing the connection, for
            # the end it saw or for another cancellation, takes a place in the pool for good.
            # (tests/agents/test_an_interrupt_reaches_the_socket.py)
            sees_the_end = self.transport()
            if is_first:
                self._nudge.set(_NUDGE_S) if sees_the_end else self._cancel_inner()
        elif self._process:
            self.rung = "terminated" if is_first else "killed"
            self._process.stop(grace_s) if is_first else self._process.hurry()
            grace_s += _WARDEN_S
        else:
            self.rung = "stop_requested" if self.manner.run_in == "remote" else "task_cancel"
            if self.halt:
                self.halt()
            elif self._inner and self.manner.run_in != "thread":
                self._inner.cancel()
        self._ladder.set(grace_s)

    def _cancel_inner(self) -> None:
        if self._inner:
            self._inner.cancel()

    # --- standing still ---

    def obey(self, order: Order) -> None:
        """Carry out an order. The same order again changes nothing."""
        match order:
            case "go on":
                self.unpause()
            case "hurry":
                self.stop()
                self.hurry()
            case "redirect" if not self.rung:
                self.is_redirected = True
                self.stop()
            case "stop" | "rest" | "hold" | "freeze" if not self._is_over:
                self._stand_still(order)
            case _:
                pass

    @property
    def _is_over(self) -> bool:
        """Whether it has ended, and its outcome is about to be recorded."""
        return self._inner is not None and self._inner.done()

    def _stand_still(self, order: Order) -> None:
        if order == "stop" or (order == "rest" and not self.is_held):
            self.stop()
        elif order == "hold" and not self.rung and not self._hold.is_set:
            self._hold.set(self.manner.hold_s)
        elif order == "freeze" and self._process and not self.rung:
            if not self._is_freezing:
                self._is_freezing = True
                self._process.freeze()
            if self._process.is_frozen:
                self.hold()

    def unpause(self) -> None:
        """Let it go on: the run resumes, or a frozen step may use its last time."""
        self._hold.off()
        if self._is_freezing and self._process:
            self._is_freezing = False
            self._process.thaw()
            self.go_on()

    def lapse(self) -> None:
        """Hold it, because this process may not act now.

        The warden freezes its processes by itself, so their time stops here. An open answer of a
        model gets `hold_s`, and is then cut.
        """
        if self._process:
            self._stop_timer()
        elif self.manner.on_pause == "hold" and not self.rung and not self._hold.is_set:
            self._hold.set(self.manner.hold_s)

    def renewed(self) -> None:
        """Let it go on, because this process may act again."""
        self._hold.off()
        if self._process and not self.is_held:
            self._start_timer()

    @property
    def is_frozen(self) -> bool:
        return self._is_freezing and self.is_held

    def hold(self) -> None:
        """Mark it as standing still, and stop its time."""
        if not self.is_held:
            self.is_held = True
            self._stop_timer()

    def go_on(self) -> None:
        if self.is_held:
            self.is_held = False
            self._start_timer()

    def _stop_timer(self) -> None:
        if self._left_s is not None and self._timer.is_set:
            self._timer.off()
            self._left_s = max(self._left_s - (self._now() - self._running_since), 0.0)

    def _start_timer(self) -> None:
        if self._left_s is not None and not self.rung:
            self._running_since = self._now()
            self._timer.set(self._left_s)

    def _time_is_up(self) -> None:
        if not self.rung:
            self._is_timed_out = True
            self.stop()

    def _now(self) -> float:
        return self._clock.boot_time().seconds

    # --- in the air ---

    async def _fly(self, call: Call) -> list[Event] | None:
        inner = self._inner = asyncio.create_task(self._carry_out(call))
        if self.rung:
            inner.cancel()  # cut before it began: a task cancelled before its first turn never runs
        self._start_timer()
        try:
            await asyncio.wait({inner, self._abandoned}, return_when=asyncio.FIRST_COMPLETED)
            for alarm in (self._ladder, self._timer, self._hold, self._nudge):
                alarm.off()
            if self.rung and self._has_begun and self.started:
                await self._stop_what_it_started(self.started)
            if not inner.done():
                return await self._let_go(inner)
            return await self._decide(self._outcome(inner))
        except JournalClosed:
            return None
        except Fenced:  # another process owns the run; it judges this attempt
            await self._tell_who_owns_it(inner)
            return None

    async def _stop_what_it_started(self, started: StartedWork) -> None:
        reached, self._left = await started.stop(
            self._alarms, self.manner.grace_s, lambda: self._is_hurried
        )
        self.rung = reached or self.rung

    async def _carry_out(self, call: Call) -> Any:
        _FLIGHT.set(self)
        STARTER.set(self.started)
        await self._licensed()  # the last check: nothing is awaited between it and the call
        if refused := self._refusal():
            self.rung = self.rung or "cooperative"
            raise NotStarted(refused)
        self._has_begun = True
        try:
            return await call()
        except (SystemExit, KeyboardInterrupt) as error:  # asyncio would end the whole loop
            raise ToolFailed(described(error)) from None
        finally:
            STARTER.set(None)  # so that only ongoing work refers to it

    def _outcome(self, inner: asyncio.Task[Any]) -> Event:
        if inner.cancelled():
            if self.rung:
                return self._cut()
            self.error = asyncio.CancelledError("a cancellation that nobody asked for came out")
            return self._failed(self.error)
        self.error = inner.exception()
        if isinstance(self.error, Lost) and self.effect == "once":
            return StepInDoubt(step=self.step, attempt=self.attempt, why=described(self.error))
        if self.error is not None and self.rung and not isinstance(self.error, ResultLost):
            return self._cut()  # this error is its reaction to the stop
        if self.error is None:
            try:
                self.value = inner.result()
                result = dump(self.value)
                return StepFinished(
                    step=self.step, attempt=self.attempt, result=result, still_running=self._left
                )
            except InvalidInput as refused:  # it happened, but its result can never be read
                self.error = ResultLost(f"it happened, but {described(refused)}")
        return self._failed(self.error)

    async def _decide(self, outcome: Event) -> list[Event]:
        """Record the outcome, together with attention items and costs, if any."""
        outcome = await self._as_it_may_be(outcome)
        with_it: list[Event] = []
        if self._is_doubtful(outcome):
            more = f"still running: {', '.join(self._left)}." if self._left else ""
            with_it.append(in_doubt(self.step, self.name, more))
        elif isinstance(self.error, Cut) and self.error.ended.survivors:
            with_it.append(self._left_behind(f"processes {self.error.ended.survivors}"))
        elif self._left:
            with_it.append(self._left_behind(", ".join(self._left)))
        if self.spent is not None:
            with_it.append(self.spent)
        if not with_it:
            return await self._record(outcome)
        if recorded := await self._record(together(outcome, *with_it)):
            return recorded[:1]
        recorded = await self._record(outcome)
        if self.spent is not None:
            await self._record(self.spent)  # the cost counts, whatever the outcome
        return recorded

    def _is_doubtful(self, outcome: Event) -> bool:
        """Return whether people have to know that the step may have happened."""
        is_told = isinstance(outcome, StepFailed) and outcome.happened == "maybe"
        return isinstance(outcome, StepInDoubt) or (is_told and self.effect == "once")

    async def _as_it_may_be(self, outcome: Event) -> Event:
        """Return the outcome without the text that a guard found, for people and the agent."""
        passed = await self._passed(outcome) if self._passed else outcome
        if passed != outcome:
            said = passed.error if isinstance(passed, StepFailed) else ""
            self.value, self.error = None, ToolFailed(said) if said else None  # without its line
            self.is_withheld = True
        return passed

    def _failed(self, error: BaseException) -> Event:
        happened: Literal["", "yes", "maybe"] = ""
        if self.effect != "none":
            is_unheard = isinstance(error, Vanished | Lost | asyncio.CancelledError)
            happened = "yes" if isinstance(error, ResultLost) else "maybe" if is_unheard else ""
        return self._failed_or_in_doubt(happened)

    def _failed_or_in_doubt(self, happened: Literal["", "yes", "maybe"]) -> Event:
        """Return a doubt for the tool's probe to settle, or a failure for the agent."""
        assert self.error is not None
        step, attempt, why = self.step, self.attempt, described(self.error)
        left = self._left
        if happened == "maybe" and self.effect == "once" and self.manner.has_probe:
            rung = self.rung
            return StepInDoubt(step=step, attempt=attempt, why=why, rung=rung, still_running=left)
        at, raised_in = self._raised_in(self.error)
        return StepFailed(
            step=step,
            attempt=attempt,
            error=why,
            happened=happened,
            rung=self.rung,
            at=at,
            traceback=raised_in,
            still_running=left,
        )

    def _raised_in(self, error: BaseException) -> tuple[str, str]:
        """Return the line and traceback in a sync tool's own code. (Async: where awaited.)"""
        if isinstance(error, ToolFailed):
            return error.at, error.traceback
        is_sync = self.manner.run_in == "thread"
        return (own_place(error), own_traceback(error)) if is_sync else ("", "")

    def _cut(self) -> Event:
        ended = self.error.ended if isinstance(self.error, Cut) else None
        is_process = self.manner.run_in == "process"
        is_missing = not self._has_begun or (is_process and self._process is None)
        began = not isinstance(self.error, NotStarted) and (
            ended.began if ended else not is_missing
        )
        if ended and ended.rung:
            self.rung = ended.rung
        if self._is_timed_out:
            may = began and self.effect != "none"
            said = f"it took longer than {self.manner.timeout_s:g} s"
            self.error = TimeoutError(said + ("; it may have had an effect" if may else ""))
            return self._failed_or_in_doubt("maybe" if may else "")
        if self._doubt and began:
            return StepInDoubt(
                step=self.step, attempt=self.attempt, why=self._doubt, still_running=self._left
            )
        return StepInterrupted(
            step=self.step,
            attempt=self.attempt,
            rung=self.rung,
            began=began,
            redirected=self.is_redirected,
            ladder_ms=ended.ladder_ms if ended else {},
            still_running=self._left,
        )

    async def _let_go(self, inner: asyncio.Task[Any]) -> list[Event] | None:
        """Record that it ignores every stop, and keep its late result."""
        itself = "a thread, which cannot be stopped" if self.manner.run_in == "thread" else ""
        self._left = (itself or IGNORES, *self._left)
        outcome = self._cut()
        what = ", ".join(self._left) if itself or len(self._left) > 1 else ""
        recorded = await self._record(together(outcome, self._left_behind(what)))
        inner.add_done_callback(lambda _: self._later(self._late(inner)))
        return recorded[:1] if recorded else await self._record(outcome)

    def _left_behind(self, what: str) -> AttentionRaised:
        text = f"Step {self.name!r} ignores being cancelled and may still be going on."
        if what:
            text = f"Step {self.name!r} could not be stopped and may still be going on: {what}."
        return AttentionRaised(item=self.step, kind="not_stoppable", text=text)

    def _too_late_to_be_undone(self, run: Run) -> list[Event]:
        """Return an item for a person, if its effect came after the end of its run."""
        known = run.steps[self.step]
        if not run.ended or not known.late_seq or not known.undoable:
            return []
        text = (
            f"Step {self.name!r} did happen, after its run had ended. "
            f"Undo it: pullcord undo {run.id} {self.step}"
        )
        return [AttentionRaised(item=undo_item(self.step), kind="undo_failed", text=text)]

    async def _late(self, inner: asyncio.Task[Any]) -> None:
        try:
            if not inner.cancelled():
                self._is_timed_out = False
                self._left = self.started.left() if self.started else ()
                await self._record(await self._as_it_may_be(self._outcome(inner)))
                await self._record(self._too_late_to_be_undone)
        except Fenced:
            await self._tell_who_owns_it(inner)
        except Exception:
            pass  # the journal is closed: nobody is left to read it

    async def _tell_who_owns_it(self, inner: asyncio.Task[Any]) -> None:
        """Record the late result for the new owner of the run, as evidence.

        It also tells that owner that nothing of the step goes on. If it still goes on, wait for its
        end.
        """
        if not inner.done():
            inner.add_done_callback(lambda _: self._later(self._tell_who_owns_it(inner)))
            return
        outcome = self._outcome(inner)
        error = outcome.error if isinstance(outcome, StepFailed) else "it was stopped"
        if not self._has_begun:
            error = "it had not begun, and never did"
        late = LateResult(step=self.step, attempt=self.attempt, error=error)
        if isinstance(outcome, StepFinished):
            passed = await self._as_it_may_be(outcome)
            done = passed.result if isinstance(passed, StepFinished) else NULL
            late = LateResult(step=self.step, attempt=self.attempt, result=done)
        try:
            await self._testify(late)
        except PullcordError:
            pass  # the journal is closed or out of reach: nobody is left to read it


_FLIGHT: Final[ContextVar[Flight | None]] = ContextVar("pullcord-flight", default=None)


def current_flight() -> Flight | None:
    """Return the step in whose function this is called, or None."""
    return _FLIGHT.get()
