"""Tells a step about the work that it starts: a process, a thread, work in a pool.

It wraps the functions by which Python starts such work. They do their work, and then tell the step
in whose context they were called. A process carries the mark of the step (see `mark`), so a search
finds it without its parent. The wrappers tell nothing outside of steps, and pass no errors of their
own to the caller. Audit events would come too early, because a process has no number yet. Python
3.11 has none for threads. See docs/decisions/0046.
"""

import functools
import multiprocessing.pool
import os
import shlex
import subprocess
import threading
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context
from multiprocessing.process import BaseProcess
from typing import Any, Final, cast

from pullcord.killswitch.mark import WORKER, carry, with_entry
from pullcord.runtime.processes.child_processes import children_of_this_thread
from pullcord.runtime.processes.started_work import STARTER, StartedWork, shared

_PLUMBING: Final = ("asyncio.", "concurrent.futures.", "multiprocessing.", "anyio.", "pullcord.")
"""Modules whose threads and processes serve all callers, so they belong to no step. A private
function of such a module starts them. A public one (`asyncio.run`) runs the step's own work.
"""
_PUBLIC_PLUMBING: Final = ("multiprocessing.pool.worker",)
_ENV_AT: Final = 10  # the position of `env` in the arguments of Popen
_of_thread: Final = weakref.WeakKeyDictionary[threading.Thread, StartedWork]()
_before_fork: Final = threading.local()
_installing: Final = threading.Lock()
_is_installed = False


def install_start_hooks() -> None:
    """Wrap the functions in this process, for good. Later calls do nothing."""
    global _is_installed
    with _installing:
        if _is_installed:
            return
        _is_installed = True
    os.register_at_fork(
        before=_about_to_fork, after_in_parent=_has_forked, after_in_child=_was_forked
    )
    _wrap(subprocess.Popen, "__init__", _popen)
    _wrap_system()
    _wrap(multiprocessing.pool.ApplyResult, "__init__", _pooled)
    _wrap(threading.Thread, "start", _thread)
    _wrap(BaseProcess, "start", _process)
    _wrap(ThreadPoolExecutor, "submit", functools.partial(_submit, "thread"))
    _wrap(ProcessPoolExecutor, "submit", functools.partial(_submit, "process"))


def starter() -> StartedWork | None:
    """Return the step that the calling code works for, by its context or its thread."""
    found = STARTER.get()
    if found is None and _of_thread:
        return _of_thread.get(threading.current_thread())
    return found if isinstance(found, StartedWork) else None


def _wrap(kind: Any, name: str, telling: Callable[..., Any]) -> None:
    """When a step calls the method, call `telling` with the step and the method instead."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def told(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if (of := starter()) is None:
            return method(self, *args, **kwargs)
        return telling(of, method, self, *args, **kwargs)

    setattr(kind, name, told)


def _popen(of: StartedWork, init: Any, self: Any, /, *args: Any, **kwargs: Any) -> None:
    with suppress(Exception):
        args, kwargs = _marked(of, args, kwargs)
    with shared():  # with a `preexec_fn`, Popen forks through the fork hooks
        init(self, *args, **kwargs)
    with suppress(Exception):
        of.started_process(self.pid)


def _marked(
    of: StartedWork, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of Popen, with the step's mark in the environment."""
    if not (entry := of.entry()):
        return args, kwargs
    is_placed = len(args) > _ENV_AT
    given: Any = args[_ENV_AT] if is_placed else kwargs.get("env")
    env: dict[Any, Any] = dict(os.environ if given is None else given)
    env[WORKER] = with_entry(os.fsdecode(env.get(WORKER, "")), entry)
    if is_placed:
        return (*args[:_ENV_AT], env, *args[_ENV_AT + 1 :]), kwargs
    return args, kwargs | {"env": env}


def _wrap_system() -> None:
    module: Any = os
    system: Callable[[Any], int] = module.system

    @functools.wraps(system)
    def told(command: Any) -> int:
        if (of := starter()) is None:
            return system(command)
        ordered = command
        with suppress(Exception):
            of.started_process(0)
            if entry := of.entry():
                marks = with_entry(os.environ.get(WORKER, ""), entry)
                # A shell that exports the mark does not carry it itself, nor do its forks.
                again = f"exec /bin/sh -c {shlex.quote(os.fsdecode(command))}"
                ordered = f"export {WORKER}={shlex.quote(marks)}; {again}"
        return system(ordered)

    module.system = told


def _process(of: StartedWork, start: Any, self: BaseProcess) -> None:
    is_own = not _is_plumbing(self)
    with shared(), _children_carry(of.entry(is_own=is_own)):
        start(self)
    with suppress(Exception):
        if is_own and self.pid:
            how = getattr(getattr(self, "_popen", None), "method", "")
            of.started_process(self.pid, is_ours=how != "forkserver")


def _thread(of: StartedWork, start: Any, self: threading.Thread) -> None:
    if not _is_plumbing(self):
        _of_thread[self] = of
        of.started_thread(self)
        run = self.run

        def run_for_step() -> None:
            STARTER.set(of)  # a thread begins with an empty context
            self.__dict__.pop("run", None)
            run()

        self.run = run_for_step
    start(self)


def _is_plumbing(started: Any) -> bool:
    """Return whether a pool or similar module has started it, for all callers."""
    target = cast("Any", getattr(started, "_target", None))
    made_by = cast("Any", target or type(started))
    module = f"{getattr(made_by, '__module__', '')}."
    if target is None or module.startswith("pullcord."):
        return module.startswith(_PLUMBING)
    name = getattr(target, "__name__", "")
    is_inner = name.startswith("_") or module + name in _PUBLIC_PLUMBING
    return is_inner and module.startswith(_PLUMBING)


class _Pooled(Future[Any]):
    """A step's work in a pool of `multiprocessing`. It counts as done when the pool has ended."""

    def __init__(self, pool: Any) -> None:
        super().__init__()
        self._pool = pool
        self.set_running_or_notify_cancel()  # such a pool never withdraws work

    def done(self) -> bool:
        return super().done() or not any(worker.is_alive() for worker in self._pool._pool)


def _pooled(of: StartedWork, init: Any, self: Any, pool: Any, /, *args: Any, **kwargs: Any) -> None:
    init(self, pool, *args, **kwargs)
    with suppress(Exception):
        work, settle = _Pooled(pool), self._set

        def settled(*outcome: Any) -> None:
            settle(*outcome)
            if self.ready() and not Future.done(work):
                work.set_result(None)

        self._set = settled
        if not self.ready():
            of.handed_over(work, "work in a pool of multiprocessing")


def _submit(
    place: str, of: StartedWork, submit: Any, self: Executor, fn: Any, /, *args: Any, **kwargs: Any
) -> "Future[Any]":
    with shared(), _children_carry(of.entry(is_own=False)):  # what the pool makes is the pool's
        if place == "thread":
            work = submit(self, _for_step, of, fn, *args, **kwargs)
        else:
            work = submit(self, fn, *args, **kwargs)
    of.handed_over(work, f"work in a {place} of a pool ({_name_of(fn)})")
    return work


def _for_step(of: StartedWork, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run a step's work in a thread of a pool. Work that it starts is the step's, too."""
    before = STARTER.get()
    STARTER.set(of)
    try:
        return fn(*args, **kwargs)
    finally:
        STARTER.set(before)


def _name_of(fn: Any) -> str:
    """Return the name of the function, without wrappers that only carry the context."""
    while isinstance(fn, functools.partial):
        partial: functools.partial[Any] = fn  # pyright: ignore[reportUnknownVariableType]
        is_carrier = isinstance(getattr(partial.func, "__self__", None), Context)
        fn = partial.args[0] if is_carrier and partial.args else partial.func
    return getattr(fn, "__name__", type(fn).__name__)


@contextmanager
def _children_carry(entry: str) -> Generator[None]:
    """Give this entry to every child that the calling thread forks inside."""
    before = getattr(_before_fork, "entry", "")
    _before_fork.entry = entry
    try:
        yield
    finally:
        _before_fork.entry = before


def _about_to_fork() -> None:
    _before_fork.children = None
    with suppress(Exception):
        _before_fork.children = children_of_this_thread() if starter() else None


def _was_forked() -> None:
    with suppress(Exception):
        of = starter()
        if entry := getattr(_before_fork, "entry", "") or (of.entry() if of else ""):
            carry(entry)


def _has_forked() -> None:
    with suppress(Exception):
        before: set[int] | None = _before_fork.children
        if before is not None and (of := starter()):
            of.forked(children_of_this_thread() - before)
