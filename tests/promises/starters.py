"""Steps that start work of their own, in every way that Python has, and a witness that sees it.

Each of them adds a line to the witness's file every few milliseconds, for as long as it acts.
"""

import asyncio
import functools
import gc
import multiprocessing
import multiprocessing.pool
import os
import shlex
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

TICK_S: Final = 0.005
TICKS: Final = (
    "import sys, time\n"
    "while True:\n"
    "    open(sys.argv[1], 'a').write('tick\\n'); time.sleep(0.005)\n"
)
TICKS_STUBBORN: Final = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + TICKS
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
        self.others: list[multiprocessing.pool.Pool] = []
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
        for other in self.others:
            other.close()
            other.join()
        if self.child:
            self.child.kill()
            self.child.wait()

    # --- ways of starting something ---

    def _command(self, *programs: str) -> list[str]:
        first, *rest = programs
        return [sys.executable, "-c", first, self.file, *rest]

    async def subprocess_of_asyncio(self) -> None:
        child = await asyncio.create_subprocess_exec(*self._command(TICKS))
        await child.wait()

    async def start_child(self) -> None:
        self.child = subprocess.Popen(self._command(TICKS))  # noqa: ASYNC220 (on purpose)

    def wait_for_stop(self) -> None:
        while not Path(self.stop).exists():
            time.sleep(TICK_S)

    async def popen(self) -> None:
        await self.start_child()
        await forever()

    async def stubborn_child(self) -> None:
        self.child = subprocess.Popen(self._command(TICKS_STUBBORN))  # noqa: ASYNC220
        await forever()

    async def grandchild(self) -> None:
        self.child = subprocess.Popen(self._command(_PARENT, TICKS))  # noqa: ASYNC220
        await forever()

    async def session_of_its_own(self) -> None:
        command = self._command(_PARENT, TICKS_STUBBORN)
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
        def loops() -> None:
            asyncio.run(self._ticks_until_cancelled())

        threading.Thread(target=loops).start()
        await forever()

    async def loop_in_a_thread_as_target(self) -> None:
        threading.Thread(target=asyncio.run, args=(self._ticks_until_cancelled(),)).start()
        await forever()

    async def _ticks_until_cancelled(self) -> None:
        with suppress(asyncio.CancelledError):  # so that no thread complains
            await ticks_in_loop(self.file)

    async def task_by_a_thread(self) -> None:
        loop = asyncio.get_running_loop()

        def hand_over() -> None:
            asyncio.run_coroutine_threadsafe(ticks_in_loop(self.file), loop)

        threading.Thread(target=hand_over).start()
        await forever()

    async def in_the_background_of_a_shell(self) -> None:
        command = f"({shlex.join(self._command(TICKS))}) & :"
        shell = await asyncio.create_subprocess_shell(command)
        await shell.wait()
        await forever()

    async def by_os_system(self) -> None:
        module: Any = os  # (it is deprecated, softly, and in use)
        await asyncio.to_thread(module.system, f"({shlex.join(self._command(TICKS))}) &")
        await forever()

    async def forked_twice(self) -> None:
        if (between := os.fork()) == 0:
            os.setsid()
            if os.fork() == 0:
                ticks(self.file, self.stop)
            os._exit(0)
        os.waitpid(between, 0)  # noqa: ASYNC222 (it ends at once)
        await forever()

    async def popen_that_nobody_keeps(self) -> None:
        cycle: dict[str, Any] = {}
        cycle["self"] = cycle
        cycle["child"] = subprocess.Popen(self._command(TICKS))  # noqa: ASYNC220
        del cycle
        with warnings.catch_warnings(action="ignore"):
            gc.collect()
        await forever()

    async def forked_by_a_server(self) -> None:
        made = multiprocessing.get_context("forkserver").Process
        made(target=ticks, args=(self.file, self.stop), daemon=True).start()
        await forever()

    async def pool_of_multiprocessing(self) -> None:
        self.others.append(pool := multiprocessing.get_context("fork").Pool(1))
        pool.apply_async(ticks, (self.file, self.stop))
        await forever()

    async def pool_of_threads_of_multiprocessing(self) -> None:
        self.others.append(pool := multiprocessing.pool.ThreadPool(1))
        pool.map_async(functools.partial(ticks, self.file), [self.stop])
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
    Witness.loop_in_a_thread,
    Witness.loop_in_a_thread_as_target,
    Witness.task_by_a_thread,
    Witness.in_the_background_of_a_shell,
    Witness.by_os_system,
    Witness.forked_twice,
    Witness.popen_that_nobody_keeps,
    Witness.forked_by_a_server,
)
NAMED: Final[tuple[tuple[Way, str], ...]] = (
    (Witness.to_thread, "work in a thread of a pool (ticks)"),
    (Witness.executor, "work in a thread of a pool (ticks)"),
    (Witness.pool_of_threads, "work in a thread of a pool (ticks)"),
    (Witness.pool_of_processes, "work in a process of a pool (ticks)"),
    (Witness.pool_of_spawned, "work in a process of a pool (ticks)"),
    (Witness.thread, "thread ticker"),
    (Witness.thread_of_a_thread, "thread ticker"),
    (Witness.pool_of_multiprocessing, "work in a pool of multiprocessing"),
    (Witness.pool_of_threads_of_multiprocessing, "work in a pool of multiprocessing"),
)
