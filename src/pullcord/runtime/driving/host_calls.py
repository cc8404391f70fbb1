"""Calls the host's code outside of any step: an undo, a release, a check of a call.

Work that such a call starts belongs to it, as a step's work belongs to the step. When the call
fails, takes too long or is cut, that work is stopped too. Work that goes on is named, and the kill
switch is told of it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, NamedTuple, Protocol, TypeVar

from pullcord.core.run import Run
from pullcord.runtime.alarms import LoopAlarms
from pullcord.runtime.policy import file_of
from pullcord.runtime.processes.started_work import HURRY_S, IGNORES, STARTER, StartedWork
from pullcord.runtime.services import Services

T = TypeVar("T")


class Caller(Protocol):
    """The run that makes the call: a `LiveRun`."""

    services: Services
    aparts: "set[HostCalls]"

    @property
    def run(self) -> Run: ...
    def mind(self, what: str, goes_on: Callable[[], bool] | StartedWork, /) -> None: ...


class CallEnd(NamedTuple):
    """The end of a call: its value, or the error that ended it."""

    value: Any = None
    error: BaseException | None = None


class HostCalls:
    """One call. `what`: its name for people. `item`: the id of its step or release."""

    def __init__(self, caller: Caller, item: str, what: str, function: Any) -> None:
        self._caller, self._what = caller, what
        store, home = caller.services.journal.path, file_of(function)
        self.started = StartedWork(caller.run.id, item, home, what=what, store=store)
        self.started.mark = caller.services.processes.mark_for_steps
        self._is_watched = caller.services.timing.watch_starts
        self._cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.left: tuple[str, ...] = ()  # work that goes on although the call was ended

    def cut(self) -> None:
        """End the call, and all that it has started, at once."""
        if not self._cut.done():
            self._cut.set_result(None)

    def kill(self) -> None:
        """Kill the processes that it has started. Any thread may call this."""
        self.started.kill()

    async def call(self, work: Coroutine[Any, Any, Any], *, within_s: float) -> CallEnd:
        """Make the call, and return when it has ended, or when it cannot be ended (see `left`).

        If the caller is cancelled meanwhile, the call is cut.
        """
        task = asyncio.create_task(self._inside(work))
        self._caller.mind(self._what, lambda: not task.done())
        self._caller.mind(self._what, self.started)
        self._caller.aparts.add(self)
        try:
            await self._first_of(task, within_s)
            is_late = not task.done() and not self._cut.done()
        except asyncio.CancelledError:
            self.cut()
            await asyncio.shield(asyncio.ensure_future(self._end(task)))
            raise
        if not task.done() or task.cancelled() or task.exception():
            await asyncio.shield(asyncio.ensure_future(self._end(task)))
        else:
            self._caller.aparts.discard(self)
        if is_late:
            return CallEnd(error=TimeoutError(f"it took longer than {within_s:g} s"))
        if not task.done() or task.cancelled():
            return CallEnd(error=asyncio.CancelledError())
        return CallEnd(error=error) if (error := task.exception()) else CallEnd(task.result())

    def ask(self, function: Callable[[], T]) -> T:
        """Call a function that needs no awaiting, and return its value."""
        self._caller.mind(self._what, self.started)
        return copy_context().run(self._asked, function)

    @property
    def said(self) -> str:
        """The rest of a sentence about a failure, which names the work that is left."""
        return f", and may still be going on: {', '.join(self.left)}" if self.left else ""

    def _asked(self, function: Callable[[], T]) -> T:
        self._own()
        return function()

    async def _inside(self, work: Coroutine[Any, Any, Any]) -> Any:
        self._own()
        return await work

    def _own(self) -> None:
        STARTER.set(self.started if self._is_watched else None)

    async def _first_of(self, task: "asyncio.Task[Any]", within_s: float) -> None:
        await asyncio.wait({task, self._cut}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)

    async def _end(self, task: "asyncio.Task[Any]") -> None:
        try:
            grace_s = self._caller.services.timing.stop_grace_s
            if not task.done():
                task.cancel()
                await self._first_of(task, grace_s)
            if not task.done():
                await asyncio.wait({task}, timeout=HURRY_S)
            _, left = await self.started.stop(LoopAlarms(), grace_s, self._cut.done)
            self.left = left if task.done() else (IGNORES, *left)
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
        finally:
            self._caller.aparts.discard(self)
