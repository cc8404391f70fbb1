"""The processes that drive runs: an embedded runtime, or a server; told what to do over a socket.

A nursery that has imported all of this forks them, so that a killed one is replaced in
milliseconds. The agents do what their input lists: calls of tools of every kind, a child, a talk
with a model.
"""

import asyncio
import contextlib
import faulthandler
import json
import os
import signal
import sys
import traceback
from typing import Any, Final, NoReturn

import msgspec
from fastmcp.client.transports import StdioTransport
from openai import AsyncOpenAI
from pydantic_ai import Agent as Desk
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import pullcord
from pullcord import Context, NotDone, Runtime, Timing
from pullcord.errors import InvalidInput, PullcordError
from pullcord.journal.clock import SystemClock
from pullcord.server.credentials import Keeper
from pullcord.server.standalone import Standalone, listen
from tests.world import effects, planted
from tests.world.lives import Given, Life, Op

TOOLS: Final = {
    "in_loop": pullcord.tool(effects.in_loop),
    "in_loop_again": pullcord.tool(effect="idempotent")(effects.in_loop),
    "to_thread": pullcord.tool(effects.to_thread),
    "subprocess": pullcord.tool(effects.subprocess),
    "in_process": pullcord.tool(effects.in_process),
    "in_process_again": pullcord.tool(effect="idempotent")(effects.in_process),
    "in_process_undo": pullcord.tool(undo=effects.undo)(effects.in_process),
    "in_loop_undo": pullcord.tool(undo=effects.undo)(effects.in_loop),
    "in_thread": pullcord.tool(run_in="thread")(effects.in_thread),
    "too_slow": pullcord.tool(timeout_s=1.0)(effects.too_slow),
    "unstorable": pullcord.tool(effects.unstorable),
    "fails": pullcord.tool(effects.fails),
}


async def perform(ctx: Context, op: Op) -> None:
    try:
        if op.tool == "exec":
            await ctx.exec(*effects.command("exec", op.token, op.ticks))
        else:
            await ctx.tool(TOOLS[op.tool], op.token, op.ticks)
    except NotDone:
        pass  # a person has decided that; the agent goes on


async def worker(ctx: Context, given: Any) -> str:
    wanted = msgspec.convert(given, Given)
    if wanted.child:
        child = await ctx.spawn("worker", {"ops": msgspec.to_builtins(wanted.child)})
        await child.result()
    for op in wanted.ops:
        await ctx.instructions()
        await perform(ctx, op)
    return "done"


def desk(life: Life) -> "Desk[Any, Any]":
    """An agent that a model drives, with a tool of an MCP server."""
    headers = {"x-world-actor": os.environ[effects.ACTOR]}
    client = AsyncOpenAI(
        base_url=life.provider, api_key="none", max_retries=0, default_headers=headers
    )
    argv = ["-I", "-S", effects.__file__, "mcp"]
    inherited = {name: os.environ[name] for name in (effects.WITNESS, effects.ACTOR)}
    transport = StdioTransport(sys.executable, argv, env=inherited, keep_alive=False)
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
    return Desk(model, name="desk", toolsets=[MCPToolset(transport, id="world")])


class WallClock:
    """The wall clock as this process reads it, which somebody sets. (Nobody may set the machine's;
    boot time cannot be set on a real machine either. No clock is handed to `pullcord.open`: a
    store in PostgreSQL counts leases on its server's, and must go on to.)"""

    def __init__(self) -> None:
        self.ahead_ms = 0
        honest, mine = SystemClock.wall_ms, self

        def wall_ms(self: SystemClock) -> int:
            return honest(self) + mine.ahead_ms

        SystemClock.wall_ms = wall_ms


class Actor:
    def __init__(self, life: Life) -> None:
        self._life, self._clock = life, WallClock()
        self._over = asyncio.Event()

    async def live(self) -> None:
        life = self._life
        reader, writer = await asyncio.open_unix_connection(life.line)
        timing = Timing(
            lease_s=life.lease_s,
            park_after_s=0.5,
            stop_grace_s=0.3,
            hold_s=0.5,
            shutdown_grace_s=0.3,
            killable=life.killable,
            blocked_after_s=0,
        )
        agents = {"worker": worker, "desk": desk(life)}
        async with pullcord.open(life.store, agents=agents, timing=timing) as runtime:
            said: dict[str, Any] = {"name": life.name, "pid": os.getpid()}
            server = None
            if life.role == "server":
                server, said["url"], said["token"] = await self._serves(runtime)
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._over.set)
            writer.write(json.dumps(said).encode() + b"\n")
            hearing = asyncio.create_task(self._hear(runtime, reader, writer))
            await self._over.wait()
            hearing.cancel()
            if server:
                await server.stop()

    async def _serves(self, runtime: Runtime) -> tuple[Standalone, str, str]:
        life = self._life
        listening = listen("127.0.0.1", 0)
        port: int = listening.getsockname()[1]
        keeper = Keeper(f"{life.log}.grants", name="ana", cookie=f"pullcord-{port}")
        _, token = keeper.give(kind="token", name="ana", right="admin", lasts_s=3600)
        server = Standalone(runtime, listening, keeper=keeper, hosts=[f"127.0.0.1:{port}"])
        await server.start()
        return server, f"http://127.0.0.1:{port}", token

    async def _hear(
        self, runtime: Runtime, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while line := await reader.readline():
            told = json.loads(line)
            if told["do"] == "clock":
                self._clock.ahead_ms = told["ahead_ms"]
                continue
            if told["do"] == "tell":
                _tell_what_it_does()
                continue
            try:
                said = await self._begin(runtime, told)
            except PullcordError:
                traceback.print_exc()  # the store is away, or the kill switch engaged
            else:
                writer.write(json.dumps(said).encode() + b"\n")
        self._over.set()  # nobody is there any more

    async def _begin(self, runtime: Runtime, told: dict[str, Any]) -> dict[str, str]:
        if told["do"] == "again":
            made = await (await runtime.get(told["run"])).try_again(by="ana")
            return {"started": made.id, "of": told["run"]}
        with contextlib.suppress(InvalidInput):  # its starter did not live to say so
            await runtime.start(told["agent"], told["given"], run_id=told["run"], by="ana")
        return {"started": told["run"]}


def _tell_what_it_does() -> None:
    """Into the log: where every task and thread stands."""
    for task in asyncio.all_tasks():
        task.print_stack(limit=8, file=sys.stderr)
    faulthandler.dump_traceback(sys.stderr)


def live(life: Life) -> NoReturn:
    """Be that actor to its end. A thread that a tool has left does not keep it."""
    os.environ[effects.ACTOR] = f"{life.name}:{os.getpid()}"
    status = 0
    try:
        if life.plant:
            planted.SHIMS[life.plant]()
        asyncio.run(Actor(life).live())
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    # Under its real name: what a tool's process imports is then the same module.
    from tests.world import actors

    actors.live(msgspec.json.decode(sys.argv[1], type=Life))
