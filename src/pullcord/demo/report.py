"""The churn report: an agent that is plain code, with a plan of four items.

What somebody says while it works rewrites the next item; what is said when no item is left is
carried out as a revision. The figures are computed, the money is made up.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import pullcord
from pullcord.demo.focus import Focus
from pullcord.demo.memo import CHANNEL, TO, headline, memo, subject_of
from pullcord.demo.speech import PRICE, WORD_S, spoken, tokens
from pullcord.demo.tools import (
    create_draft,
    fetch_customers,
    join_mrr,
    post_to_channel,
    score_churn,
    send_memo,
)
from pullcord.runtime.doors.thread_history import Turn

QUESTION: Final = "Which customers are about to leave?"
FETCH, JOIN, SCORE, WRITE = (
    "Fetch customer list",
    "Join against MRR table",
    "Score churn risk",
    "Write summary memo",
)


async def churn_report(ctx: pullcord.Context, question: str = QUESTION) -> dict[str, Any]:
    """Writes a churn report by a plan of four steps, in plain code."""
    report = Report(ctx, await ctx.history(), question)
    async for item in ctx.plan([FETCH, JOIN, SCORE, WRITE]):
        await report.hears(*item.told)
        await report.carries_out(item.title)
    while told := await ctx.instructions():
        async for item in ctx.plan([f"Revise the memo: {told[-1][:80]}"]):
            await report.hears(*told, *item.told)
            await report.carries_out(WRITE)
    return report.result


class Report:
    """One report in the making."""

    def __init__(self, ctx: pullcord.Context, before: list[Turn], question: str) -> None:
        self._ctx = ctx
        self._before = before
        self._focus = _focus_of(before).told(question)
        self._memos: list[str] = []  # what became of each

    @property
    def result(self) -> dict[str, Any]:
        return {
            "region": self._focus.region,
            "at_risk": [one.name for one in self._focus.at_risk],
            "memos": self._memos,
        }

    async def hears(self, *words: str) -> None:
        """Take in what people said, and say what was understood of it."""
        for said in words:
            reply, self._focus = self._focus.reply_to(said), self._focus.told(said)
            await self._say(reply)

    async def carries_out(self, title: str) -> None:
        work = {FETCH: self._fetch, JOIN: self._join, SCORE: self._score, WRITE: self._write}
        await work[title]()

    async def _fetch(self) -> None:
        for turn in self._before[-1:]:
            await self._say(f"This thread has a report already, which was {turn.state}. I go on.")
        listed = await self._ctx.tool(fetch_customers, self._focus.region)
        rows = [line.split(", ") for line in listed.splitlines()[2:]]
        quiet = [name for name, *_, days in rows if int(days) > 28]
        await self._say(
            f"{len(rows)} customers. {len(quiet)} of them have not logged in for four weeks: "
            f"{', '.join(quiet)}."
        )

    async def _join(self) -> None:
        joined = await self._ctx.tool(join_mrr, self._focus.region)
        await self._say(f"{joined.partition(';')[0]}.")

    async def _score(self) -> None:
        scored = await self._ctx.tool(score_churn, self._focus.region)
        if not scored.ok:
            raise RuntimeError(f"scoring ended with status {scored.status}: {scored.stderr}")
        line = headline(self._focus)
        await self._say(line)
        if _was_posted(self._before, line):
            await self._say(f"That is in {CHANNEL} already; I do not post it again.")
        else:
            await self._ctx.tool(post_to_channel, CHANNEL, line)

    async def _write(self) -> None:
        text = await self._say(memo(self._focus))
        subject = subject_of(self._focus)
        await self._ctx.tool(create_draft, subject, text)
        try:
            sent = await self._ctx.tool(send_memo, TO, subject)
        except pullcord.NotDone as told:
            self._memos.append(f"not sent: {told.why}")
            await self._say(f"I did not send it: {told.why}. The draft is kept.")
        else:
            self._memos.append(sent)
            await self._say(f"The memo was {sent}.")

    async def _say(self, text: str) -> str:
        """Say it at reading speed. A model would have to be paid for that, so this one is."""

        async def words() -> AsyncIterator[str]:
            for word in spoken(text):
                await self._ctx.deps.takes(WORD_S)
                yield word

        said = await self._ctx.say(words())
        read, written = 2_000 + tokens(text), tokens(text)
        usd = PRICE.micros(read, written) / 1_000_000
        await self._ctx.spent(usd=usd, tokens_in=read, tokens_out=written)
        return said


def _focus_of(before: list[Turn]) -> Focus:
    """Where the last report on this thread has left it."""
    for turn in reversed(before):
        match turn.result:
            case {"region": str(region)}:
                return Focus().told(region)
            case _:
                pass
    return Focus()


def _was_posted(before: list[Turn], line: str) -> bool:
    """Whether an earlier report on this thread has said so, and posted what it said."""
    return any(
        any(name == "post_to_channel" for name, _ in turn.done)
        and any(said.text == line for said in turn.said)
        for turn in before
    )
