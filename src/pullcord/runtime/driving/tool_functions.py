"""Calls a tool's function about a call: its undo or its probe. Async ones run in the loop."""

import asyncio
import inspect
import threading
from collections.abc import Collection
from contextvars import copy_context
from functools import partial
from typing import Any

import msgspec

from pullcord.core.calls import Call, ToolContext, invoke
from pullcord.journal.rules.ledger import Lease
from pullcord.killswitch.flags import Whose
from pullcord.runtime.policy import wants_context
from pullcord.runtime.processes.started_work import StartedWork
from pullcord.runtime.processes.thread_stop import ThreadStop
from pullcord.runtime.processes.tool_output import Output
from pullcord.runtime.processes.warden_client import Process, Processes, address_of, encoded
from pullcord.runtime.steps.failures import ToolFailed, described
from pullcord.warden.worker import Answer, Given


async def about(function: Any, call: Call, context: ToolContext, of: StartedWork) -> Any:
    """Call the function in this process, in a thread if it is not async, and return its value.

    The thread belongs to `of`, because it goes on even if the caller is cancelled.
    """
    raw = getattr(function, "__pullcord_tool__", function)
    args = (context, call) if wants_context(raw) else (call,)
    try:
        if inspect.iscoroutinefunction(raw):
            return await raw(*args)
        value = await in_thread(lambda: raw(*args), None, {}, of)
        return await value if inspect.isawaitable(value) else value
    except (SystemExit, KeyboardInterrupt) as error:  # asyncio would end the whole loop
        raise ToolFailed(described(error)) from None


async def about_in_process(
    processes: Processes,
    function: Any,
    call: Call,
    context: ToolContext,
    whose: list[Whose],
    lease: Lease,
    needs_env: Collection[str] = (),
) -> Any:
    """Call the function in a process of its own. A cancellation of this call kills that process."""
    output = Output()
    given = Given(call=call, context=context.as_data() if wants_context(function) else None)
    process = await processes.start(
        {"function": address_of(function)},
        encoded(given),
        out=output.take_out,
        err=output.take_err,
        news=_nothing,
        began=_yes,
        needs_env=needs_env,
        whose=whose,
        run=lease.run_id,
        epoch=lease.epoch,
    )
    try:
        ended = await asyncio.shield(process.ended)
    except asyncio.CancelledError:
        process.hurry()
        await process.ended
        raise
    answer = answer_in(ended.answer)
    if answer is None:
        raise ToolFailed(f"ExitWithoutResult: {ended.why or f'its status was {ended.status}'}")
    if answer.error and not answer.happened:
        raise ToolFailed(answer.error, at=answer.at, traceback=answer.traceback)
    return msgspec.json.decode(answer.result)


async def in_thread(
    function: Any,
    context: ToolContext | None,
    args: dict[str, Any],
    of: StartedWork | None = None,
    stop: ThreadStop | None = None,
) -> Any:
    """Call the function in a daemon thread of its own, which does not keep the program alive."""
    called = partial(stop.call, invoke) if stop else invoke
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    inside = copy_context()  # its work belongs to the caller's step

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = inside.run(called, function, context, args)
        except (StopIteration, SystemExit, KeyboardInterrupt) as raised:
            error = ToolFailed(described(raised))
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to be told

    thread = threading.Thread(target=work, daemon=True, name="pullcord-tool")
    if of:
        of.started_thread(thread)
    thread.start()
    return await asyncio.shield(done)


def answer_in(answer: bytes) -> Answer | None:
    """Return a worker's answer, or None if it was stopped before it had written all of it."""
    try:
        return msgspec.json.decode(answer, type=Answer)
    except (msgspec.DecodeError, RecursionError):
        return None


def _yes(_process: Process) -> bool:
    return True


def _nothing() -> None:
    pass
