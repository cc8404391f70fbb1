"""tour: a churn report is paused, redirected, resumed and cancelled, in twenty seconds."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import Any, Final

from pullcord.cli.render.run_text import coloured, diff, line, plan_lines, receipt_lines, state, why
from pullcord.core.acks import Ack
from pullcord.core.events import (
    TAGS,
    CancelRequested,
    Event,
    ItemRewritten,
    PauseRequested,
    Record,
    Redirected,
    Resumed,
    StepFinished,
    StepStarted,
    TextEnded,
)
from pullcord.core.run import Run
from pullcord.core.show.words import CUT, clock
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

_BUTTON: Final[dict[type[Event], str]] = {
    PauseRequested: "Pause",
    Redirected: "Redirect",
    Resumed: "Resume",
    CancelRequested: "Cancel",
}


def carry_out(asked: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(Tour(asked.pace).play(os.path.join(folder, "runs.db")))
    return 0


class Tour:
    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._reached: dict[str, asyncio.Event] = {}
        self._is_midline = False
        self._told = 0  # the last record that was told
        self._news = asyncio.Condition()

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
            await self._press(run.pause(by="ana", reason="check the join first"))
            await self._bar(await run.wait_for(RunState.PAUSED))
            await asyncio.sleep(2.5 * self._pace)
            await self._press(run.redirect("Score churn risk, EU only", by="ana"))
            await asyncio.sleep(2.5 * self._pace)
            await self._press(run.resume(by="ana"))
            await self._when("memo")
            await asyncio.sleep(2.5 * self._pace)
            await self._press(run.cancel(by="ana", reason="changed my mind"))
            made = await run.receipt()
            await telling
            await self._bar(await run.snapshot())
            self._say(f"\n{coloured('The receipt', '1')}")
            self._say("\n".join(receipt_lines(made)))
            self._say(f"\n{coloured('The journal', '1')}, each record tied to the one before")
            for record in await runtime.journal.read(run.id):
                self._say(f"  {record.seq:>3}  {_brief(record)}")
        self._say("\nYour own: pullcord run FILE.py:NAME · help: pullcord --help")

    async def _press(self, asking: Awaitable[Ack]) -> None:
        """Told by the record that decided it, so that it stands where it happened."""
        await self._until_told((await asking).seq)

    async def _bar(self, run: Run) -> None:
        """How it is, once all that has led there was told."""
        await self._until_told(run.seq)
        spent = clock(run.times_at(run.steady_ms).working_ms)
        self._say(f"{state(run.state)}{why(run)}   {spent}")
        self._say(f"  {TABLE[run.state].says}")
        done = {step.name for step in run.steps.values() if step.status == "finished"}
        self._say("\n".join(plan_lines(run, done=done)))

    async def _until_told(self, seq: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._told >= seq)

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
                    async with self._news:
                        self._told = item.seq
                        self._news.notify_all()

    def _tell_record(self, record: Record) -> None:
        match record.event:
            case StepStarted(name=name):
                self._say(f"● {name} ...")
                self._reached.setdefault(name, asyncio.Event()).set()
            case StepFinished(result=result):
                self._say(f"✓ {load(result)}")
            case PauseRequested() | Redirected() | Resumed() | CancelRequested() as asked:
                button = coloured(f"{asked.by} presses {_BUTTON[type(asked)]}", "1")
                self._say(f"\n{button} → applied, record {record.seq}")
            case ItemRewritten(before=before, after=after):
                self._say(diff(before, after))
            case TextEnded(complete=False):
                sys.stdout.write(coloured(CUT, "2"))
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
