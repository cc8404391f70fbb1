"""`make demo`: a report is paused, redirected, resumed, killed -9, taken over and cancelled."""

import asyncio
import sys
import tempfile
from contextlib import aclosing
from pathlib import Path

from pullcord import Append, Cancel, Command, Journal, Pause, Redirect, Resume, RunState, receipt
from pullcord.core.events import Created, Event, Paused, Record, StepStarted

WORKER = Path(__file__).with_name("churn_worker.py")


async def until(journal: Journal, kind: type[Event], step: str = "") -> None:
    async with aclosing(journal.subscribe("churn-1")) as stream:
        async for _, item in stream:
            event = item.event if isinstance(item, Record) else None
            if isinstance(event, kind) and getattr(event, "step", "") == step:
                return


async def main(store: Path) -> None:
    async with Journal.open(store) as journal:

        async def press(command: Command) -> None:
            ack = await journal.command("churn-1", command)
            why = f" ({command.reason})" if command.reason else ""
            print(f"{command.by} presses {command.verb}{why} → {ack.verdict}, record {ack.seq}")

        async def worker(name: str) -> asyncio.subprocess.Process:
            print(f"{name} starts")
            return await asyncio.create_subprocess_exec(sys.executable, WORKER, store, name)

        born = Created(agent="churn-report", thread="t1")
        await journal.append(Append(run_id="churn-1", events=[born], expected_seq=0))
        first = await worker("worker-1")
        await until(journal, StepStarted, "join-MRR-table")
        await press(Pause(by="ana", reason="wrong month?"))
        await until(journal, Paused)
        await first.wait()
        await press(Redirect(by="ana", instruction="use May, not April"))
        await press(Resume(by="ana"))
        second = await worker("worker-2")
        await until(journal, StepStarted, "score-churn-risk")
        second.kill()
        await second.wait()
        print("worker-2 is killed with -9, in the middle of a step")
        await asyncio.sleep(0.4)  # its lease lapses
        third = await worker("worker-3")
        await until(journal, StepStarted, "write-memo")
        await press(Cancel(by="bo", reason="too expensive"))
        await third.wait()
        await press(Pause(by="ana"))
        run = await journal.load("churn-1")
        made = receipt(run)
        print(f"\nreceipt: {made.state}, asked by {made.by} ({made.reason})")
        print(f"  done: {', '.join(made.done)}")
        print(f"  in doubt: {', '.join(made.in_doubt)}")
        print(f"\njournal: {run.seq} records, each tied to the one before")
        for record in await journal.read("churn-1"):
            print(f"  {record.seq:>2} epoch {record.epoch}  {type(record.event).__name__}")
        assert run.state is RunState.CANCELLED


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder) / "runs.db"))
