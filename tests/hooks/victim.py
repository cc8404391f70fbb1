"""A process with an agent at work and a webhook, to be interrupted or killed:

python -m tests.hooks.victim STORE URL
"""

import asyncio
import sys

import pullcord
from pullcord import Context, Timing
from pullcord.hooks import Webhook
from tests.hooks.receiver import SECRET


async def works(ctx: Context) -> None:
    print("works", flush=True)
    await ctx.step("work", asyncio.sleep, 3600)


async def main(store: str, url: str) -> None:
    timing = Timing(shutdown_grace_s=0.01, hook_retry_s=0.01)
    async with pullcord.open(
        store, agents={"works": works}, timing=timing, on_stop=Webhook(url, SECRET)
    ) as runtime:
        run = await runtime.start("works", run_id="r1")
        await run.result()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
