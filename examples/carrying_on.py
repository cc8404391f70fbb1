"""A program that goes on with the run that an earlier process has left, or starts it."""

import asyncio
import tempfile
from pathlib import Path

import pullcord
from pullcord.errors import RunNotFound


async def count() -> int:
    return 214


async def report(ctx: pullcord.Context) -> str:
    customers = await ctx.step("count", count)
    region = await ctx.ask("Which region?")
    return f"{region}: {customers}"


async def main(path: Path) -> None:
    async with pullcord.open(path, agents={"report": report}) as runtime:
        try:
            run = await runtime.get("report-may")  # an earlier process has started it
        except RunNotFound:
            run = await runtime.start("report", run_id="report-may")
            asked = await run.wait_for(pullcord.RunState.WAITING)
            print(f"It waits: {asked.state}")
            return  # as a crash or a deploy would end it
        [question] = (await run.snapshot()).open_questions()
        await run.answer(question, "EU", by="ana")
        print(await run.result())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):  # two processes, one after the other
            asyncio.run(main(Path(folder) / "runs.db"))
