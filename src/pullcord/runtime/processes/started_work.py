"""The work that a step has started: tasks, child processes, threads, work in pools.

All of it belongs to the step. Tasks and pooled work carry the step's context; `start_hooks` reports
the rest. When the step is cut, its own work is stopped: tasks are cancelled, child processes are
terminated and then killed. Threads cannot be stopped; they have the step's grace to end. A
library's own work may serve other steps too, so it is left alone. All work that is left is named.
"""

import asyncio
import contextvars
import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, ContextVar
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pullcord.killswitch.mark import entry_of_step
from pullcord.runtime.alarms import Alarm, Alarms
from pullcord.runtime.processes.child_processes import ChildProcesses

HURRY_S: Final = 0.05
_LOOK_S: Final = 0.005  # the interval between checks: a thread does not report its end
_LOOK_AT: Final = 64  # after this many new starters, look which have ended
_KILL_S: Final = 2.0  # how long the kernel may take to remove killed processes
_OURS: Final = str(Path(__file__).parent.parent.parent) + "/"
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")

IGNORES: Final = "its function, which ignores being cancelled"

Reached: TypeAlias = Literal["", "terminated", "killed", "abandoned"]
AnyTask: TypeAlias = "asyncio.Task[Any]"


class StartedWork:
    """The work that one call of the host's code has started: a step's attempt, an undo, …

    Any thread may add to it and ask it.
    """

    def __init__(
        self, run_id: str, step: str, home: str = "", *, what: str = "", store: str = ""
    ) -> None:
        """`home`: the file of the function itself. `what`: the name of a call that is no step."""
        self.run_id, self.step, self.what = run_id, step, what
        self.store = store  # the store of its run: two stores may have runs with one id
        self._home = home
        self._adding = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self.mark = ""  # of the runtime; started work carries it, with the run and the step
        self._pids: list[int] = []
        self._children: ChildProcesses | None = None
        self._threads: list[threading.Thread] = []
        self._works: dict[Future[Any], str] = {}
        self._tasks: set[AnyTask] = set()  # the step's tasks, as found by the last look
        _KNOWN.add(self)

    # --- reports from the thread that starts the work ---

    def entry(self, *, is_own: bool = True) -> str:
        """Return the mark for a process that starts now. Not `is_own`: a pool starts it."""
        return entry_of_step(self.mark, self.run_id, self.step if is_own else "")

    def started_process(self, pid: int, *, is_ours: bool = True) -> None:
        """Hold the process at once, while its number is known.

        0: it has ended, but its children may go on.
        """
        with self._adding:
            if self._children is None:
                self._children = ChildProcesses(self.entry())
            if pid:
                self._children.add(pid, is_ours=is_ours)
        _TOLD.add(self)

    def forked(self, pids: Iterable[int]) -> None:
        with self._adding:
            self._pids += pids
        _TOLD.add(self)

    def started_thread(self, thread: threading.Thread) -> None:
        # A thread that has not begun to run is not alive, and has no number.
        self._threads = [t for t in self._threads if t.ident is None or t.is_alive()]
        self._threads.append(thread)
        _TOLD.add(self)

    def handed_over(self, work: "Future[Any]", name: str) -> None:
        """Add work that a pool has accepted."""
        self._works[work] = name
        _TOLD.add(self)
        work.add_done_callback(lambda done: self._works.pop(done, None))

    # --- when the step is cut ---

    async def stop(
        self, alarms: Alarms, grace_s: float, is_hurried: Callable[[], bool]
    ) -> tuple[Reached, tuple[str, ...]]:
        """Stop the work. Return how far that had to go, and the names of work that is left."""
        self._take_stock()
        if self._children:
            self._children.look()
        if not self.left():
            return "", ()
        reached: Reached = ""
        for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, HURRY_S)):
            if self._cut(number):
                reached = "killed" if number is signal.SIGKILL else "terminated"
            until = Alarm(alarms, _nothing)
            until.set(patience_s)
            await self._ends_or(lambda until=until: not until.is_set or is_hurried())
            until.off()
        if self._children:
            bound = self._loop.time() + _KILL_S
            await self._ends_or(lambda: self._loop.time() > bound or not self._living())
            if reached == "killed" and self._children.send(signal.SIGKILL):  # forked meanwhile
                await self._ends_or(lambda: self._loop.time() > bound or not self._living())
        left = self.left()
        return "abandoned" if left else reached, left

    def kill(self) -> None:
        """Kill the child processes now, also while the event loop is blocked."""
        self._take_processes()
        if self._children:
            self._children.send(signal.SIGKILL)

    def left(self) -> tuple[str, ...]:
        """Return the names of ongoing work, as the last look found it."""
        works = {name for work, name in tuple(self._works.items()) if not work.done()}
        threads = {f"thread {t.name}" for t in tuple(self._threads) if t.is_alive()}
        tasks = {f"task {_called(t)}" for t in tuple(self._tasks) if not t.done()}
        return (*self._living(), *sorted(works), *sorted(threads), *sorted(tasks))

    @property
    def goes_on(self) -> bool:
        return bool(self.left())

    def seen(self, tasks: Iterable[AnyTask]) -> tuple[str, ...]:
        """Return the names of work that goes on now. `tasks`: its current tasks."""
        self._take_processes()
        self._tasks = set(tasks)
        return self.left()

    @property
    def is_idle(self) -> bool:
        """Whether no work goes on except tasks, which are found without this object."""
        self._take_processes()
        return not (self._living() or self._works or self._pending())

    def _pending(self) -> bool:
        return any(t.ident is None or t.is_alive() for t in tuple(self._threads))

    async def _ends_or(self, is_enough: Callable[[], bool]) -> None:
        await asyncio.sleep(0)
        while self.left() or self._take_stock():
            if is_enough():
                return
            await asyncio.sleep(_LOOK_S)

    def _cut(self, number: signal.Signals) -> bool:
        """Cancel the tasks and signal the child processes. Return whether there were any."""
        self._take_stock()
        for work in tuple(self._works):
            work.cancel()  # work that has not begun is withdrawn
        is_last = number is signal.SIGKILL
        for task in self._tasks:
            # A task cancelled before may be cleaning up. It is cancelled again only at the end.
            if not self._is_of_a_library(task) and (is_last or not task.cancelling()):
                loop = task.get_loop()
                if loop is self._loop:
                    task.cancel()
                elif not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
        return bool(self._children and self._children.send(number))

    def _take_stock(self) -> bool:
        """Find the current work. Return whether tasks go on."""
        self._take_processes()
        self._tasks = {task for task in _all_tasks({self._loop}) if starter_of(task) is self}
        return bool(self._tasks)

    def _is_of_a_library(self, task: AnyTask) -> bool:
        package = _package_of(_file_of(task))
        return bool(package) and package != _package_of(self._home)

    def _take_processes(self) -> None:
        with self._adding:
            pids, self._pids = self._pids, []
        for pid in pids:
            self.started_process(pid)

    def _living(self) -> list[str]:
        return sorted(self._children.living()) if self._children else []


class _Starters:
    """Starters of work other than tasks. It keeps each until that work has ended.

    Nothing else refers to the starter of a process.
    """

    def __init__(self) -> None:
        self._kept: set[StartedWork] = set()
        self._looked = 0  # how many were kept after the last check

    def add(self, one: StartedWork) -> None:
        self._kept.add(one)
        if len(self._kept) > 2 * self._looked + _LOOK_AT:
            self.still()

    def still(self) -> tuple[StartedWork, ...]:
        for one in tuple(self._kept):
            if one.is_idle:
                self._kept.discard(one)
        self._looked = len(self._kept)
        return tuple(self._kept)


_TOLD: Final = _Starters()
_KNOWN: Final = weakref.WeakSet[StartedWork]()
"""All starters that something refers to: their work, or their callers."""
STARTER: Final[ContextVar[StartedWork | Literal["shared"] | None]] = ContextVar(
    "pullcord-starter", default=None
)
"""The step that work started in this context belongs to. `shared`: no step."""


def is_any_known(whose: Callable[[StartedWork], bool]) -> bool:
    """Return whether one of these may have ongoing work. Cheap, because it checks no task."""
    try:
        return any(whose(one) for one in _KNOWN)
    except RuntimeError:  # another thread has started work meanwhile
        return True


def left_running(*loops: asyncio.AbstractEventLoop) -> dict[StartedWork, tuple[str, ...]]:
    """Return the names of ongoing work in this process, by the call that started it.

    `loops`: loops to check at least. Any thread may call this.
    """
    tasks: dict[StartedWork, list[AnyTask]] = {one: [] for one in _TOLD.still()}
    for task in _all_tasks(loops):
        if (of := starter_of(task)) is not None:
            tasks.setdefault(of, []).append(task)
    return {of: left for of, theirs in tasks.items() if (left := of.seen(theirs))}


def starter_of(task: AnyTask) -> StartedWork | None:
    """Return the step that a task works for, if the task goes on and is not the runtime's own."""
    if task.done() or task.get_loop().is_closed() or task is _current_task():
        return None
    context = context_of(task)
    of = context.get(STARTER) if context is not None else None
    if not isinstance(of, StartedWork) or _file_of(task).startswith(_OURS):
        return None
    return of


class shared:
    """Exempt the work that is started inside: it belongs to no step.

    A stop neither ends nor names it. Use this for a client, pool or server that a step
    makes when it is first needed, and that serves other steps too::

        with pullcord.shared():
            browser = await launch()
    """

    def __enter__(self) -> None:
        self._before: StartedWork | Literal["shared"] | None = STARTER.get()
        STARTER.set("shared")

    def __exit__(self, *_: object) -> None:
        STARTER.set(self._before)  # no token: a fixture may exit in another context


def context_of(task: AnyTask) -> Context | None:
    """Return the context that a task runs in.

    Python 3.11 has no function for this. Its C task tells the garbage collector what it refers to,
    and its own context comes before those of its callbacks. A task in Python has it as an
    attribute.
    """
    if sys.version_info >= (3, 12):
        return task.get_context()
    if (own := getattr(task, "_context", None)) is not None:
        return own
    return next((one for one in gc.get_referents(task) if type(one) is contextvars.Context), None)


def _current_task() -> "AnyTask | None":
    """Return the calling task. None also in a thread without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _all_tasks(loops: Iterable[asyncio.AbstractEventLoop]) -> set[AnyTask]:
    """Return all tasks of these loops, and of others as far as asyncio lists them."""
    found: set[AnyTask] = set()
    for loop in loops:
        with suppress(RuntimeError):  # another thread's busy loop: the next look finds it
            found |= asyncio.all_tasks(loop)
    for name in ("_all_tasks", "_scheduled_tasks", "_eager_tasks"):
        others: Any = getattr(asyncio.tasks, name, ())
        for _ in range(100):
            try:
                found |= set(others)
                break
            except RuntimeError:  # another thread has changed the set meanwhile
                continue
    return found


def _file_of(task: AnyTask) -> str:
    coroutine: Any = task.get_coro()
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    return getattr(code, "co_filename", "")


def _called(task: AnyTask) -> str:
    coroutine: Any = task.get_coro()
    return getattr(coroutine, "__qualname__", type(coroutine).__name__).rpartition("<locals>.")[2]


def _package_of(file: str) -> str:
    """Return the installed package of a file. Empty: it is not installed."""
    for place in _INSTALLED:
        _, found, inside = file.rpartition(place)
        if found:
            return inside.partition("/")[0]
    return ""


def _nothing() -> None:
    pass
