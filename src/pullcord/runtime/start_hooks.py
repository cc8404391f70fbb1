"""Tells a step what is started in its name: a process, a thread, work in a pool.

The doors through which Python starts such things are wrapped: they do what they did, and then tell
the step in whose context they were called. Nothing is told outside of steps, and nothing that goes
wrong here reaches the caller. Audit events would come too early (a process has no number yet), and
Python 3.11 has none for threads; see docs/decisions/0046.
"""

import functools
import os
import subprocess
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from multiprocessing.process import BaseProcess
from typing import Any, Final, cast

from pullcord.runtime.child_processes import children_of_this_thread
from pullcord.runtime.started import STARTER, Started, shared

_PLUMBING: Final = ("asyncio.", "concurrent.futures.", "multiprocessing.", "anyio.", "pullcord.")
"""Modules whose threads and processes serve whoever comes: they belong to no step."""
_of_thread: Final = weakref.WeakKeyDictionary[threading.Thread, Started]()
_before_fork: Final = threading.local()
_installing: Final = threading.Lock()
_is_installed = False


def install_start_hooks() -> None:
    """Begin to tell, in this process and for good. The first call counts."""
    global _is_installed
    with _installing:
        if _is_installed:
            return
        _is_installed = True
    os.register_at_fork(before=_about_to_fork, after_in_parent=_has_forked)
    _wrap(subprocess.Popen, "__init__", _popen)
    _wrap(threading.Thread, "start", _thread)
    _wrap(BaseProcess, "start", _process)
    _wrap(ThreadPoolExecutor, "submit", functools.partial(_submit, "thread"))
    _wrap(ProcessPoolExecutor, "submit", functools.partial(_submit, "process"))


def starter() -> Started | None:
    """The step that the calling code works for: by its context, or by the thread it runs in."""
    found = STARTER.get()
    if found is None and _of_thread:
        return _of_thread.get(threading.current_thread())
    return found if isinstance(found, Started) else None


def _wrap(kind: Any, name: str, telling: Callable[..., Any]) -> None:
    """Have `telling` called instead, with the step and the method, whenever a step calls it."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def told(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if (of := starter()) is None:
            return method(self, *args, **kwargs)
        return telling(of, method, self, *args, **kwargs)

    setattr(kind, name, told)


def _popen(of: Started, init: Any, self: Any, /, *args: Any, **kwargs: Any) -> None:
    with shared():  # with a `preexec_fn` it forks like everybody else
        init(self, *args, **kwargs)
    of.started_popen(self)


def _process(of: Started, start: Any, self: BaseProcess) -> None:
    with shared():
        is_own = not _is_plumbing(self)
        start(self)
    if is_own and self.pid:
        of.forked([self.pid])


def _thread(of: Started, start: Any, self: threading.Thread) -> None:
    if not _is_plumbing(self):
        _of_thread[self] = of
        of.started_thread(self)
    start(self)


def _is_plumbing(started: Any) -> bool:
    """Whether a pool or the like has started it, for whoever comes."""
    target = cast("Any", getattr(started, "_target", None) or type(started))
    return f"{getattr(target, '__module__', '')}.".startswith(_PLUMBING)


def _submit(
    place: str, of: Started, submit: Any, self: Executor, fn: Any, /, *args: Any, **kwargs: Any
) -> "Future[Any]":
    with shared():  # a thread or process that the pool makes for it is the pool's
        if place == "thread":
            work = submit(self, _for_step, of, fn, *args, **kwargs)
        else:
            work = submit(self, fn, *args, **kwargs)
    of.handed_over(work, f"work in a {place} of a pool ({_name_of(fn)})")
    return work


def _for_step(of: Started, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Carry out a step's work in a thread of a pool: what it starts is the step's, too."""
    before = STARTER.get()
    STARTER.set(of)
    try:
        return fn(*args, **kwargs)
    finally:
        STARTER.set(before)


def _name_of(fn: Any) -> str:
    """What is to be done, below what only carries the context along."""
    while isinstance(fn, functools.partial):
        partial: functools.partial[Any] = fn  # pyright: ignore[reportUnknownVariableType]
        is_carrier = isinstance(getattr(partial.func, "__self__", None), Context)
        fn = partial.args[0] if is_carrier and partial.args else partial.func
    return getattr(fn, "__name__", type(fn).__name__)


def _about_to_fork() -> None:
    _before_fork.children = None
    with suppress(Exception):
        _before_fork.children = children_of_this_thread() if starter() else None


def _has_forked() -> None:
    with suppress(Exception):
        before: set[int] | None = _before_fork.children
        if before is not None and (of := starter()):
            of.forked(children_of_this_thread() - before)
