"""The work of `bench.distance` as DBOS does it: `python -m bench.dbos_worker SOCKET NAME`, in an
environment of its own. It says `ready`, waits for a line, and says when it began and ended."""

import asyncio
import sys
import time
from urllib.parse import quote

from dbos import DBOS

RUNS, STEPS = 20, 20  # as in `bench.distance`


@DBOS.step()
async def plain(number: int) -> int:
    return number


@DBOS.workflow()
async def works() -> int:
    for number in range(STEPS):
        await plain(number)
    return STEPS


async def main(socket: str, name: str) -> None:
    url = f"postgresql://pullcord@/dbos?host={quote(socket, safe='')}"
    DBOS(
        config={
            "name": name,
            "system_database_url": url,
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    DBOS.launch()
    first = await DBOS.start_workflow_async(works)  # its connections are made
    await first.get_result()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began = time.monotonic()
    handles = [await DBOS.start_workflow_async(works) for _ in range(RUNS)]
    await asyncio.gather(*(handle.get_result() for handle in handles))
    print(began, time.monotonic(), flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
