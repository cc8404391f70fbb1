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
    """The agent of one run, as long as it is in memory. `news` is called when it may have moved."""

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
        self._is_out = True  # it was not entered, or has ended in whatever way
        self.rung: Rung = ""
        self._guards = guards
        self._let_go = let_go  # told when it may be going on without anybody, and how to see it
        self._end: Completed | Failed | None = None
        self.hit: Hit | None = None  # what a guard has found in how it ended

    def begin(self, agent: Coroutine[Any, Any, Any], *, only_to_unwind: bool) -> None:
        """Enter it. `only_to_unwind`: it gets as far as it was, and finds the gate closed there."""
        self._has_time, self._is_out = only_to_unwind, False
        self._task = asyncio.create_task(agent)
        self._task.add_done_callback(self._ended)

    def is_by(self, task: "asyncio.Task[Any]") -> bool:
        return task is self._task

    @property
    def is_in_memory(self) -> bool:
        return self._task is not None and not self._task.done()

    def end(self) -> Completed | Failed:
        """What its end means for the run, if it ended by itself."""
        self._end = self._end or self._how_it_ended()
        return self._end

    def _how_it_ended(self) -> Completed | Failed:
        assert self._task is not None
        if self._task.cancelled():  # by whom? Not by us, and no person's cancel looks like this
            said = "a cancellation that nobody asked for came out of the agent"
            return Failed(error=f"CancelledError: {said}")
        if isinstance(error := self._task.exception(), OutOfLimits):
            return Failed(error="")  # it was told, and had nothing to give
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
        """Where it is. What is left behind is out of memory, as far as the run goes."""
        if self.is_done:
            return "raised" if isinstance(self.end(), Failed) else "returned"
        if self._is_out or self._cancels > 2:
            return "out"
        return "unwinding" if self._gate.is_closed else "inside"

    def unwind(self, *, is_told: bool) -> None:
        """Have it leave the memory. Its doors tell it by themselves, and it may clean up; if it
        stands elsewhere, or takes too long, it is cancelled; in the end it is left behind."""
        if not self.is_in_memory or self._cancels > 2:
            self._ladder.off()
        elif is_told or self._has_time:
            self._ladder.set(self._grace_s)
        elif self._cancels == 0:
            self._climb()

    def hurry(self) -> None:
        """The second press: the next rung comes at once."""
        if self._cancels == 1:
            self._ladder.off()
            self._climb()

    def drop(self) -> None:
        """Let go of it; what becomes of it is nobody's business any more."""
        self._ladder.off()
        if self._task and not self._task.done():
            self._task.cancel()
            self._let_go(lambda: self.is_in_memory)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._ladder.off()
        self._is_out = True
        if not task.cancelled():
            task.exception()  # seen; what it means is decided by the state of the run
        self.is_done = not self._gate.is_closed  # else it was unwound, and its end means nothing
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
    """What the agent raised. Of a process tool's own error also where: `StepError` says that."""
    said = described(error)
    return f"{said} ({error.at})" if isinstance(error, ToolFailed) and error.at else said
