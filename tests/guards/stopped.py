"""A process whose event loop is always busy with something short, and that is stopped meanwhile.

Started as `python -m tests.guards.stopped`, told to end through standard input. It says how often
something was blamed for the time in which nothing ran at all.
"""

import asyncio
import logging
import threading
import time

import pullcord
from tests.promises.owners import hear, say


class Blamed(logging.Handler):
    times = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.times += "event loop" in record.getMessage()


async def main() -> None:
    is_over = threading.Event()
    blamed = Blamed()
    logging.getLogger("pullcord.runtime").addHandler(blamed)

    async def busy(_ctx: pullcord.Context) -> None:
        say("busy")
        while not is_over.is_set():
            until = time.monotonic() + 0.02
            while time.monotonic() < until:
                pass
            await asyncio.sleep(0)

    async with pullcord.open(":memory:", agents={"busy": busy}) as runtime:
        run = await runtime.start("busy")
        told = asyncio.create_task(asyncio.to_thread(hear))
        await told
        is_over.set()
        await run.result()
    say(f"blamed {blamed.times} times")


if __name__ == "__main__":
    asyncio.run(main())
