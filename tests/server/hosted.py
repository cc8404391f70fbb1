"""A host of somebody's own: the control plane mounted in an app, served by uvicorn as it comes."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

import pullcord
from pullcord.server import Grant, app


async def waits(ctx: pullcord.Context) -> Any:
    return await ctx.ask("go on?")


runtime = pullcord.open(sys.argv[1], agents={"waits": waits})


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncGenerator[None]:
    async with runtime:
        await runtime.start("waits", run_id="r1")
        yield


def who(request: Any) -> Grant | None:
    return Grant(by="ana", right="control") if "user" in request.headers else None


host = Starlette(routes=[Mount("/agents", app(runtime, authorize=who))], lifespan=lifespan)

if __name__ == "__main__":
    uvicorn.run(host, port=int(sys.argv[2]), log_level="warning", lifespan="on")
    sys.stdout.write(f"over {os.getpid()}\n")
