"""An engine in the shape of those for many machines: a queue that delivers at least once.

It is as bad as one may be: it brings each run twice, brings finished ones again, loses every third
wake and cancels deliveries in the middle.
"""

import asyncio

from pullcord.engines import Worker


class Queue:
    """What the processes of a deployment share."""

    def __init__(self, *, loses: int = 0, cancels: int = 0) -> None:
        self.runs: asyncio.Queue[str] = asyncio.Queue()
        self.loses, self.cancels = loses, cancels
        self.wakes = self.deliveries = self.cancelled = 0


class QueueEngine:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._takers: list[asyncio.Task[None]] = []

    async def open(self, worker: Worker | None) -> None:
        if worker is not None:
            self._takers = [asyncio.create_task(self._take(worker)) for _ in range(8)]

    async def wake(self, run_id: str) -> None:
        self._queue.wakes += 1
        if not self._queue.loses or self._queue.wakes % self._queue.loses:
            await self._queue.runs.put(run_id)
            await self._queue.runs.put(run_id)

    async def _take(self, worker: Worker) -> None:
        while True:
            run_id = await self._queue.runs.get()
            self._queue.deliveries += 1
            delivery = asyncio.create_task(worker.drive(run_id))
            try:
                if self._queue.cancels and self._queue.deliveries % self._queue.cancels == 0:
                    await asyncio.sleep(0)
                    self._queue.cancelled += delivery.cancel()
                await asyncio.wait({delivery})
            finally:
                delivery.cancel()

    async def aclose(self) -> None:
        for taker in self._takers:
            taker.cancel()
        await asyncio.gather(*self._takers, return_exceptions=True)
