"""A worker process for `demo.py`: takes the run, carries out the steps that are left, obeys."""

import asyncio
import sys

from pullcord import Claim, Journal, Ownership, RunState
from pullcord.core.events import (
    Cancelled,
    Completed,
    InstructionSettled,
    Paused,
    StepFinished,
    StepInDoubt,
    StepStarted,
)
from pullcord.core.values import dump

PLAN = ("fetch customer list", "join MRR table", "score churn risk", "write memo")


async def work(journal: Journal, claim: Claim) -> None:
    mine = Ownership(journal, claim)
    for step in mine.run.open_steps():  # begun by a process that died: nobody knows
        print(f"    {step} began before the crash: in doubt, not repeated", flush=True)
        await mine.record(StepInDoubt(step=step))
    for step in (name.replace(" ", "-") for name in PLAN):
        if step in mine.run.steps:
            continue
        await mine.catch_up()
        for number, told in list(mine.run.instructions.items()):
            if told.status == "queued":
                print(f"    heard: {told.text}", flush=True)
                await mine.record(InstructionSettled(instruction=number, outcome="delivered"))
        if not await mine.record(StepStarted(step=step, name=step)):
            break  # a control came first: the step must not start
        print(f"    {step} ...", flush=True)
        await asyncio.sleep(0.4)
        await mine.record(StepFinished(step=step, result=dump(f"{step}: done")))
    await mine.catch_up()
    rest = {RunState.PAUSING: Paused(), RunState.CANCELLING: Cancelled()}
    await mine.record(rest.get(mine.run.state, Completed()), release=True)
    print(f"    worker leaves the run {mine.run.state}", flush=True)


async def main(store: str, owner: str) -> None:
    async with Journal.open(store) as journal:
        claim = await journal.acquire("churn-1", owner=owner, ttl_s=0.3)
        if claim is not None:
            await work(journal, claim)


asyncio.run(main(*sys.argv[1:]))
