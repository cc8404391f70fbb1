"""An agent finishes in the very moment somebody cancels it. Exactly one wins; everyone is told."""

import asyncio

import pullcord

at_the_end = asyncio.Event()


async def last_step() -> str:
    at_the_end.set()
    return "sent"


async def agent(ctx: pullcord.Context) -> str:
    return await ctx.step("send", last_step)


async def main() -> None:
    async with pullcord.open(":memory:", agents={"agent": agent}) as runtime:
        run = await runtime.start("agent")
        await at_the_end.wait()
        ana, bo = await asyncio.gather(run.cancel(by="ana"), run.cancel(by="bo"))
        receipt = await run.receipt()
        print(f"the run: {receipt.state}, done: {receipt.done}, interrupted: {receipt.interrupted}")
        print(f"ana: {ana.verdict} · bo: {bo.verdict}")


asyncio.run(main())
