"""Engines bring runs to the processes that drive them. Only the journal decides who owns a run.

A delivery confers no ownership: an engine may bring a run twice, or late, or to a process that
cannot claim it. An engine that cancels a delivery does not cancel the run. Controls, timers and
answers do not pass through an engine.
"""

from typing import Protocol


class Worker(Protocol):
    """A process that drives runs, as an engine sees it."""

    async def drive(self, run_id: str) -> bool:
        """Drive a run until it ends or leaves this process's memory; return whether this call did.

        False: this process cannot claim the run. The run may have an owner (perhaps this process)
        or need none, or this process may not know its agent. A run that rests leaves the memory
        after `Timing.park_after_s`. If the engine cancels this call, the process gives the run
        back.

        Raises:
            RunNotFound: there is no such run.
        """
        ...

    async def take_up(self, run_id: str) -> bool:
        """Claim a run, begin to drive it, and return whether this call claimed it.

        Raises:
            RunNotFound: there is no such run.
        """
        ...


class Engine(Protocol):
    """Brings runs to workers. One engine object serves one runtime.

    Each runtime finds the runs that need a process: it listens to the store, and looks there from
    time to time. It asks the engine to wake them. So an engine may lose a delivery: the runtime
    asks again.
    """

    async def open(self, worker: Worker | None) -> None:
        """Begin to bring runs to this process. `worker` is None if it only starts runs."""
        ...

    async def wake(self, run_id: str) -> None:
        """Have some process drive this run, which needs one and has none.

        A person has started, resumed or answered it, or its timer has rung, or its process died.
        Housekeeping logs an error of this call, and asks again at its next look.
        """
        ...

    async def aclose(self) -> None:
        """Bring no more runs to this process. It drives those that it has until it leaves."""
        ...


class InProcess:
    """The default engine: this process drives the runs that it finds."""

    async def open(self, worker: Worker | None) -> None:
        self._worker = worker

    async def wake(self, run_id: str) -> None:
        if self._worker is not None:
            await self._worker.take_up(run_id)

    async def aclose(self) -> None:
        self._worker = None
