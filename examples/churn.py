"""A report in three steps is paused, redirected and resumed. No finished step is repeated."""

import asyncio

import pullcord

started = asyncio.Event()


async def work(what: str) -> str:
    started.set()
    await asyncio.sleep(0.2)
    return f"{what}: done"


async def churn(ctx: pullcord.Context) -> list[str]:
    plan = ["fetch customers", "score churn risk", "write memo"]
    return [await ctx.step(item.title, work, item.instruction) async for item in ctx.plan(plan)]


async def main() -> None:
    async with pullcord.open(":memory:", agents={"churn": churn}) as runtime:
        run = await runtime.start("churn")
        await started.wait()
        await run.pause(by="ana", reason="all of them?")  # from anywhere: CLI, another process
        await run.wait_for(pullcord.RunState.PAUSED)
        await run.redirect("score EU customers only", by="ana")
        await run.resume(by="ana")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
