"""An event loop for agents' code. What ignores being cancelled ends with the process, at once."""

import asyncio
import gc
import os
import sys
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from pullcord.cli.standard_streams import put

_PATIENCE_S: Final = 1.0


class Done(NamedTuple):
    """All that was asked for is done and said. `is_left`: something goes on all the same."""

    status: int
    is_left: bool

    def leave(self) -> int:
        """Return the status; or end the process with it, if that ends what is left."""
        if self.is_left:
            put(sys.stdout, "")
            sys.stderr.flush()
            os._exit(self.status)
        return self.status


def in_a_loop(work: Coroutine[Any, Any, int]) -> Done:
    """Like `asyncio.run`, which would wait for whatever ignores being cancelled, for ever."""
    # What is loaded by now stays. With Pydantic AI among it a full collection takes 0.14 s, and
    # meanwhile no thread of this process hears of a cancel.
    gc.freeze()
    gc.enable()
    runner, is_left = asyncio.Runner(), True
    try:
        status = runner.run(work)
    finally:
        is_left = not runner.run(_have_ended())
        if not is_left:
            runner.close()
    return Done(status, is_left)


async def _have_ended() -> bool:
    """Cancel whatever is left, and wait a moment for it, and for threads that were awaited."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest and (await asyncio.wait(rest, timeout=_PATIENCE_S))[1]:
        return False
    threads = asyncio.create_task(asyncio.get_running_loop().shutdown_default_executor())
    return bool((await asyncio.wait({threads}, timeout=_PATIENCE_S))[0])
