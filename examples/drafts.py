"""Tools that are approved, undone by a cancel, and killed. `python examples/drafts.py`"""

import asyncio
import time

import pullcord

outbox: list[str] = []


async def take_back(call: pullcord.Call) -> None:
    outbox.remove(call.result)  # handed the call with its result, or in doubt with the arguments


@pullcord.tool(undo=take_back)
async def draft(to: str) -> str:
    outbox.append(f"to {to}")
    return f"to {to}"


@pullcord.tool(approve=pullcord.always)
async def send(to: str) -> str:
    return f"sent to {to}"


def crunch(seconds: float) -> None:  # blocking: in a process of its own, killed as a tree
    print("crunching")
    time.sleep(seconds)


async def mail(ctx: pullcord.Context) -> None:
    await ctx.tool(draft, "ana")
    await ctx.tool(draft, "bo")
    print(await ctx.tool(send, "ana"))
    await ctx.tool(crunch, 3600)


async def main() -> None:
    async with pullcord.open(":memory:", agents={"mail": mail}) as runtime:
        run = await runtime.start("mail")
        waiting = await run.wait_for(pullcord.RunState.WAITING)
        await run.approve(waiting.open_questions()[0], by="ana")  # this one call, no other
        async for _, item in run.events():
            if "crunching" in str(item):  # what a tool puts out is streamed
                break
        await run.cancel(by="ana", reason="wrong list")
        receipt = await run.receipt()
        print(receipt.done, receipt.undone, receipt.interrupted, outbox)


if __name__ == "__main__":
    asyncio.run(main())
