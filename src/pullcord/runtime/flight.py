"""One attempt of a step, from its durable intent to its durable outcome.

What is cut is only the user's function, in a task of its own. The task around it, which records
the outcome, is never cancelled: an outcome that arrives in the same instant as a cancel is kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final

from pullcord.core.events import (
    AttentionRaised,
    Effect,
    Event,
    Rung,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
)
from pullcord.core.judging import in_doubt
from pullcord.core.values import dump
from pullcord.errors import Fenced, InvalidInput, JournalClosed
from pullcord.runtime.alarms import Alarm, Alarms
from pullcord.runtime.ownership import Wanted

Record = Callable[[Wanted], Awaitable[list[Event]]]
Call = Callable[[], Awaitable[Any]]
HURRY_S: Final = 0.05
_ERROR_CHARS: Final = 4000


class Flight:
    """A step under way. `landed` is its outcome as recorded; None: nobody could record it."""

    def __init__(
        self,
        step: str,
        name: str,
        attempt: int,
        effect: Effect,
        *,
        record: Record,
        later: Callable[[Coroutine[Any, Any, None]], object],
        alarms: Alarms,
        timeout_s: float | None,
    ) -> None:
        self.step, self.name, self.attempt, self.effect = step, name, attempt, effect
        self.rung: Rung = ""
        self.is_held = False  # it stands at a checkpoint of its own, doing nothing
        self.value: Any = None
        self.error: BaseException | None = None
        self._record = record
        self._later = later
        self._timeout_s = timeout_s
        self._timer: asyncio.Timeout | None = None
        self._doubtful = False
        self._abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inner: asyncio.Task[Any] | None = None
        self._ladder = Alarm(alarms, self._climb)
        self._grace_s = 0.0
        self._cancels = 0
        self.landed: asyncio.Task[list[Event] | None] | None = None

    def take_off(self, call: Call) -> "asyncio.Task[list[Event] | None]":
        self.landed = asyncio.create_task(self._fly(call))
        return self.landed

    # --- stopping it ---

    def stop(self, grace_s: float, *, doubtful: bool = False) -> None:
        """Begin to climb the ladder: cancel its task, then again, then let go of it and say so.

        `doubtful`: it is being cut by something that is nobody's decision about the run (a
        shutdown), so that an effect it may have had is for a person to judge.
        """
        if self.rung:
            return
        self._doubtful = doubtful and self.effect == "once"
        self._grace_s = grace_s
        self._climb()

    def hurry(self) -> None:
        """The second press: the next rungs come at once."""
        if self._cancels == 1:
            self._ladder.off()
            self._climb()

    def _climb(self) -> None:
        if self._cancels < 2:
            self._cancels += 1
            self.rung = "task_cancel"
            if self._inner:
                self._inner.cancel()
            self._ladder.set(self._grace_s if self._cancels == 1 else HURRY_S)
        elif not self._abandoned.done():
            self.rung = "abandoned"
            self._abandoned.set_result(None)

    # --- its checkpoints ---

    def hold(self) -> None:
        """It stands still at a checkpoint: its time stops."""
        self.is_held = True
        if self._timer and (when := self._timer.when()) is not None:
            self._timeout_s = max(when - asyncio.get_running_loop().time(), 0.0)
            self._timer.reschedule(None)

    def go_on(self) -> None:
        self.is_held = False
        if self._timer and self._timeout_s is not None:
            self._timer.reschedule(asyncio.get_running_loop().time() + self._timeout_s)

    # --- in the air ---

    async def _fly(self, call: Call) -> list[Event] | None:
        inner = self._inner = asyncio.create_task(self._carry_out(call))
        if self.rung:
            inner.cancel()  # cut before it began: a task that is cancelled first never runs
        try:
            await asyncio.wait({inner, self._abandoned}, return_when=asyncio.FIRST_COMPLETED)
            self._ladder.off()
            if not inner.done():
                return await self._let_go(inner)
            return await self._decide(self._outcome(inner))
        except (Fenced, JournalClosed):
            return None  # another process owns the run; it judges this attempt

    async def _carry_out(self, call: Call) -> Any:
        _FLIGHT.set(self)
        timeout_s = self._timeout_s
        try:
            async with asyncio.timeout(timeout_s) as self._timer:
                return await call()
        except TimeoutError as error:
            if self._timer and self._timer.expired():
                may = "" if self.effect == "none" else "; it may have had an effect"
                raise TimeoutError(f"it took longer than {timeout_s:g} s{may}") from error
            raise

    def _outcome(self, inner: asyncio.Task[Any]) -> Event:
        if inner.cancelled():
            if self.rung:
                return self._cut("its process was shut down while it was under way")
            self.error = asyncio.CancelledError("a cancellation that nobody asked for came out")
            return self._failed(self.error)
        self.error = inner.exception()
        if self.error is not None and self.rung:  # its way of saying that it was cancelled
            return self._cut(described(self.error))
        if self.error is None:
            try:
                self.value = inner.result()
                result = dump(self.value)
                return StepFinished(step=self.step, attempt=self.attempt, result=result)
            except InvalidInput as refused:  # it happened, but nobody could ever read what came out
                self.error = refused
        return self._failed(self.error)

    async def _decide(self, outcome: Event) -> list[Event]:
        """Record what became of it; a doubt together with what makes people look at it."""
        if not isinstance(outcome, StepInDoubt):
            return await self._record(outcome)
        await self._record(together(outcome, in_doubt(self.step, self.name)))
        return [outcome]

    def _failed(self, error: BaseException) -> Event:
        return StepFailed(step=self.step, attempt=self.attempt, error=described(error))

    def _cut(self, why: str) -> Event:
        if self._doubtful:
            return StepInDoubt(step=self.step, attempt=self.attempt, why=why)
        return StepInterrupted(step=self.step, attempt=self.attempt, rung=self.rung)

    async def _let_go(self, inner: asyncio.Task[Any]) -> list[Event] | None:
        """It ignores every cancel. Say so, and keep what still comes out of it as evidence."""
        text = f"Step {self.name!r} ignores being cancelled and may still be going on."
        left = AttentionRaised(item=self.step, kind="not_stoppable", text=text)
        recorded = await self._record(together(self._cut("its process left it behind"), left))
        inner.add_done_callback(lambda _: self._later(self._late(inner)))
        return recorded

    async def _late(self, inner: asyncio.Task[Any]) -> None:
        try:
            if not inner.cancelled():
                await self._record(self._outcome(inner))
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
    try:
        said = str(error).strip().encode(errors="backslashreplace").decode().replace("\0", "\\0")
    except Exception:  # even that may fail, and must not take the run with it
        said = "it cannot say what it is"
    name = type(error).__name__
    return f"{name}: {said[:_ERROR_CHARS]}" if said else name
