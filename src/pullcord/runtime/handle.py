"""A handle of one run: follow it, wait for it, and control it."""

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
    """The signature of a control: who asks, why, and how the request came."""

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
        """Wait until this process does not drive the run."""
        ...


class RunHandle(Generic[Result]):
    """One run, whose agent returns a `Result`.

    Every control returns an `Ack` as soon as its record is durable. The `Ack` names the record that
    decided.
    """

    def __init__(self, run_id: str, journal: Journal, forks: Forks) -> None:
        self.id = run_id
        self._journal = journal
        self._forks = forks

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    # --- pull the cord ---

    async def pause(self, *, now: bool = False, **who: Unpack[Signed]) -> Ack:
        """Pause the run: nothing new starts, work under way finishes, everything is kept."""
        return await ask(self, Pause(now=now, **_by(who)))

    async def resume(self, instruction: str | None = None, **who: Unpack[Signed]) -> Ack:
        """Resume the run, optionally with an instruction."""
        return await ask(self, Resume(instruction=instruction, **_by(who)))

    async def redirect(self, instruction: str, **who: Unpack[Signed]) -> Ack:
        """Give the agent an instruction: it changes the next work, and is delivered once."""
        return await ask(self, Redirect(instruction=instruction, **_by(who)))

    async def answer(self, question: str, value: Any = None, **who: Unpack[Signed]) -> Ack:
        """Answer an open question. Of several answers the first counts."""
        return await ask(self, Answer(question=question, value=dump(value), **_by(who)))

    async def approve(self, question: str, *, call: str = "", **who: Unpack[Signed]) -> Ack:
        """Allow the call that an approval asks about, and no other. `call`: the shown digest."""
        return await ask(self, Approve(question=question, call=call, **_by(who)))

    async def edit(
        self, question: str, args: Mapping[str, Any], *, call: str = "", **who: Unpack[Signed]
    ) -> Ack:
        """Replace the arguments of the call that an approval asks about.

        This allows nothing: the run asks again, about the call with these arguments. `call`: the
        shown digest.
        """
        edited = Edit(question=question, call=call, args=dump(args), **_by(who))
        return await ask(self, edited)

    async def deny(self, question: str, **who: Unpack[Signed]) -> Ack:
        """Refuse the call that an approval asks about. The agent is told the reason."""
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
        """Cancel the run and keep what is done. Nothing starts after this, ever.

        Pullcord undoes the effects that can be undone, newest first, down to the step `back_to`.
        That step itself is kept.
        """
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
        """Undo the effects of a cancelled or failed run, or try that again.

        That means all of them, one step, or all steps after `back_to`. A process that knows the
        agent does it.
        """
        return await ask(self, Undo(step=step, back_to=back_to, **_by(who)))

    async def settle(self, item: str, **who: Unpack[Signed]) -> Ack:
        """Mark an attention item as dealt with."""
        return await ask(self, Settle(item=item, **_by(who)))

    async def raise_limits(self, caps: Mapping[str, float], **who: Unpack[Signed]) -> Ack:
        """Raise limits of the run: `steps`, `tool_calls`, `tokens`, `usd`, `working_s`.

        `{"steps": 80}` raises one. A run that was paused at a limit goes on.
        """
        return await ask(self, Raise(caps=check_counts(caps), **_by(who)))

    async def signal(self, name: str, **who: Unpack[Signed]) -> Ack:
        """Report the event that `External(name)` among the run's limits waits for."""
        return await ask(self, Signal(name=name, **_by(who)))

    async def rename(self, title: str, **who: Unpack[Signed]) -> Ack:
        """Give the run a title, by which people tell it from others. It may have ended."""
        return await ask(self, Rename(title=title, **_by(who)))

    async def forget(self, *, drop_thread_name: bool = False, **who: Unpack[Signed]) -> Ack:
        """Delete the content of an ended run, and keep the fact that it ran.

        Its children are runs of their own; `Runtime.forget` includes them.
        """
        asked = Forget(drop_thread_name=drop_thread_name, **_by(who))
        ack = await self._journal.retention.forget(self.id, asked)
        if ack.holds:
            await self._journal.retention.scrub()
        return ack

    async def used(self) -> Used:
        """Return how much of its limits this run and its children have used."""
        return await self._journal.families.used(self.id)

    # --- look and wait ---

    async def snapshot(self) -> Run:
        """Return the run as it is now."""
        return await self._journal.load(self.id)

    async def events(self, *, after: Cursor = START) -> AsyncGenerator[Item]:
        """Yield every record and live text after `after`, until the run has ended.

        There is no gap and no duplicate. For a quarantined run the content is left out.
        """
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
        """Wait until the run is in one of these states, and return it as it was then.

        Raises:
            NotReached: it has ended in another state.
        """
        run = await self.snapshot()
        await self._journal.changes.until(run, lambda run: run.ended or run.state in states)
        if run.state not in states:
            raise NotReached(self.id, wanted=" or ".join(states), state=run.state)
        return run

    async def receipt(self) -> Receipt:
        """Wait for a stop or an end, and for its undos; return the account of it."""
        run = await self.wait_for(*_AT_REST)
        if run.ended:
            await self._journal.changes.until(run, lambda run: not is_anything_left_to_undo(run))
        return await self._journal.for_people(lambda look: look.receipt(self.id))

    async def result(self) -> Result:
        """Wait until the run has ended, and return its agent's result.

        Raises:
            RunFailed, RunCancelled, RunStopped: there is no result.
        """
        run = await self.snapshot()
        async with aclosing(
            self._journal.changes.subscribe(self.id, after=Cursor(run.seq))
        ) as stream:
            while not run.ended:
                await self._forks.let_go(self.id)  # while this process drives the run
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
        """Start a new run in which the steps that this one finished are answered.

        These are the steps up to record `at`; the default is all of them.

        This run is not changed. Its usage counts against the new run's limits. These are the same,
        unless the caller gives others.
        """
        return await self._forks.fork(
            self.id,
            at=at,
            instruction=instruction,
            by=by,
            limits=limits,
            on_exhausted=on_exhausted,
        )

    async def ask_aside(self, question: str, *, by: str = "program") -> "RunHandle":
        """Ask about this run: a run of its own answers from a copy of the conversation so far.

        That run does nothing else. It works for agents that talk to a model. This run is not
        changed: a paused run stays paused, and resume goes on where it was.
        """
        check_text(question, field="question", empty=False)
        return await self._forks.fork(self.id, aside=question, by=by)

    async def try_again(self, *, by: str = "program") -> "RunHandle[Result]":
        """Try a failed run again: finished steps are not repeated, the failed step is."""
        run = await self.snapshot()
        if run.state is not RunState.FAILED:
            raise NotReached(self.id, wanted=RunState.FAILED, state=run.state)
        return await self.fork(by=by)


async def ask(run: RunHandle, command: Command) -> Ack:
    """Send any control. After a stop, name the work that still goes on in this process."""
    ack = await run._journal.command(run.id, command)  # pyright: ignore[reportPrivateUsage]
    if isinstance(command, Pause | Cancel):
        await name_if_stopped(run._journal, run.id)  # pyright: ignore[reportPrivateUsage]
    return ack


def _by(who: Signed) -> Any:
    return {"by": "program", **who}
