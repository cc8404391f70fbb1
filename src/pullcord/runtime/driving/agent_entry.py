"""An agent's coroutine in memory: entered, ended by itself, unwound, or left behind."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pullcord.core.events import Completed, Failed, Rung
from pullcord.core.text.screening import Guards, Hit
from pullcord.core.values import dump
from pullcord.errors import InvalidInput, OutOfLimits
from pullcord.runtime.alarms import Alarm, Alarms
from pullcord.runtime.driving.gate import Gate
from pullcord.runtime.driving.moves import Agent
from pullcord.runtime.steps.failures import ToolFailed, described
from pullcord.warden.frames import told

_log: Final = logging.getLogger("pullcord.runtime")


class AgentEntry:
    """The agent of one run while it is in memory. It calls `news` when the agent may have moved."""

    def __init__(
        self,
        run_id: str,
        gate: Gate,
        alarms: Alarms,
        grace_s: float,
        news: Callable[[], None],
        guards: Guards,
        let_go: Callable[[Callable[[], bool]], None],
    ) -> None:
        self._run_id, self._gate, self._grace_s, self._news = run_id, gate, grace_s, news
        self._task: asyncio.Task[Any] | None = None
        self._ladder = Alarm(alarms, self._climb)
        self._cancels = 0
        self._has_time = False
        self.is_done = False  # it returned or raised by itself
        self._is_out = True  # it was not entered, or has ended in any way
        self.rung: Rung = ""
        self._guards = guards
        self._let_go = let_go  # told of a coroutine that may go on unowned, and how to see that
        self._end: Completed | Failed | None = None
        self.hit: Hit | None = None  # what a guard found in its result or error

    def begin(self, agent: Coroutine[Any, Any, Any], *, only_to_unwind: bool) -> None:
        """Enter the agent. `only_to_unwind`: it gets as far as before, to a closed gate."""
        self._has_time, self._is_out = only_to_unwind, False
        self._task = asyncio.create_task(agent)
        self._task.add_done_callback(self._ended)

    def is_by(self, task: "asyncio.Task[Any]") -> bool:
        return task is self._task

    @property
    def is_in_memory(self) -> bool:
        return self._task is not None and not self._task.done()

    def end(self) -> Completed | Failed:
        """Return the agent's end as an event of the run, if it ended by itself."""
        self._end = self._end or self._how_it_ended()
        return self._end

    def _how_it_ended(self) -> Completed | Failed:
        assert self._task is not None
        if self._task.cancelled():  # not ours, and a person's cancel looks different
            said = "a cancellation that nobody asked for came out of the agent"
            return Failed(error=f"CancelledError: {said}")
        if isinstance(error := self._task.exception(), OutOfLimits):
            return Failed(error="")  # it was told of the limit, and returned nothing
        if error:
            where = told(error)
            if self._is_caught(self._guards.hit_in(f"{where}\n{described(error)}")):
                return self._withheld("why it failed")
            _log.warning("Run %s fails.\n%s", self._run_id, where)
            return Failed(error=_with_place(error))
        try:
            result = dump(self._task.result())
        except InvalidInput as refused:
            return Failed(error=described(refused))
        if self._is_caught(self._guards.hit_in_json(result)):
            return self._withheld("its result")
        return Completed(result=result)

    def _is_caught(self, hit: Hit | None) -> bool:
        self.hit = hit
        return hit is not None

    def _withheld(self, what: str) -> Failed:
        assert self.hit is not None
        return Failed(error=f"guard {self.hit.guard} withholds {what}")

    @property
    def where(self) -> Agent:
        """Where the coroutine is. One that was left behind counts as out of memory."""
        if self.is_done:
            return "raised" if isinstance(self.end(), Failed) else "returned"
        if self._is_out or self._cancels > 2:
            return "out"
        return "unwinding" if self._gate.is_closed else "inside"

    def unwind(self, *, is_told: bool) -> None:
        """Make the agent leave memory.

        Its doors raise `Interrupted`, and it may clean up. If it stands elsewhere or takes too
        long, it is cancelled. In the end it is left behind.
        """
        if not self.is_in_memory or self._cancels > 2:
            self._ladder.off()
        elif is_told or self._has_time:
            self._ladder.set(self._grace_s)
        elif self._cancels == 0:
            self._climb()

    def has_not_ended(self) -> None:
        """Take an end that it had for none: calls that it left under way are cut."""
        self.is_done = False

    def hurry(self) -> None:
        """Climb the next rung at once: the second press."""
        if self._cancels == 1 or (self._cancels == 0 and self._ladder.is_set):
            self._ladder.off()
            self._climb()

    def drop(self) -> None:
        """Cancel the agent, and take no more interest in it."""
        self._ladder.off()
        if self._task and not self._task.done():
            self._task.cancel()
            self._let_go(lambda: self.is_in_memory)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._ladder.off()
        self._is_out = True
        if not task.cancelled():
            task.exception()  # read here; the run's state decides what it means
        self.is_done = not self._gate.is_closed  # else unwound: its end means nothing
        self._news()

    def _climb(self) -> None:
        if self._task and not self._task.done():
            self._cancels += 1
            if self._cancels <= 2:
                self.rung = "task_cancel"
                self._task.cancel()
                self._ladder.set(self._grace_s)
            else:
                self.rung = "abandoned"
                _log.warning("The agent of %s ignores being cancelled; left behind.", self._run_id)
                self._let_go(lambda: self.is_in_memory)
        self._news()


def _with_place(error: BaseException) -> str:
    """Return the agent's error as text. A process tool's own error includes its line."""
    said = described(error)
    return f"{said} ({error.at})" if isinstance(error, ToolFailed) and error.at else said
