"""One request to a model: streamed, shown as it comes, held by a pause, cut at the socket.

The runtime does not know whose model it is. An adapter says how one attempt is made; everything
about when it may begin, what is shown of it and how it is stopped is here.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn, TypeAlias

import msgspec

from pullcord.core.commands import Pause
from pullcord.core.events import (
    Control,
    Event,
    InstructionSettled,
    Remembered,
    Spent,
    StepFailed,
    StepFinished,
    TextEnded,
)
from pullcord.core.limits import Reserve
from pullcord.core.run import Run, spoken_part
from pullcord.core.text.screening import Hit, Screen
from pullcord.core.text.stream_sealer import Sealer
from pullcord.core.values import Json
from pullcord.errors import Interrupted
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.doors.sockets import Sockets
from pullcord.runtime.doors.step import Intent, Permit, begin
from pullcord.runtime.driving.guard_verdicts import pass_or_cut, storable, trip
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.steps.flight import Flight
from pullcord.runtime.steps.identity import LONG_IDS, Identity, named
from pullcord.runtime.steps.manner import Manner
from pullcord.runtime.steps.memory import Memory, Past
from pullcord.runtime.steps.orders import STOPS, ControlsAsked, Order, order_for

STEP: Final = "model-"  # what the steps of requests to a model are called, before their key
_KEY_CHARS: Final = 40
_PLAIN: Final = re.compile("[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?")
_PIECE_CHARS: Final = 4096
TextKind: TypeAlias = Literal["text", "thinking", "call"]


class InstructionArrived(BaseException):
    """Somebody has said something new: the answer that was coming is no longer wanted.

    `shown` is what people have seen of it.
    """

    def __init__(self, shown: str) -> None:
        super().__init__("somebody has said something new")
        self.shown = shown


class CutOff(Exception):
    """The answer was cut off while it was coming."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """What to do about an attempt that failed: wait so long and try again, or pause and say why."""

    seconds: float = 0.0
    pause: str = ""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to a model as an adapter wants it made.

    `attempt` makes it once, telling `ModelAnswer` what comes, and returns the answer as it is
    stored. `patience` says what to do when an attempt has failed for the n-th time; None: give up.
    `parts` are the texts in a stored answer, each with its index and kind: what it says and thinks
    is shown, the JSON of its calls is only looked at by guards. `delivers` are the
    instructions that are in the request, and so delivered with it; `keeps` are values that are
    kept in the same commit (`AgentRun.keep`).
    """

    key: str  # known by this in every life; the requests of a run may be made in any order
    model: str
    args: Json
    attempt: "Callable[[ModelAnswer], Awaitable[Json]]"
    patience: Callable[[BaseException, int], Wait | None]
    parts: Callable[[Json], "list[tuple[int, TextKind, str]]"]
    delivers: Collection[int] = ()
    keeps: Mapping[str, Json] = field(default_factory=dict[str, Json])
    reserve: Reserve | None = None  # what it may cost
    wraps_up: bool = False  # the one last request of a run whose limits are reached
    continues: bool = False  # an answer that is cut is gone on with, not asked for again


def step_of(key: str) -> str:
    """Return the step that the request with this key is."""
    is_plain = len(key) <= _KEY_CHARS and _PLAIN.fullmatch(key)
    return f"{STEP}{key}" if is_plain else f"{STEP}{named(LONG_IDS, key, 'model', key)}"


def key_of(step: str) -> str:
    """Return the key of a request, or what stands for it if it was long or had odd characters."""
    return step.removeprefix(STEP)


async def ask_model(live: LiveRun, request: Request) -> Json:
    """Return the answer, of this life or an earlier one.

    Raises:
        InstructionArrived: somebody said something new before the answer was complete.
        OutOfLimits: a limit is reached, and it was not asked.
        Exception: what the last attempt failed with.
        Interrupted: the run is being unwound.
    """
    step = step_of(request.key)
    past = live.memory.steps.get(step)
    if past is not None:
        past.is_met = True
        if past.status == "finished":
            await _show_the_rest(live, past, request)
            return past.result
        if is_told(live.run):
            raise InstructionArrived(shown_before(live.memory, request.key))
    failures = 0
    shown = shown_before(live.memory, request.key)
    was_cut = past is not None and past.status == "interrupted"
    while True:
        continues = _may_continue(live, request)
        intent = _intent(live, request, step, shown)
        flight = await begin(live, intent, Permit(request.args))
        live.memory.values |= request.keeps
        before = shown if continues else ""
        answer = ModelAnswer(live, flight, request, before, was_cut=was_cut)
        try:
            outcome = await live.fly(flight, answer.carry_out)
        except BaseException:
            answer.drop()
            raise
        match outcome:
            case [StepFinished()]:
                await answer.shown_whole()
                return answer.stored
            case [StepFailed()] if flight.error is not None:
                shown, was_cut = await answer.cut_there() or shown, False
                failures += 1
                wait = request.patience(flight.error, failures)
                if wait is None or (wait.pause and request.wraps_up):
                    raise flight.error
                await _bide(live, wait)
            case _:  # cut: by a redirect, or by a pause after which the same is asked again
                now = await answer.cut_there()
                goes_on = was_cut and continues
                shown, was_cut = (shown + now if goes_on else now or shown), True
                if flight.is_redirected and live.run.cancel is None:
                    raise InstructionArrived(shown)
                await live.gate.passes()
        if is_told(live.run):
            raise InstructionArrived(shown)


def is_told(run: Run) -> bool:
    """Whether somebody has said something that the agent has not read yet."""
    return any(told.status == "queued" for told in run.instructions.values())


def _may_continue(live: LiveRun, request: Request) -> bool:
    """Whether an answer that is cut is gone on with. Not one that a guard has cut: what was shown
    of it leads to what was found, so it is asked for again as if nothing had been said."""
    return request.continues and step_of(request.key) not in live.memory.tripped


def _intent(live: LiveRun, request: Request, step: str, shown: str) -> Intent:
    def unless_told(run: Run) -> list[Event]:
        """Decided with the intent itself: no request begins without what was said before it."""
        queued = [n for n, i in run.instructions.items() if i.status == "queued"]
        if any(n not in request.delivers for n in queued):
            raise InstructionArrived(shown)
        settled = [InstructionSettled(instruction=n, outcome="delivered") for n in queued]
        return [*settled, *(Remembered(key=k, value=v) for k, v in request.keeps.items())]

    timing = live.services.timing
    manner = Manner(
        effect="none",
        grace_s=timing.stop_grace_s,
        on_pause="hold",
        hold_s=timing.hold_s,
        on_redirect="cancel",
    )
    return Intent(
        identity=Identity(step, "model", "", request.key, 0),
        with_it=unless_told,
        manner=manner,
        model=request.model,
        reserve=request.reserve,
        wraps_up=request.wraps_up,
        continues=_may_continue(live, request),
    )


async def _bide(live: LiveRun, wait: Wait) -> None:
    """Wait before the next attempt. Every control ends the wait, or holds what comes after it."""
    if wait.pause:
        pause = Pause(by="pullcord", reason=wait.pause, source="policy")
        await live.services.journal.command(live.run.id, pause)
        await live.stand_still()
        return
    alarm = Alarm(live.services.alarms, live.news)
    alarm.set(wait.seconds)
    try:
        while alarm.is_set and not live.gate.is_closed and not is_told(live.run):
            await live.moved()
    finally:
        alarm.off()
    await live.gate.passes()


class ModelAnswer:
    """What comes back in one attempt: shown as it comes, unless the run is being paused."""

    def __init__(
        self, live: LiveRun, flight: Flight, request: Request, before: str, *, was_cut: bool
    ) -> None:
        self._live, self._flight, self._request = live, flight, request
        self.before = before  # what was shown of an earlier attempt that did not end
        self.was_cut = was_cut  # by a pause, that is, and not by its provider
        self.sockets = Sockets()
        flight.transport = self.sockets.shut
        flight.spent = Spent(step=flight.step, estimated=True)
        self.stored: Json = msgspec.Raw(b"null")
        self._parts: list[_Part] = []
        self._calls: dict[int, Screen] = {}
        self._hit: tuple[Hit, str] | None = None  # what a guard has found, and in which part
        self._asked = ControlsAsked()
        self._heard: Order = "go on"  # what the control thread has heard that stops it
        self._more = asyncio.Event()
        self._is_over = False
        self._showing = asyncio.create_task(self._show())

    # --- what the adapter says ---

    def says(self, index: int, text: str, kind: TextKind = "text") -> None:
        """More of the `index`-th part of the answer has come.

        Raises:
            CutOff: nobody wants to hear it any more.
        """
        self.goes_on()
        if kind == "call":
            screen = self._calls.setdefault(index, self._live.guards.screen())
            screen.feed(text)
            self._goes_past(screen, "")
            return
        if not self._parts or self._parts[-1].index != index:
            self._end_last()
            seal, screen = Sealer(self._live.services.secrets), self._live.guards.screen()
            self._parts.append(_Part(index, kind, seal, screen))
        part = self._parts[-1]
        part.take(part.seal.feed(storable(text)))
        self._goes_past(part.screen, self._name(part))
        self._more.set()

    def _end_last(self) -> None:
        """Show also what was kept back at the end of a part, if no guard has found anything."""
        if self._parts:
            part = self._parts[-1]
            part.take(part.seal.end())
            part.text += part.screen.end()
            self._goes_past(part.screen, self._name(part))

    def _goes_past(self, screen: Screen, part: str) -> None:
        if screen.hit is not None:
            self._catch(screen.hit, part)

    def _catch(self, hit: Hit, part: str) -> NoReturn:
        """Cut it at once; it is recorded when whoever was listening has let go."""
        self._hit = hit, part
        self.sockets.shut()
        raise CutOff

    def goes_on(self) -> None:
        """Raise `CutOff` if the answer was cut off. Asked at every chunk: a cancellation can get
        lost in a library, this cannot."""
        if self._heard != "go on":
            self._flight.obey(self._heard)
        if self._flight.rung or self._hit:
            raise CutOff

    def costs(self, spent: Spent) -> None:
        """What it has cost so far, as far as that is known."""
        self._flight.spent = msgspec.structs.replace(spent, step=self._flight.step)

    # --- carrying it out ---

    async def carry_out(self) -> Any:
        live, flight = self._live, self._flight
        with (
            self.sockets.used(),
            live.services.control.cutting(live.run.id, self._hear, after_seq=flight.begun_seq),
        ):
            try:
                stored = await self._request.attempt(self)
                stored = live.services.secrets.seal_json(stored, screen=True)
                self._passes_whole(stored)
                self.stored = stored
            except BaseException:
                if self._hit:
                    hit, part = self._hit
                    await trip(live, hit, step=flight.step, part=part)
                    flight.stop()
                elif self._heard != "go on":
                    flight.obey(self._heard)  # the socket was shut behind this loop's back
                raise
        return self.stored

    def _passes_whole(self, stored: Json) -> None:
        """Nothing of an answer is called finished before guards have seen all of it."""
        if self._hit:
            raise CutOff  # somebody has caught it on the way
        self._end_last()
        self._more.set()
        if not (guards := self._live.guards):
            return
        came = {part.index: "".join(part.came) for part in self._parts}
        for index, kind, text in self._request.parts(stored):
            if kind == "call":
                found = guards.hit_in_json(msgspec.Raw(text.encode()))
            elif storable(text) != came.get(index):
                found = guards.hit_in(text)
            else:
                continue
            if found is not None:
                self._catch(found, "")

    def _hear(self, control: Control) -> None:
        """In the control thread: the event loop may be blocked."""
        self._asked = self._asked.and_then(control)
        order = order_for(self._asked, self._flight.manner)
        if order in STOPS:
            is_first = self._heard == "go on" or self._asked.stop.startswith("cancel")
            self._heard = order if is_first else self._heard
            self.sockets.shut()

    # --- showing it ---

    async def shown_whole(self) -> None:
        """Wait until everything is shown; while paused, that is after resume."""
        self._end_last()
        self._is_over = True
        self._more.set()
        await self._showing
        for part in self._parts:
            await self._finish(part)

    def drop(self) -> None:
        """The run is being unwound: nobody is left to show it to."""
        self._showing.cancel()

    async def cut_there(self) -> str:
        """Nothing more is shown of it. What was shown stays, marked as cut, and is returned."""
        self._showing.cancel()
        with self._live.busy():  # a pause takes hold when this is said
            await asyncio.wait({self._showing})
            for part in self._parts:
                if part.shown and not part.is_ended and self._live.run.cancel is None:
                    ended = self._ended(part, part.shown, complete=False)
                    part.is_ended = bool(await self._live.record(ended))
        for part in self._parts:
            if part.shown and not part.is_ended and self._live.run.cancel is None:
                part.is_ended = True  # (the end of a run ends it, at what the journal has)
                await self._live.begin(self._ended(part, part.shown, complete=False))
        return "".join(part.shown for part in self._parts if part.kind == "text")

    async def _show(self) -> None:
        """Show what has come, and end each part when the next begins. Nothing is shown while
        the run is being paused: what is there by then is shown when it goes on. Nothing more
        once somebody has said something new."""
        while self._heard != "redirect":
            for n, part in enumerate(self._parts):
                await self._show_part(part)
                if n + 1 < len(self._parts) and part.shown == part.text:
                    await self._finish(part)
            if all(part.shown == part.text for part in self._parts):
                if self._is_over:
                    return
                self._more.clear()
                await self._more.wait()

    async def _show_part(self, part: "_Part") -> None:
        while len(part.shown) < len(part.text) and self._heard != "redirect":
            start = len(part.shown)
            piece = part.text[start : start + _PIECE_CHARS]
            name = self._name(part)
            saying = asyncio.ensure_future(
                self._live.show(name, piece, offset=start, while_pausing=False)
            )
            try:
                is_shown = await asyncio.shield(saying)
            except asyncio.CancelledError:
                await asyncio.wait({saying})  # it counts if it got through
                if not saying.cancelled() and saying.exception() is None and saying.result():
                    part.shown += piece
                raise
            if is_shown:
                part.shown += piece
            elif self._live.gate.is_closed:
                raise Interrupted("this run is being unwound; the rest is shown in a later life")
            else:
                await self._live.moved()

    async def _finish(self, part: "_Part") -> None:
        if not part.is_ended:
            part.is_ended = True
            if part.text:
                await self._live.begin(self._ended(part, part.text, complete=True))

    def _ended(self, part: "_Part", text: str, *, complete: bool) -> TextEnded:
        step = self._flight.step if part.kind == "thinking" else ""
        return TextEnded(part=self._name(part), text=text, complete=complete, step=step)

    def _name(self, part: "_Part") -> str:
        thought = part.kind == "thinking"
        return spoken_part(self._flight.step, self._flight.attempt, part.index, thought=thought)


class _Part:
    def __init__(self, index: int, kind: TextKind, seal: Sealer, screen: Screen) -> None:
        self.index, self.kind, self.seal, self.screen = index, kind, seal, screen
        self.came: list[str] = []  # all of it
        self.text = self.shown = ""  # what may be shown, and what was
        self.is_ended = False

    def take(self, text: str) -> None:
        """Take more of it, sealed; what no guard wants to see more of first may be shown."""
        self.came.append(text)
        self.text += self.screen.feed(text)


async def _show_the_rest(live: LiveRun, past: Past, request: Request) -> None:
    """Show what an earlier life had the answer of, and did not come to show."""
    texts, step = live.memory.texts, step_of(request.key)
    for index, kind, text in request.parts(past.result):
        if kind == "call":
            continue
        thought = kind == "thinking"
        names = [
            spoken_part(step, attempt, index, thought=thought)
            for attempt in range(1, past.attempt + 1)
        ]
        last = names[-1]
        if last in texts and texts[last][1]:
            continue
        whole = storable(text)
        shown = "".join(texts[name][0] for name in names if name in texts)
        if not whole.startswith(shown):
            shown = texts[last][0] if last in texts else ""
        again = f"{last}-rest" if last in texts else last
        if whole[len(shown) :] and again not in texts:
            rest = whole[len(shown) :]
            await pass_or_cut(live, whole, part=again)
            await live.begin(TextEnded(part=again, text=rest, step=step if thought else ""))


def shown_before(memory: Memory, key: str) -> str:
    """What earlier lives have shown of an answer that was cut: of all attempts, if each went on
    with the one before; else of the last one that came to say something."""
    step = step_of(key)
    past = memory.steps.get(step)
    said: list[str] = []
    for attempt in range(1, past.attempt + 1 if past else 1):
        start = spoken_part(step, attempt, 0)[:-1]
        parts = (text for part, (text, _) in memory.texts.items() if part.startswith(start))
        said.append("".join(parts))
    if past and past.continues and not past.failures:
        return "".join(said)
    return next(filter(None, reversed(said)), "")
