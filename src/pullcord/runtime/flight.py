"""One attempt of a step, from its durable intent to its durable outcome.

What is cut is only the user's function: a task of its own, or a tree of processes. The task
around it, which records the outcome, is never cancelled: an outcome that arrives in the same
instant as a cancel is kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, Literal

import msgspec

from pullcord.core.events import (
    AttentionRaised,
    Effect,
    Event,
    Rung,
    RunIn,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
)
from pullcord.core.judging import in_doubt
from pullcord.core.run import Run
from pullcord.core.undo import undo_item
from pullcord.core.values import dump
from pullcord.errors import Fenced, InvalidInput, JournalClosed
from pullcord.journal.clock import Clock
from pullcord.runtime.alarms import Alarm, Alarms
from pullcord.runtime.ownership import Wanted
from pullcord.runtime.processes import Ended, NotStarted, Process

Record = Callable[[Wanted], Awaitable[list[Event]]]
Call = Callable[[], Awaitable[Any]]
Pass = Callable[[Event], Awaitable[Event]]
HURRY_S: Final = 0.05
_NUDGE_S: Final = 0.5  # how long a call may take to see that its connection was shut
_WARDEN_S: Final = 3.0  # what the warden may take beyond its ladder before it is not believed in
_ERROR_CHARS: Final = 4000


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a step is carried out, as far as stopping it goes."""

    effect: Effect = "once"
    run_in: RunIn = ""
    timeout_s: float | None = None
    grace_s: float = 2.0  # how long it may take to heed each rung of the ladder
    on_pause: Literal["finish", "cancel", "freeze", "hold"] = "finish"
    hold_s: float = 0.0  # with `hold`: how long it may go on, unseen, before a pause cuts it
    on_redirect: Literal["finish", "cancel"] = "finish"


class Cut(Exception):
    """The process of a tool was stopped, by the warden's word."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.why or f"stopped ({ended.rung})")
        self.ended = ended


class Lost(Exception):
    """Nobody can say what became of a process tool: whoever held it is gone."""


class Happened(Exception):
    """A tool ran to its end, and what came out of it cannot be stored."""


class ToolFailed(Exception):
    """A process tool raised: what it said, in words."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class Vanished(ToolFailed):
    """Its process ended without a word: what it had done by then, nobody knows."""


class Flight:
    """A step under way. `landed` is its outcome as recorded; None: nobody could record it."""

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
    ) -> None:
        self.step, self.name, self.attempt, self.manner = step, name, attempt, manner
        self.begun_seq = begun_seq
        self.rung: Rung = ""
        self.is_held = False  # it stands still, at a checkpoint of its own or frozen
        self.is_redirected = False  # it was stopped because somebody said something new
        self.is_withheld = False  # a guard has found something in what came of it
        self.value: Any = None
        self.error: BaseException | None = None
        self._record, self._later, self._clock = record, later, clock
        self._passed = passed  # what may be recorded of an outcome
        self._refusal = refusal  # why nothing may be called now, if so
        self.spent: Spent | None = None  # what it has cost so far, if it costs anything
        self.transport: Callable[[], bool] | None = None  # closes what it talks through, if any
        self._process: Process | None = None
        self._is_freezing = False
        self._has_begun = False  # its function was called
        self._is_timed_out = False
        self._doubt = ""  # why nobody knows what became of it
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
        """From here on it is this process that has to be stopped. False: do not start it."""
        if self.rung:
            return False
        self._process = process
        return True

    @property
    def is_working(self) -> bool:
        """Its function was called, and has not come to an end."""
        return self._has_begun and self._inner is not None and not self._inner.done()

    def is_by(self, task: "asyncio.Task[Any]") -> bool:
        return task is self._inner

    # --- stopping it ---

    def stop(self, *, doubt: str = "") -> None:
        """Begin to climb the ladder, and in the end let go of it and say so.

        `doubt`: what cuts it, if that is nobody's decision about this run (a shutdown, the kill
        switch), so that an effect it may have had is for a person to judge.
        """
        if self.rung:
            return
        self._doubt = doubt if self.effect == "once" else ""
        self._climb()

    def hurry(self) -> None:
        """The second press: the next rungs come at once. But each in a turn of the loop of its own:
        of two cancellations in one turn a task hears one."""
        if self._rungs == 1 and not self._is_hurried:
            self._is_hurried = True
            self._ladder.off()
            asyncio.get_running_loop().call_soon(self._climb_on)

    def _climb_on(self) -> None:
        if self._inner is None or not self._inner.done():
            self._climb()

    def redirect(self) -> None:
        """Somebody has said something new, and it is to be stopped for that."""
        if self.manner.on_redirect == "cancel" and not self.rung:
            self.is_redirected = True
            self.stop()

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
            if self._inner and self.manner.run_in != "thread":
                self._inner.cancel()
        self._ladder.set(grace_s)

    def _cancel_inner(self) -> None:
        if self._inner:
            self._inner.cancel()

    # --- standing still ---

    def pause(self) -> None:
        """The run is being paused: stand still, stop, or finish, as was declared."""
        if self._inner and self._inner.done():
            return  # it is over, and what came of it is about to be recorded
        if self.manner.on_pause == "hold" and not self.rung:
            if not self._hold.is_set:
                self._hold.set(self.manner.hold_s)
        elif self.manner.on_pause == "cancel" and not self.is_held:
            self.stop()
        elif self.manner.on_pause == "freeze" and self._process and not self.rung:
            if not self._is_freezing:
                self._is_freezing = True
                self._process.freeze()
            if self._process.is_frozen:
                self.hold()

    def unpause(self) -> None:
        """The run goes on, or what stands still may use the last of its time."""
        self._hold.off()
        if self._is_freezing and self._process:
            self._is_freezing = False
            self._process.thaw()
            self.go_on()

    @property
    def is_frozen(self) -> bool:
        return self._is_freezing and self.is_held

    def hold(self) -> None:
        """It stands still: its time stops."""
        if not self.is_held:
            self.is_held = True
            if self._left_s is not None and self._timer.is_set:
                self._timer.off()
                self._left_s = max(self._left_s - (self._now() - self._running_since), 0.0)

    def go_on(self) -> None:
        if self.is_held:
            self.is_held = False
            self._start_timer()

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
            inner.cancel()  # cut before it began: a task that is cancelled first never runs
        self._start_timer()
        try:
            await asyncio.wait({inner, self._abandoned}, return_when=asyncio.FIRST_COMPLETED)
            for alarm in (self._ladder, self._timer, self._hold, self._nudge):
                alarm.off()
            if not inner.done():
                return await self._let_go(inner)
            return await self._decide(self._outcome(inner))
        except (Fenced, JournalClosed):
            return None  # another process owns the run; it judges this attempt

    async def _carry_out(self, call: Call) -> Any:
        _FLIGHT.set(self)
        if refused := self._refusal():
            self.rung = self.rung or "cooperative"
            raise NotStarted(refused)
        self._has_begun = True
        try:
            return await call()
        except (SystemExit, KeyboardInterrupt) as error:  # asyncio would end the whole loop
            raise ToolFailed(described(error)) from None

    def _outcome(self, inner: asyncio.Task[Any]) -> Event:
        if inner.cancelled():
            if self.rung:
                return self._cut()
            self.error = asyncio.CancelledError("a cancellation that nobody asked for came out")
            return self._failed(self.error)
        self.error = inner.exception()
        if isinstance(self.error, Lost) and self.effect == "once":
            return StepInDoubt(step=self.step, attempt=self.attempt, why=described(self.error))
        if self.error is not None and self.rung and not isinstance(self.error, Happened):
            return self._cut()  # its way of saying that it was stopped
        if self.error is None:
            try:
                self.value = inner.result()
                result = dump(self.value)
                return StepFinished(step=self.step, attempt=self.attempt, result=result)
            except InvalidInput as refused:  # it happened, but nobody could ever read what came out
                self.error = Happened(f"it happened, but {described(refused)}")
        return self._failed(self.error)

    async def _decide(self, outcome: Event) -> list[Event]:
        """Record what became of it, together with what makes people look at it, if anything."""
        outcome = await self._as_it_may_be(outcome)
        with_it: list[Event] = []
        if isinstance(outcome, StepInDoubt):
            with_it.append(in_doubt(self.step, self.name))
        elif isinstance(self.error, Cut) and self.error.ended.survivors:
            with_it.append(self._left_behind(f"processes {self.error.ended.survivors}"))
        if self.spent is not None:
            with_it.append(self.spent)
        if not with_it:
            return await self._record(outcome)
        if recorded := await self._record(together(outcome, *with_it)):
            return recorded[:1]
        recorded = await self._record(outcome)
        if self.spent is not None:
            await self._record(self.spent)  # it was paid for, whatever became of it
        return recorded

    async def _as_it_may_be(self, outcome: Event) -> Event:
        """Without what a guard has found in it: nobody is to see that, nor the agent."""
        passed = await self._passed(outcome) if self._passed else outcome
        if passed != outcome:
            said = passed.error if isinstance(passed, StepFailed) else ""
            self.value, self.error = None, ToolFailed(said) if said else None
            self.is_withheld = True
        return passed

    def _failed(self, error: BaseException) -> Event:
        happened = ""
        if self.effect != "none":
            is_unheard = isinstance(error, Vanished | Lost)
            happened = "yes" if isinstance(error, Happened) else "maybe" if is_unheard else ""
        said = described(error)
        return StepFailed(step=self.step, attempt=self.attempt, error=said, happened=happened)

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
            return StepFailed(
                step=self.step,
                attempt=self.attempt,
                error=described(self.error),
                happened="maybe" if may else "",
                rung=self.rung,
            )
        if self._doubt and began:
            return StepInDoubt(step=self.step, attempt=self.attempt, why=self._doubt)
        return StepInterrupted(
            step=self.step,
            attempt=self.attempt,
            rung=self.rung,
            began=began,
            redirected=self.is_redirected,
            ladder_ms=ended.ladder_ms if ended else {},
        )

    async def _let_go(self, inner: asyncio.Task[Any]) -> list[Event] | None:
        """It ignores every way of stopping it. Say so, and keep what still comes out of it."""
        outcome = self._cut()
        what = "a thread, which cannot be stopped" if self.manner.run_in == "thread" else ""
        recorded = await self._record(together(outcome, self._left_behind(what)))
        inner.add_done_callback(lambda _: self._later(self._late(inner)))
        return recorded[:1] if recorded else await self._record(outcome)

    def _left_behind(self, what: str) -> AttentionRaised:
        text = f"Step {self.name!r} ignores being cancelled and may still be going on."
        if what:
            text = f"Step {self.name!r} could not be stopped and may still be going on: {what}."
        return AttentionRaised(item=self.step, kind="not_stoppable", text=text)

    def _too_late_to_be_undone(self, run: Run) -> list[Event]:
        """Its run has ended: what it has done all the same is for a person to have undone."""
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
                await self._record(await self._as_it_may_be(self._outcome(inner)))
                await self._record(self._too_late_to_be_undone)
        except Exception:
            pass  # the run is another's by now, or the journal closed: nobody is left to be told


_FLIGHT: Final[ContextVar[Flight | None]] = ContextVar("pullcord-flight", default=None)


def current_flight() -> Flight | None:
    """The step in whose function this is called, if any."""
    return _FLIGHT.get()


def together(*events: Event) -> Wanted:
    """Events of which no crash may leave one without the other."""
    return lambda _: events


def described(error: BaseException) -> str:
    """An error as text that can be stored, whatever is in it."""
    if isinstance(error, ToolFailed):
        return error.error[:_ERROR_CHARS]
    try:
        said = str(error).strip().encode(errors="backslashreplace").decode().replace("\0", "\\0")
    except BaseException:  # even that may fail, and must not take the run with it
        said = "it cannot say what it is"
    if isinstance(error, Happened):
        return said[:_ERROR_CHARS]
    name = type(error).__name__
    return f"{name}: {said[:_ERROR_CHARS]}" if said else name
