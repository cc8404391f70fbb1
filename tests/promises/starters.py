"""Steps that start work of their own, in every way that Python has, and a witness that sees it.

Each of them adds a line to the witness's file every few milliseconds, for as long as it acts.
"""

import asyncio
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

TICK_S: Final = 0.005
_TICKS: Final = (
    "import sys, time\n"
    "while True:\n"
    "    open(sys.argv[1], 'a').write('tick\\n'); time.sleep(0.005)\n"
)
_STUBBORN: Final = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _TICKS
_PARENT: Final = (
    "import subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]])\n"
    "time.sleep(3600)\n"
)


def ticks(file: str, stop: str) -> None:
    """Act until somebody makes the file `stop`."""
    while not Path(stop).exists():
        with open(file, "a") as witness:
            witness.write("tick\n")
        time.sleep(TICK_S)


async def ticks_in_loop(file: str) -> None:
    while True:
        with open(file, "a") as witness:  # noqa: ASYNC230 (a few bytes)
            witness.write("tick\n")
        await asyncio.sleep(TICK_S)


class Witness:
    """What was done, seen in a file. `stop` ends what cannot be stopped otherwise."""

    def __init__(self, folder: Path) -> None:
        self.file, self.stop = str(folder / "witness"), str(folder / "stop")
        Path(self.file).touch()
        self.pools: list[Executor] = []
        self.child: subprocess.Popen[bytes] | None = None

    def seen(self) -> int:
        return Path(self.file).stat().st_size

    async def acts(self) -> None:
        """Wait until something was done since now."""
        before = self.seen()
        while self.seen() == before:  # noqa: ASYNC110 (a file does not call)
            await asyncio.sleep(TICK_S)

    async def is_quiet(self) -> bool:
        """Whether nothing is done in the time that a living ticker needs for ten ticks."""
        before = self.seen()
        for _ in range(10):
            await asyncio.sleep(TICK_S)
        return self.seen() == before

    def end(self) -> None:
        Path(self.stop).touch()
        for pool in self.pools:
            pool.shutdown(wait=True)
        if self.child:
            self.child.kill()
            self.child.wait()

    # --- ways of starting something ---

    def _command(self, *programs: str) -> list[str]:
        first, *rest = programs
        return [sys.executable, "-c", first, self.file, *rest]

    async def subprocess_of_asyncio(self) -> None:
        child = await asyncio.create_subprocess_exec(*self._command(_TICKS))
        await child.wait()

    async def start_child(self) -> None:
        self.child = subprocess.Popen(self._command(_TICKS))  # noqa: ASYNC220 (on purpose)

    def wait_for_stop(self) -> None:
        while not Path(self.stop).exists():
            time.sleep(TICK_S)

    async def popen(self) -> None:
        await self.start_child()
        await forever()

    async def stubborn_child(self) -> None:
        self.child = subprocess.Popen(self._command(_STUBBORN))  # noqa: ASYNC220
        await forever()

    async def grandchild(self) -> None:
        self.child = subprocess.Popen(self._command(_PARENT, _TICKS))  # noqa: ASYNC220
        await forever()

    async def session_of_its_own(self) -> None:
        command = self._command(_PARENT, _STUBBORN)
        await asyncio.create_subprocess_exec(*command, start_new_session=True)
        await forever()

    async def forked(self) -> None:
        made = multiprocessing.get_context("fork").Process
        made(target=ticks, args=(self.file, self.stop), daemon=True).start()
        await forever()

    async def task(self) -> None:
        running = asyncio.create_task(ticks_in_loop(self.file))
        await forever()
        await running

    async def task_of_a_task(self) -> None:
        async def between() -> None:
            asyncio.create_task(ticks_in_loop(self.file))  # noqa: RUF006

        await asyncio.create_task(between())
        await forever()

    async def shield(self) -> None:
        await asyncio.shield(ticks_in_loop(self.file))

    async def task_that_is_slow_to_stop(self) -> None:
        async def slow() -> None:
            try:
                await ticks_in_loop(self.file)
            except asyncio.CancelledError:
                await asyncio.sleep(3 * TICK_S)
                raise

        asyncio.create_task(slow())  # noqa: RUF006
        await forever()

    async def to_thread(self) -> None:
        await asyncio.to_thread(ticks, self.file, self.stop)

    async def executor(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, ticks, self.file, self.stop)

    async def pool_of_threads(self) -> None:
        self.pools.append(pool := ThreadPoolExecutor(1))
        pool.submit(ticks, self.file, self.stop)
        await forever()

    async def pool_of_processes(self) -> None:
        self.pools.append(pool := ProcessPoolExecutor(1, multiprocessing.get_context("fork")))
        await asyncio.get_running_loop().run_in_executor(pool, ticks, self.file, self.stop)

    async def pool_of_spawned(self) -> None:
        self.pools.append(pool := ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))
        await asyncio.get_running_loop().run_in_executor(pool, ticks, self.file, self.stop)

    async def thread(self) -> None:
        threading.Thread(target=ticks, args=(self.file, self.stop), name="ticker").start()
        await forever()

    async def thread_of_a_thread(self) -> None:
        def between() -> None:
            threading.Thread(target=ticks, args=(self.file, self.stop), name="ticker").start()

        await asyncio.to_thread(threading.Thread(target=between).start)
        await forever()

    async def loop_in_a_thread(self) -> None:
        async def until_told() -> None:
            while not Path(self.stop).exists():
                with open(self.file, "a") as witness:  # noqa: ASYNC230
                    witness.write("tick\n")
                await asyncio.sleep(TICK_S)

        threading.Thread(target=lambda: asyncio.run(until_told()), name="looper").start()
        await forever()


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


Way = Callable[[Witness], Coroutine[Any, Any, None]]
STOPPED: Final[tuple[Way, ...]] = (
    Witness.subprocess_of_asyncio,
    Witness.popen,
    Witness.stubborn_child,
    Witness.grandchild,
    Witness.session_of_its_own,
    Witness.forked,
    Witness.task,
    Witness.task_of_a_task,
    Witness.task_that_is_slow_to_stop,
    Witness.shield,
)
NAMED: Final[tuple[tuple[Way, str], ...]] = (
    (Witness.to_thread, "work in a thread of a pool (ticks)"),
    (Witness.executor, "work in a thread of a pool (ticks)"),
    (Witness.pool_of_threads, "work in a thread of a pool (ticks)"),
    (Witness.pool_of_processes, "work in a process of a pool (ticks)"),
    (Witness.pool_of_spawned, "work in a process of a pool (ticks)"),
    (Witness.thread, "thread ticker"),
    (Witness.thread_of_a_thread, "thread ticker"),
    (Witness.loop_in_a_thread, "thread looper"),
)
