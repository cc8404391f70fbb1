"""Agents that work when the test says so, and a world outside that remembers what they did."""

import asyncio
from collections.abc import AsyncGenerator
from inspect import Parameter, Signature
from typing import Any

import pullcord
from pullcord import Call, Context, Retry
from pullcord.runtime.policy import Tool

PLAN = ["Fetch customer list", "Join against MRR table", "Score churn risk", "Write summary memo"]


class Staff:
    """Their tools write to `did`. What the report says in its third step comes from `says`."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.mail_words = ""  # what the mail agent says before it wants to send something
        self.at_it = asyncio.Event()  # the third step has begun to speak
        self.undoing = asyncio.Event()  # a slow undo has begun
        self.undo_may_end = asyncio.Event()
        self._words: asyncio.Queue[str] = asyncio.Queue()

    def says(self, text: str) -> None:
        """Let the agent say this. An empty text ends what it has to say."""
        self._words.put_nowait(text)

    async def report(self, ctx: Context) -> str:
        """A churn report in four steps."""
        async for item in ctx.plan(PLAN):
            match item.title:
                case "Fetch customer list":
                    await ctx.tool(self._fetch_customers, 1204)
                case "Join against MRR table":
                    await ctx.tool(self._create_draft, "Q3 churn")
                    await ctx.tool(self._book_room, "Vega")
                    await ctx.tool(self._tell_the_team, "#churn")
                case "Score churn risk":
                    await ctx.say(self._speech())
                case _:
                    await ctx.say(f"Memo: {item.instruction}.")
        return "the memo is written"

    async def mail(self, ctx: Context) -> Any:
        """Sends one mail, if it may."""
        if self.mail_words:
            await ctx.say(self.mail_words)
        try:
            return await ctx.tool(self._send_email, to="ana@example.org", subject="Your churn")
        except pullcord.NotDone as refused:
            return f"not sent: {refused.why}"

    async def planned_mail(self, ctx: Context) -> None:
        """Sends one mail, if it may, as the first of two steps."""
        async for _ in ctx.plan(["Tell the customer", "Close the case"]):
            await self.mail(ctx)

    async def payer(self, ctx: Context, given: dict[str, Any]) -> Any:
        """Makes one payment, if it may: of whatever it was told."""
        return await ctx.tool(self._pay(list(given)), **given)

    async def asker(self, ctx: Context) -> str:
        """Asks one thing."""
        answer = await ctx.ask("Which region?", details={"known": ["EU", "US"]})
        return await ctx.say(f"So it is {answer}.")

    async def spender(self, ctx: Context) -> int:
        """Does six small things."""
        for number in range(6):
            await ctx.step(f"look at page {number}", self._note, f"page {number}", effect="none")
        return len(self.did)

    async def buyer(self, ctx: Context) -> None:
        """Spends seven cents, and would go on."""
        await ctx.spent(usd=0.07)
        await ctx.step("look at a page", self._note, "page", effect="none")

    async def fails(self, ctx: Context) -> None:
        """Does one thing, and then another that cannot be done."""
        await ctx.tool(self._fetch_customers, 7)
        await ctx.step("divide", self._divide)

    async def slow_undo(self, ctx: Context) -> None:
        """Leaves something behind that takes its time to be taken back."""
        await ctx.tool(self._create_draft, "Q3 churn")
        await ctx.tool(self._rent_a_hall, "Main hall")
        await ctx.ask("Go on?")

    # --- what they do with it ---

    async def _speech(self) -> AsyncGenerator[str]:
        self.at_it.set()
        while text := await self._words.get():
            yield text

    async def _note(self, what: str) -> str:
        self.did.append(what)
        return what

    async def _divide(self) -> float:
        raise ZeroDivisionError("there are no customers to divide by")

    @property
    def _fetch_customers(self) -> Any:
        @pullcord.tool(effect="none")
        async def fetch_customers(rows: int) -> str:
            return f"{rows:,} rows"

        return fetch_customers

    @property
    def _create_draft(self) -> Any:
        async def undo(call: Call) -> None:
            self.did.append(f"removed {call.result}")

        @pullcord.tool(undo=undo)
        async def create_draft(title: str) -> str:
            return await self._note(f"draft {title}")

        return create_draft

    @property
    def _book_room(self) -> Any:
        async def undo(call: Call) -> None:
            raise ConnectionError("the front desk does not answer")

        @pullcord.tool(undo=undo, undo_retry=Retry(attempts=1))
        async def book_room(name: str) -> str:
            return await self._note(f"room {name}")

        return book_room

    @property
    def _rent_a_hall(self) -> Any:
        async def undo(call: Call) -> None:
            self.undoing.set()
            await self.undo_may_end.wait()

        @pullcord.tool(undo=undo)
        async def rent_a_hall(name: str) -> str:
            return await self._note(f"hall {name}")

        return rent_a_hall

    @property
    def _tell_the_team(self) -> Any:
        @pullcord.tool
        async def tell_the_team(channel: str) -> str:
            return await self._note(f"told {channel}")

        return tell_the_team

    def _pay(self, names: list[str]) -> Any:
        async def pay(**given: Any) -> str:
            return await self._note(f"paid {given}")

        taken = [Parameter(name, Parameter.KEYWORD_ONLY) for name in names]
        pay.__signature__ = Signature(taken)  # type: ignore[attr-defined]
        return pullcord.tool(approve="always")(pay)

    @property
    def _send_email(self) -> Tool[..., Any]:
        @pullcord.tool(approve="always")
        async def send_email(to: str, subject: str) -> str:
            return await self._note(f"mail to {to}: {subject}")

        return send_email
