"""A run in the hands of whoever started it or found it: look, wait, and pull the cord."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypedDict, Unpack

from pullcord.core.acks import Ack
from pullcord.core.commands import (
    Answer,
    Approve,
    Cancel,
    Command,
    Deny,
    Edit,
    Forget,
    Pause,
    Raise,
    Redirect,
    Rename,
    Resume,
    Settle,
    Signal,
    Source,
    Undo,
)
from pullcord.core.conditions import Used
from pullcord.core.events import Record
from pullcord.core.fold import ends, evolve
from pullcord.core.limits import Then, check_counts
from pullcord.core.receipts import Receipt
from pullcord.core.run import Run
from pullcord.core.states import TERMINAL, RunState
from pullcord.core.undo import is_anything_left_to_undo
from pullcord.core.values import check_text, dump
from pullcord.errors import NotReached
from pullcord.journal.journal import Journal
from pullcord.journal.stored_runs.run_records import START, Cursor, Item
from pullcord.runtime.agents import Result
from pullcord.runtime.driving.left_behind import name_if_stopped
from pullcord.runtime.run_result import result_of
from pullcord.runtime.starting_limits import Given

_AT_REST = (*TERMINAL, RunState.PAUSED)


class Signed(TypedDict, total=False):
    """Who asks, why and by which way: the same words for every control."""

    by: str
    reason: str
    source: Source
    via: str
    key: str | None
    seen_seq: int | None


class Forks(Protocol):
    async def fork(
        self,
        run_id: str,
        *,
        by: str,
        at: int | None = None,
        instruction: str | None = None,
        aside: str | None = None,
        limits: Given = None,
        on_exhausted: Then | None = None,
    ) -> "RunHandle": ...

    async def let_go(self, run_id: str) -> None:
        """Wait until this process does not drive the run, if it does."""
        ...


class RunHandle(Generic[Result]):
    """One run, and what its agent returns. Every control returns when it is durable, with an `Ack`
    that names the winner."""

    def __init__(self, run_id: str, journal: Journal, forks: Forks) -> None:
        self.id = run_id
        self._journal = journal
        self._forks = forks

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    # --- pull the cord ---

    async def pause(self, *, now: bool = False, **who: Unpack[Signed]) -> Ack:
        """I am coming back: nothing new starts, what is under way finishes, everything is kept."""
        return await ask(self, Pause(now=now, **_by(who)))

    async def resume(self, instruction: str | None = None, **who: Unpack[Signed]) -> Ack:
        """Go on from here, optionally with something new to know."""
        return await ask(self, Resume(instruction=instruction, **_by(who)))

    async def redirect(self, instruction: str, **who: Unpack[Signed]) -> Ack:
        """I have new information: it rewrites what comes next, and is handed over once."""
        return await ask(self, Redirect(instruction=instruction, **_by(who)))

    async def answer(self, question: str, value: Any = None, **who: Unpack[Signed]) -> Ack:
        """Answer an open question. Of several answers the first counts."""
        return await ask(self, Answer(question=question, value=dump(value), **_by(who)))

    async def approve(self, question: str, *, call: str = "", **who: Unpack[Signed]) -> Ack:
        """Allow the call that an approval asks about, and no other. `call`: the digest that was
        shown."""
        return await ask(self, Approve(question=question, call=call, **_by(who)))

    async def edit(
        self, question: str, args: Mapping[str, Any], *, call: str = "", **who: Unpack[Signed]
    ) -> Ack:
        """Put these arguments in place of those that an approval asks about. Nothing is allowed by
        it: the run asks anew, about the call as it is now. `call`: the digest that was shown."""
        edited = Edit(question=question, call=call, args=dump(args), **_by(who))
        return await ask(self, edited)

    async def deny(self, question: str, **who: Unpack[Signed]) -> Ack:
        """Do not allow it. The reason is what the agent is told."""
        return await ask(self, Deny(question=question, **_by(who)))

    async def cancel(
        self,
        *,
        now: bool = False,
        undo: bool = True,
        back_to: str = "",
        keep_partial: bool = True,
        quarantine: bool = False,
        **who: Unpack[Signed],
    ) -> Ack:
        """Stop, keep what you have. Nothing starts after this, ever. What can be undone is undone,
        newest first, down to the step `back_to`, which is kept."""
        stop = Cancel(
            now=now,
            undo=undo,
            back_to=back_to,
            keep_partial=keep_partial,
            quarantine=quarantine,
            **_by(who),
        )
        return await ask(self, stop)

    async def undo(self, step: str = "", *, back_to: str = "", **who: Unpack[Signed]) -> Ack:
        """Have what a cancelled or failed run has left behind undone, or try that again: all of
        it, one step, or what was done after the step `back_to`. A process that knows its agent
        does it."""
        return await ask(self, Undo(step=step, back_to=back_to, **_by(who)))

    async def settle(self, item: str, **who: Unpack[Signed]) -> Ack:
        """I have dealt with this attention item."""
        return await ask(self, Settle(item=item, **_by(who)))

    async def raise_limits(self, caps: Mapping[str, float], **who: Unpack[Signed]) -> Ack:
        """It may use more: `{"steps": 80}`; also `tool_calls`, `tokens`, `usd`, `working_s`, as its
        limits have them. A run that was paused because it had reached one of them goes on."""
        return await ask(self, Raise(caps=check_counts(caps), **_by(who)))

    async def signal(self, name: str, **who: Unpack[Signed]) -> Ack:
        """What `External(name)` among its limits waits for has happened."""
        return await ask(self, Signal(name=name, **_by(who)))

    async def rename(self, title: str, **who: Unpack[Signed]) -> Ack:
        """Give it a title, by which people tell it from others; also after it has ended."""
        return await ask(self, Rename(title=title, **_by(who)))

    async def forget(self, *, drop_thread_name: bool = False, **who: Unpack[Signed]) -> Ack:
        """Delete what was said and done in it, now that it has ended and nobody needs it; its
        children are runs of their own (`Runtime.forget` has them too). That it ran is kept."""
        asked = Forget(drop_thread_name=drop_thread_name, **_by(who))
        ack = await self._journal.retention.forget(self.id, asked)
        if ack.holds:
            await self._journal.retention.scrub()
        return ack

    async def used(self) -> Used:
        """Return what it, and everybody who works for it, has used of its limits."""
        return await self._journal.families.used(self.id)

    # --- look and wait ---

    async def snapshot(self) -> Run:
        """Return the run as it is now."""
        return await self._journal.load(self.id)

    async def events(self, *, after: Cursor = START) -> AsyncGenerator[Item]:
        """Yield everything after `after`, then what happens, until the run has ended. No gap, no
        duplicate. Of a quarantined run, what it said and found is left out."""
        run = await self.snapshot()
        if run.ended and after.seq >= run.state_seq:
            return
        async with aclosing(self._journal.changes.follow(self.id, after=after)) as following:
            async for items, _ in following:
                for cursor, item in items:
                    yield cursor, item
                    if isinstance(item, Record) and ends(item.event):
                        return

    async def wait_for(self, *states: RunState) -> Run:
        """Wait until the run is in one of these states and return it as it was then.

        Raises:
            NotReached: it has ended in another.
        """
        run = await self.snapshot()
        if run.state in states:
            return run
        async with aclosing(
            self._journal.changes.subscribe(self.id, after=Cursor(run.seq))
        ) as stream:
            while not run.ended:
                _, item = await anext(stream)
                if isinstance(item, Record):
                    evolve(run, item)
                    if run.state in states:
                        return run
        raise NotReached(self.id, wanted=" or ".join(states), state=run.state)

    async def receipt(self) -> Receipt:
        """Wait until a stop is in effect, or the run has ended, and whatever of it was to be undone
        is; return what it left behind."""
        run = await self.wait_for(*_AT_REST)
        if run.ended and is_anything_left_to_undo(run):
            async with aclosing(
                self._journal.changes.subscribe(self.id, after=Cursor(run.seq))
            ) as stream:
                while is_anything_left_to_undo(run):
                    _, item = await anext(stream)
                    if isinstance(item, Record):
                        evolve(run, item)
        return await self._journal.for_people(lambda look: look.receipt(self.id))

    async def result(self) -> Result:
        """Wait until the run has ended and return what the agent returned.

        Raises:
            RunFailed, RunCancelled, RunStopped: there is no result.
        """
        run = await self.snapshot()
        async with aclosing(
            self._journal.changes.subscribe(self.id, after=Cursor(run.seq))
        ) as stream:
            while not run.ended:
                await self._forks.let_go(self.id)  # as long as this process drives it, it tells
                _, item = await anext(stream)
                if isinstance(item, Record):
                    evolve(run, item)
        return await result_of(self._journal, self.id)

    # --- go on from what it has done ---

    async def fork(
        self,
        *,
        at: int | None = None,
        instruction: str | None = None,
        by: str = "program",
        limits: Given = None,
        on_exhausted: Then | None = None,
    ) -> "RunHandle[Result]":
        """Start a new run that finds everything answered which this one had finished up to record
        `at` (default: all of it). This one is not touched. What it has used of its limits counts
        for the new one, which has the same, or those it is given."""
        return await self._forks.fork(
            self.id,
            at=at,
            instruction=instruction,
            by=by,
            limits=limits,
            on_exhausted=on_exhausted,
        )

    async def ask_aside(self, question: str, *, by: str = "program") -> "RunHandle":
        """Ask about this run without disturbing it: a run of its own answers from a copy of what
        is known so far, and does nothing else. For agents that talk to a model.

        This run is not touched: if it was paused it still is, and resume goes on where it was.
        """
        check_text(question, field="question", empty=False)
        return await self._forks.fork(self.id, aside=question, by=by)

    async def try_again(self, *, by: str = "program") -> "RunHandle[Result]":
        """Try a failed run again: what it had finished is not repeated, what failed is."""
        run = await self.snapshot()
        if run.state is not RunState.FAILED:
            raise NotReached(self.id, wanted=RunState.FAILED, state=run.state)
        return await self.fork(by=by)


async def ask(run: RunHandle, command: Command) -> Ack:
    """Have any control decided. Of a stop: what goes on in this process all the same is named."""
    ack = await run._journal.command(run.id, command)  # pyright: ignore[reportPrivateUsage]
    if isinstance(command, Pause | Cancel):
        await name_if_stopped(run._journal, run.id)  # pyright: ignore[reportPrivateUsage]
    return ack


def _by(who: Signed) -> Any:
    return {"by": "program", **who}
