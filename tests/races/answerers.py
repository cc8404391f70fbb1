"""Somebody in a process of their own who answers approvals, each as soon as they are told to."""

import asyncio
import sys

import msgspec

import pullcord
from pullcord import Ack, RunHandle


class Task(msgspec.Struct):
    """One answer to give."""

    run_id: str
    question: str
    how: str


async def answer(run: RunHandle, task: Task, by: str) -> Ack:
    """Give it."""
    match task.how:
        case "approve":
            return await run.approve(task.question, by=by)
        case "edit":
            return await run.edit(task.question, {"amount": 1}, by=by)
        case "deny":
            return await run.deny(task.question, by=by, reason="no")
        case "cancel":
            return await run.cancel(by=by)
        case _:
            return await run.redirect("pay nobody", by=by)


async def main(path: str, by: str) -> None:
    async with pullcord.open(path) as runtime:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            task = msgspec.json.decode(line, type=Task)
            ack = await answer(await runtime.get(task.run_id), task, by)
            print(msgspec.json.encode(ack).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
