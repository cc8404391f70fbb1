"""Programs as users write them. A line says in its comment what a type checker has to say of it:
`is` the type that it reveals, or the rule that it reports. Never run."""

from collections.abc import AsyncIterator
from typing import Any, reveal_type

import pullcord
from pullcord.events import Answered, LiveText, Record
from pullcord.tools import Policy


async def fetch(month: str, rows: int = 10) -> list[int]:
    return [rows]


def add(a: int, b: int = 2) -> int:
    return a + b


@pullcord.tool(effect="idempotent", timeout_s=3)
async def draft(ctx: pullcord.ToolContext, to: str) -> dict[str, str]:
    return {ctx.idempotency_key: to}


@pullcord.tool
def crunch(n: int) -> float:
    return n / 2


@pullcord.tool(command=True)
def build(target: str) -> list[str]:
    return ["make", target]


@pullcord.tool(approve="always", deferred=True)
async def pay(amount: int) -> str:
    return f"paid {amount}"


@pullcord.tool(efect="none")  # reportCallIssue reportUntypedFunctionDecorator
async def misspelt() -> None: ...


@pullcord.tool(effect="twice")  # reportArgumentType reportCallIssue reportUntypedFunctionDecorator
async def misdeclared() -> None: ...


async def steps(ctx: pullcord.Context) -> list[int]:
    reveal_type(await ctx.step("fetch", fetch, "may", key="k", retry=2))  # is list[int]
    await ctx.step("fetch", fetch, 5)  # reportArgumentType
    await ctx.step("fetch", fetch)  # reportArgumentType
    await ctx.step("add", add, 1)  # reportArgumentType
    await ctx.step("fetch", fetch, "may", retries=2)  # reportCallIssue
    ctx.step("fetch", fetch, "may")  # reportUnusedCoroutine
    await ctx.defer(fetch, 5)  # reportArgumentType
    return [1]


async def tools(ctx: pullcord.Context) -> None:
    reveal_type(await ctx.tool(draft, "ana"))  # is dict[str, str]
    reveal_type(await ctx.tool(draft, to="ana", key="once"))  # is dict[str, str]
    reveal_type(await ctx.tool(crunch, n=4))  # is float
    reveal_type(await ctx.tool(add, 1))  # is int
    reveal_type(await ctx.tool(fetch, "may"))  # is list[int]
    reveal_type(await ctx.tool(build, "all"))  # is CommandResult
    reveal_type(await ctx.tool(pullcord.shell, "ls"))  # is CommandResult
    reveal_type(await (await ctx.tool(pay, 5)).result())  # is str
    reveal_type(await ctx.exec("make", timeout_s=5))  # is CommandResult
    await ctx.tool(draft, 5)  # reportCallIssue
    await ctx.tool(build)  # reportCallIssue
    await ctx.exec("make", timeout=5)  # reportCallIssue
    ctx.tool(add, 1)  # reportUnusedCoroutine
    ctx.exec("make")  # reportUnusedCoroutine
    ctx.say("hello")  # reportUnusedCoroutine
    ctx.ask("really?")  # reportUnusedCoroutine
    ctx.checkpoint()  # reportUnusedCoroutine
    ctx.sleep(1)  # reportUnusedCoroutine


async def family(ctx: pullcord.Context) -> str:
    reveal_type(await (await ctx.spawn(steps)).result())  # is list[int]
    reveal_type(await (await ctx.spawn("steps")).result())  # is Any
    ctx.spawn(steps)  # reportUnusedCoroutine
    return "done"


async def handles(runtime: pullcord.Runtime) -> None:
    run = await runtime.start(steps)
    reveal_type(run)  # is RunHandle[list[int]]
    reveal_type(await run.result())  # is list[int]
    reveal_type(await (await run.fork()).result())  # is list[int]
    reveal_type(await (await runtime.start("steps")).result())  # is Any
    by_name: pullcord.RunHandle = await runtime.get("r1")
    reveal_type(await by_name.result())  # is Any
    await run.pause(buy="ana")  # reportCallIssue
    run.pause(by="ana")  # reportUnusedCoroutine
    run.cancel(by="ana")  # reportUnusedCoroutine
    await run.edit("pay-1", {"amount": 5}, by="ana")
    await run.approve("pay-1", args={"amount": 5})  # reportCallIssue
    run.result()  # reportUnusedCoroutine
    runtime.start(steps)  # reportUnusedCoroutine
    runtime.list()  # reportUnusedCoroutine


async def watching(run: pullcord.RunHandle) -> AsyncIterator[str]:
    async for _cursor, item in run.events():
        match item:
            case LiveText(text=text):
                reveal_type(text)  # is str
            case Record(event=Answered(by=by)):
                reveal_type(by)  # is str
                yield by
            case _:
                pass


def opening(given: Any) -> None:
    pullcord.open("runs.db", agents={"steps": steps}, tools={"add": Policy(effect="none")})
    pullcord.open("runs.db", agents=given, tool={})  # reportCallIssue
