"""A campaign of interrupts against one line: which, when, and what must be true afterwards."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from pullcord import RunHandle, RunState
from pullcord.core.acks import Ack
from pullcord.core.events import CancelRequested, PauseRequested, StepFailed, StepStarted, TextEnded
from tests.agents.line import Line
from tests.agents.provider.reply import Reply, rate_limited, say, server_error
from tests.agents.provider.seen import Seen
from tests.runs.observed_runs import seen

Phase: TypeAlias = Literal[
    "at once", "begun", "some turns later", "no headers", "headers only", "between chunks",
    "inside a character", "stalled", "flooding", "back-off",
]  # fmt: skip
Control: TypeAlias = Literal[
    "cancel", "cancel now", "cancel twice", "redirect", "redirect twice", "pause now",
    "pause twice", "pause then cancel",
]  # fmt: skip
PHASES: Sequence[Phase] = get_args(Phase)
CONTROLS: Sequence[Control] = get_args(Control)
HELD: Sequence[Phase] = ("no headers", "headers only", "between chunks", "inside a character",
                         "stalled", "flooding")  # fmt: skip
WIDE = "Grüße, 世界 — 🚂 fährt ab. "
LONG, SHORT = WIDE * 60, WIDE * 40


@dataclass
class Tally:
    """What a campaign has seen."""

    done: int = 0
    missed: int = 0  # the answer was complete before the control was recorded, and says so
    cut: int = 0
    closed_s: list[float] = field(default_factory=list[float])  # acknowledged → closed
    late_requests_s: list[float] = field(default_factory=list[float])  # begun before, seen after
    beyond: int = 0  # characters of a redirected answer shown after the acknowledgement

    def __str__(self) -> str:
        took = sorted(self.closed_s)

        def at(share: float) -> str:
            return f"{1000 * took[min(int(share * len(took)), len(took) - 1)]:.2f}"

        spread = f"p50 {at(0.5)}, p99 {at(0.99)}, max {at(1)} ms" if took else "none"
        late = [f"{1000 * one:.1f}" for one in sorted(self.late_requests_s)]
        return (
            f"{self.done} interrupts ({self.missed} after the end), {self.cut} of them of a "
            f"request under way; acknowledged → closed: {spread}; requests under way that arrived "
            f"after the acknowledgement: {len(late)} {late[-3:]} ms; shown after a redirect: "
            f"{self.beyond} characters"
        )


@dataclass(frozen=True)
class Blow:
    """One interrupt: of an answer in this phase, with this control."""

    phase: Phase
    control: Control
    number: int  # of turns, or of chunks

    @classmethod
    def drawn(cls, chance: random.Random) -> "Blow":
        return cls(chance.choice(PHASES), chance.choice(CONTROLS), chance.randrange(1, 40))

    @property
    def reply(self) -> Reply:
        match self.phase:
            case "no headers":
                return say(LONG, stall_before_headers=True)
            case "headers only":
                return say(LONG, stall_after=0)
            case "between chunks":
                return say(LONG, chunk_delay_s=0.005, cut_utf8=self.number % 2 == 0)
            case "inside a character":
                return say(LONG, stall_after=self.number, stall_inside=True, chunk_chars=5)
            case "stalled":
                return say(LONG, stall_after=self.number)
            case "flooding":
                return say(LONG * 1000, chunk_chars=400)
            case "back-off":
                asked_s = 0 if self.control.startswith("pause") else 30
                return server_error() if self.number % 2 else rate_limited(asked_s)
            case _ if "cancel" in self.control:
                return say(LONG, chunk_delay_s=0.002, stall_after=self.number)
            case _:
                return say(SHORT, chunk_delay_s=0.002)

    async def wait_for_it(self, here: Line, run: RunHandle, at: int) -> None:
        """Wait until the run, whose first request is the `at`-th, is where it is to be hit."""
        match self.phase:
            case "at once":
                pass
            case "begun":
                await seen(run, StepStarted)
            case "some turns later":
                await seen(run, StepStarted)
                for _ in range(self.number * 5):
                    await asyncio.sleep(0)
            case "between chunks" | "flooding":
                await here.provider.async_wait_chunks(at, self.number)
            case "back-off":
                await seen(run, StepFailed)
                for _ in range(self.number):
                    await asyncio.sleep(0)
            case _:
                await here.provider.async_wait_stalled(at)


async def strike(here: Line, blow: Blow, tally: Tally, thread: str) -> None:
    """Carry one interrupt out, and check everything that it promises."""
    provider = here.provider
    at = len(provider.seen)
    provider.script = [blow.reply, say("Fine.")]
    run = await here.start("go", thread=thread)
    await blow.wait_for_it(here, run, at)
    try:
        if blow.control.startswith("redirect"):
            await _redirected(here, blow, run, tally, at)
        else:
            await _stopped(here, blow, run, tally, at)
    except TooLate:
        assert blow.phase not in HELD
        assert (await run.snapshot()).state is RunState.COMPLETED
        tally.missed += 1
    tally.done += 1
    await here.is_quiet()
    assert provider.violations == []


class TooLate(Exception):
    """The run had ended by itself."""


def _check(ack: Ack) -> None:
    if ack.verdict == "too_late":
        raise TooLate
    assert ack.holds, ack


async def _stopped(here: Line, blow: Blow, run: RunHandle, tally: Tally, at: int) -> None:
    if blow.control in ("pause twice", "pause then cancel"):
        _check(await run.pause(by="ana"))
    is_pause = blow.control in ("pause now", "pause twice")
    now = blow.control == "cancel now"
    ack = await (run.pause(now=True, by="ana") if is_pause else run.cancel(now=now, by="ana"))
    acked_at = time.monotonic()
    _check(ack)
    if blow.control == "cancel twice":
        assert (await run.cancel(now=True, by="ana")).holds
    shown = await here.shown(run) or await _text(here, run)  # it may have been closed by now
    receipt = await run.receipt()
    assert receipt.state is (RunState.PAUSED if is_pause else RunState.CANCELLED)
    assert receipt.attention == (), receipt
    asked = len(here.provider.seen)
    await _was_closed(here, blow, tally, at, acked_at)
    await _nothing_was_begun_after(here, run, is_pause=is_pause)
    text = await _text(here, run)
    assert text == shown
    assert not shown or here.provider.seen[at].sent_text.startswith(shown)
    if is_pause:
        await run.resume()
        # what was cut goes on from there; what had ended, or was not begun, is as it is
        assert await run.result() in (f"{shown}Fine.", SHORT, LONG * 1000)
        assert (await _text(here, run)).startswith(shown)
    else:
        assert len(here.provider.seen) == asked, "a request after the cancel was in effect"


async def _redirected(here: Line, blow: Blow, run: RunHandle, tally: Tally, at: int) -> None:
    words = [f"carrots {at}!", f"leeks {at}!"][: 2 if blow.control == "redirect twice" else 1]
    for word in words:
        _check(await run.redirect(word, by="ana"))
    acked_at = time.monotonic()
    shown = await here.shown(run)
    assert await run.result() == "Fine." or blow.phase not in HELD
    await _was_closed(here, blow, tally, at, acked_at)
    last = here.provider.seen[-1].raw
    told = (await run.snapshot()).instructions.values()
    assert [one.status for one in told] == ["delivered"] * len(words)
    assert [last.count(word.encode()) for word in words] == [1] * len(words)
    if blow.phase in HELD:
        first = [t for t in await _texts(here, run) if not t.complete]
        said = "".join(one.text for one in first)
        assert said.startswith(shown)
        tally.beyond += len(said) - len(shown)


async def _was_closed(here: Line, blow: Blow, tally: Tally, at: int, acked_at: float) -> None:
    """A request that was under way has been cut, and the provider has seen it."""
    begun: Seen | None = here.provider.seen[at] if len(here.provider.seen) > at else None
    if begun is not None and begun.request_at > acked_at and not blow.control.startswith("re"):
        tally.late_requests_s.append(begun.request_at - acked_at)
    if blow.phase not in HELD:
        return
    assert begun is not None
    await here.provider.async_wait_closed(at)
    if blow.phase == "flooding" and begun.finished:
        return  # the kernel had all of it before
    assert begun.cut_short
    assert begun.closed_at is not None
    tally.cut += 1
    tally.closed_s.append(max(begun.closed_at - acked_at, 0.0))


async def _nothing_was_begun_after(here: Line, run: RunHandle, *, is_pause: bool) -> None:
    events = [record.event for record in await here.runtime.journal.read(run.id)]
    control = PauseRequested if is_pause else CancelRequested
    asked = next(n for n, event in enumerate(events) if isinstance(event, control))
    assert not [event for event in events[asked:] if isinstance(event, StepStarted)]


async def _texts(here: Line, run: RunHandle) -> list[TextEnded]:
    records = await here.runtime.journal.read(run.id)
    return [record.event for record in records if isinstance(record.event, TextEnded)]


async def _text(here: Line, run: RunHandle) -> str:
    """Everything that the journal has of what the run said."""
    ended = "".join(one.text for one in await _texts(here, run))
    return ended + await here.shown(run)
