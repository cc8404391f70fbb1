"""A parent and two children: pausing the parent holds all three, cancelling it ends all three."""

import asyncio

import pullcord

busy = asyncio.Barrier(3)


async def crawl(site: str) -> str:
    await busy.wait()
    await asyncio.sleep(3600)
    return site


async def crawler(ctx: pullcord.Context, site: str) -> str:
    return await ctx.step("crawl", crawl, site, effect="none")


async def survey(ctx: pullcord.Context) -> list[str]:
    children = [await ctx.spawn("crawler", site) for site in ("north", "south")]
    return [await child.result() for child in children]


async def main() -> None:
    agents = {"survey": survey, "crawler": crawler}
    async with pullcord.open(":memory:", agents=agents) as runtime:
        run = await runtime.start("survey")
        await busy.wait()
        await run.cancel(by="ana", reason="too expensive")
        receipt = await run.receipt()
        print(f"{receipt.state} by {receipt.by}: {receipt.reason}")
        for head in await runtime.list():
            print(f"  {head.agent}: {head.state}")


asyncio.run(main())
