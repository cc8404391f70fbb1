"""A program that watches a run: every event has a class of its own, to be matched by its name."""

import asyncio
from collections.abc import AsyncIterator

import pullcord
from pullcord.events import Answered, Completed, LiveText, QuestionAsked, Record, StepFinished, load


async def count() -> int:
    return 214


async def words(customers: int) -> AsyncIterator[str]:
    for word in ("We ", "have ", f"{customers} ", "customers."):
        yield word


async def report(ctx: pullcord.Context) -> str:
    customers = await ctx.step("count", count, effect="none")
    await ctx.ask("Publish it?")
    return await ctx.say(words(customers))


async def main() -> None:
    async with pullcord.open(":memory:", agents={"report": report}) as runtime:
        run = await runtime.start(report)
        async for cursor, item in run.events():
            match item:
                case LiveText(text=text):  # shown before it is recorded
                    print(text)
                case Record(event=StepFinished(result=result)):
                    print(f"{cursor}: a step returned {load(result)}")
                case Record(event=QuestionAsked(question=question, text=text)):
                    print(f"{cursor}: {text}")
                    await run.answer(question, "yes", by="ana")
                case Record(event=Answered(by=by)):
                    print(f"{cursor}: answered by {by}")
                case Record(event=Completed()):
                    print(f"{cursor}: done")
                case _:
                    pass


asyncio.run(main())
