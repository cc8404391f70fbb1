"""tour: a churn report is paused, redirected, resumed and cancelled, in twenty seconds."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from pullcord.cli.words import clock, coloured, diff, line, plan_lines, receipt_lines, state, why
from pullcord.core.events import TAGS, ItemRewritten, Record, StepFinished, StepStarted, TextEnded
from pullcord.core.run import Run
from pullcord.core.states import TABLE, RunState
from pullcord.core.values import load
from pullcord.journal.store import LiveText
from pullcord.runtime.context import Context
from pullcord.runtime.handle import RunHandle
from pullcord.runtime.opening import open_runtime

PLAN = ("Fetch customer list", "Join MRR table", "Score churn risk", "Write memo")
MEMO = (
    "Three EU customers are at risk this quarter. Northwind cut its seats by half in May and has "
    "not opened a ticket since. Contoso's contract ends in six weeks, and its champion has left. "
    "Fabrikam pays late for the third month running. I suggest calling Contoso first, because "
    "the renewal is the largest, and because a conversation can still change the outcome there."
)


def carry_out(asked: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_Tour(asked.pace).play(os.path.join(folder, "runs.db")))
    return 0


class _Tour:
    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._reached: dict[str, asyncio.Event] = {}
        self._is_midline = False

    # --- the agent: plain Python, with a plan that people can see and rewrite ---

    async def churn(self, ctx: Context) -> str:
        async for item in ctx.plan(PLAN):
            if item.title == PLAN[-1]:
                return await ctx.say(self._memo())
            await ctx.step(item.title, self._work, item.title, item.instruction, effect="none")
        return ""

    async def _work(self, title: str, instruction: str) -> str:
        await asyncio.sleep(2.2 * self._pace)
        found = {PLAN[0]: "1,204 customers", PLAN[1]: "1,198 matched, 6 without revenue"}
        return found.get(title, f"3 at risk ({instruction})")

    async def _memo(self) -> AsyncIterator[str]:
        for word in MEMO.split(" "):
            yield word + " "
            await asyncio.sleep(0.08 * self._pace)

    # --- the people ---

    async def play(self, path: str) -> None:
        self._say("An agent writes a churn report in four steps. You can stop it in three ways.\n")
        async with open_runtime(path, agents={"churn": self.churn}) as runtime:
            run = await runtime.start("churn", run_id="churn-1")
            telling = asyncio.create_task(self._tell(run))
            await self._when(PLAN[1])
            await asyncio.sleep(0.8 * self._pace)
            await self._press("Pause", run.pause(by="ana", reason="check the join first"))
            await self._bar(await run.reached(RunState.PAUSED))
            await asyncio.sleep(2.5 * self._pace)
            await self._press("Redirect", run.redirect("Score churn risk, EU only", by="ana"))
            await asyncio.sleep(2.5 * self._pace)
            await self._press("Resume", run.resume(by="ana"))
            await self._when("memo")
            await asyncio.sleep(2.5 * self._pace)
            await self._press("Cancel", run.cancel(by="ana", reason="changed my mind"))
            made = await run.receipt()
            await telling
            await self._bar(await run.look())
            self._say(f"\n{coloured('The receipt', '1')}")
            self._say("\n".join(receipt_lines(made)))
            self._say(f"\n{coloured('The journal', '1')}, each record tied to the one before")
            for record in await runtime.journal.read(run.id):
                self._say(f"  {record.seq:>3}  {_brief(record)}")
        self._say("\nYour own: pullcord run FILE.py:NAME · help: pullcord --help")

    async def _press(self, button: str, asking: Any) -> None:
        ack = await asking
        self._end_line()
        self._say(f"\n{coloured(f'ana presses {button}', '1')} → {ack.verdict}, record {ack.seq}")

    async def _bar(self, run: Run) -> None:
        spent = clock(run.times_at(run.steady_ms).working_ms)
        self._say(f"{state(run.state)}{why(run)}   {spent}")
        self._say(f"  {TABLE[run.state].says}")
        self._say("\n".join(plan_lines(run)))

    async def _when(self, what: str) -> None:
        await self._reached.setdefault(what, asyncio.Event()).wait()

    # --- the telling ---

    async def _tell(self, run: RunHandle) -> None:
        async with aclosing(run.events()) as events:
            async for _, item in events:
                if isinstance(item, LiveText):
                    self._is_midline = True
                    sys.stdout.write(item.text)
                    sys.stdout.flush()
                    self._reached.setdefault("memo", asyncio.Event()).set()
                else:
                    self._tell_record(item)

    def _tell_record(self, record: Record) -> None:
        match record.event:
            case StepStarted(name=name):
                self._say(f"● {name} ...")
                self._reached.setdefault(name, asyncio.Event()).set()
            case StepFinished(result=result):
                self._say(f"✓ {load(result)}")
            case ItemRewritten(before=before, after=after):
                self._say(diff(before, after))
            case TextEnded(complete=False):
                sys.stdout.write(coloured("■ cut here", "2"))
                self._is_midline = True
                self._end_line()
            case _:
                pass

    def _say(self, text: str) -> None:
        self._end_line()
        print(text, flush=True)

    def _end_line(self) -> None:
        if self._is_midline:
            print(flush=True)
        self._is_midline = False


def _brief(record: Record) -> str:
    event: Any = record.event
    named = getattr(event, "name", "") or getattr(event, "text", "") or getattr(event, "after", "")
    who = getattr(event, "by", "")
    tail = f" · {line(named, 50)}" if named else f" · {who}" if who else ""
    return f"{TAGS[type(event)].replace('_', ' ')}{tail}"
