"""What the tools of the world do: they tell the witness that they begin, act and end.

Standard library only. Tool processes, threads, commands and the MCP server run this file; an
agent's own loop does too. Every report names its token (the same in every attempt, life and fork
of one call), the call (another for each time that the function is really called) and the moment
at which it was sent, on the clock that never stands still (CLOCK_BOOTTIME).
"""

import asyncio
import json
import os
import socket
import sys
import threading
import time
from typing import Any, Final

WITNESS: Final = "WORLD_WITNESS"  # the path of its socket
ACTOR: Final = "WORLD_ACTOR"  # which actor this process belongs to, and the actor's pid
TICK_S: Final = 0.05


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Call:
    """One time that a function was called. Each word goes out at once, or the call fails."""

    def __init__(self, kind: str, token: str, ctx: Any = None) -> None:
        self._said = {
            "kind": kind,
            "token": token,
            "call": os.urandom(6).hex(),
            "pid": os.getpid(),
            "actor": os.environ.get(ACTOR, ""),
            "run": getattr(ctx, "run_id", ""),
            "step": getattr(ctx, "step", ""),
            "attempt": getattr(ctx, "attempt", 0),
        }

    def says(self, what: str, **more: object) -> None:
        report({**self._said, "what": what, **more})


def report(said: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect(os.environ[WITNESS])
        line.send(json.dumps({**said, "at": now()}).encode())


def act(kind: str, token: str, ticks: int, ctx: Any = None) -> str:
    """Begin, tick and end, holding whatever thread this is called in."""
    call = Call(kind, token, ctx)
    call.says("begin")
    for _ in range(ticks):
        time.sleep(TICK_S)
        call.says("tick")
    call.says("end")
    return token


# --- tools: one of each kind --------------------------------------------------------------------


async def in_loop(ctx: Any, token: str, ticks: int) -> str:
    call = Call("in_loop", token, ctx)
    call.says("begin")
    for _ in range(ticks):
        await asyncio.sleep(TICK_S)
        call.says("tick")
    call.says("end")
    return token


async def to_thread(ctx: Any, token: str, ticks: int) -> str:
    return await asyncio.to_thread(act, "to_thread", token, ticks, ctx)


async def subprocess(ctx: Any, token: str, ticks: int) -> str:
    who = {"run_id": ctx.run_id, "step": ctx.step, "attempt": ctx.attempt}
    argv = command("subprocess", token, ticks, json.dumps(who))
    started = await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.DEVNULL)
    if await started.wait() != 0:
        raise RuntimeError(f"the program ended with status {started.returncode}")
    return token


def in_process(ctx: Any, token: str, ticks: int) -> str:
    return act("in_process", token, ticks, ctx)


def in_thread(ctx: Any, token: str, ticks: int) -> str:
    return act("in_thread", token, ticks, ctx)


def too_slow(ctx: Any, token: str, ticks: int) -> str:
    """The same, declared with a time limit that it does not keep."""
    return act("too_slow", token, ticks, ctx)


def unstorable(ctx: Any, token: str, ticks: int) -> Any:
    """It happens, and what comes of it cannot be written down."""
    act("unstorable", token, ticks, ctx)
    return {"half of a pair": "\ud800"}


async def fails(ctx: Any, token: str, ticks: int) -> str:
    """It begins, and says that it could not do it."""
    call = Call("fails", token, ctx)
    call.says("begin")
    await asyncio.sleep(TICK_S * ticks)
    raise RuntimeError("the mail server said no")


def command(kind: str, token: str, ticks: int, who: str = "{}") -> list[str]:
    """The command that acts the same way, as a program of its own."""
    return [sys.executable, "-I", "-S", __file__, kind, token, str(ticks), who]


def undo(ctx: Any, call: Any) -> None:
    """Take back what a tool did."""
    Call("undo", call.args["token"], ctx).says("undo")


# --- an MCP server over stdio, by hand: it starts in twenty milliseconds --------------------------


def mcp_server() -> None:
    """Answer requests line by line; a call ticks in a thread and heeds the word to stop."""
    stopped: set[Any] = set()
    lock = threading.Lock()

    def answer(number: Any, result: Any) -> None:
        with lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\n")
            sys.stdout.flush()

    def carry_out(number: Any, token: str, ticks: int) -> None:
        call = Call("mcp", token)
        call.says("begin")
        for _ in range(ticks):
            time.sleep(TICK_S)
            if number in stopped:
                return
            call.says("tick")
        call.says("end")
        answer(number, {"content": [{"type": "text", "text": token}], "isError": False})

    for line in sys.stdin:
        if not line.strip():
            continue
        asked: dict[str, Any] = json.loads(line)
        given: dict[str, Any] = asked.get("params") or {}
        match asked.get("method"):
            case "initialize":
                answer(asked["id"], _introduction(given))
            case "tools/list":
                answer(asked["id"], {"tools": [_MCP_TOOL]})
            case "tools/call":
                args = given["arguments"]
                work = (asked["id"], args["token"], int(args["ticks"]))
                threading.Thread(target=carry_out, args=work, daemon=True).start()
            case "notifications/cancelled":
                stopped.add(given.get("requestId"))
            case _ if "id" in asked:
                answer(asked["id"], {})
            case _:
                pass


def _introduction(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": given.get("protocolVersion", "2025-06-18"),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "world", "version": "1"},
    }


_MCP_TOOL: Final = {
    "name": "mcp_tick",
    "description": "Tick.",
    "inputSchema": {
        "type": "object",
        "properties": {"token": {"type": "string"}, "ticks": {"type": "integer"}},
        "required": ["token", "ticks"],
    },
}


def main(kind: str, token: str = "", ticks: str = "0", who: str = "{}") -> None:
    if kind == "mcp":
        mcp_server()
    else:
        act(kind, token, int(ticks), type("Who", (), json.loads(who)))


if __name__ == "__main__":
    main(*sys.argv[1:])
