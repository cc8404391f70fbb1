"""One request to a model: streamed, shown as it comes, held by a pause, cut at the socket.

The runtime does not know whose model it is. An adapter says how one attempt is made; everything
about when it may begin, what is shown of it and how it is stopped is here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

import msgspec

from pullcord.core.commands import Pause
from pullcord.core.events import (
    CancelRequested,
    Control,
    Event,
    Hurried,
    InstructionSettled,
    PauseRequested,
    Redirected,
    Spent,
    StepFailed,
    StepFinished,
    TextEnded,
)
from pullcord.core.limits import Reserve
from pullcord.core.run import Run, spoken_part
from pullcord.core.screening import Hit, Screen
from pullcord.core.sealer import Sealer
from pullcord.core.values import Json
from pullcord.errors import Interrupted
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.driver import Driver
from pullcord.runtime.flight import Flight
from pullcord.runtime.guarding import pass_or_cut, storable, trip
from pullcord.runtime.identity import Identity
from pullcord.runtime.manner import Manner
from pullcord.runtime.memory import Memory, Past
from pullcord.runtime.sockets import Sockets
from pullcord.runtime.steps import Intent, Permit, begin

_PIECE_CHARS: Final = 4096
Kind = Literal["text", "thinking", "call"]


class Told(BaseException):
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

    `attempt` makes it once, telling `Answer` what comes, and returns the answer as it is stored.
    `patience` says what to do when an attempt has failed for the n-th time; None: give up.
    `parts` are the texts in a stored answer, each with its index and kind: what it says and thinks
    is shown, the JSON of its calls is only looked at by guards. `settles` are the
    instructions that are in the request, and so delivered with it.
    """

    number: int
    model: str
    args: Json
    attempt: "Callable[[Answer], Awaitable[Json]]"
    patience: Callable[[BaseException, int], Wait | None]
    parts: Callable[[Json], "list[tuple[int, Kind, str]]"]
    settles: Callable[[Run], list[Event]]
    reserve: Reserve | None = None  # what it may cost
    wraps_up: bool = False  # the one last request of a run whose limits are reached
    continues: bool = False  # an answer that is cut is gone on with, not asked for again


def step_of(number: int) -> str:
    """The step that the n-th request of a run is."""
    return f"model-{number}"


async def ask_model(driver: Driver, request: Request) -> Json:
    """Return the answer, of this life or an earlier one.

    Raises:
        Told: somebody said something new before the answer was complete.
        OutOfLimits: a limit is reached, and it was not asked.
        Exception: what the last attempt failed with.
        Interrupted: the run is being unwound.
    """
    step = step_of(request.number)
    past = driver.memory.steps.get(step)
    if past is not None:
        past.is_met = True
        if past.status == "finished":
            await _show_the_rest(driver, past, request)
            return past.result
        if is_told(driver.run):
            raise Told(shown_before(driver.memory, request.number))
    failures = 0
    shown = shown_before(driver.memory, request.number)
    was_cut = past is not None and past.status == "interrupted"
    while True:
        continues = _may_continue(driver, request)
        intent = _intent(driver, request, step, shown)
        flight = await begin(driver, intent, Permit(request.args))
        before = shown if continues else ""
        answer = Answer(driver, flight, request, before, was_cut=was_cut)
        try:
            outcome = await driver.fly(flight, answer.carry_out)
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
                await _bide(driver, wait)
            case _:  # cut: by a redirect, or by a pause after which the same is asked again
                now = await answer.cut_there()
                goes_on = was_cut and continues
                shown, was_cut = (shown + now if goes_on else now or shown), True
                if flight.is_redirected and driver.run.cancel is None:
                    raise Told(shown)
                await driver.gate.passes()
        if is_told(driver.run):
            raise Told(shown)


def is_told(run: Run) -> bool:
    """Whether somebody has said something that the agent has not read yet."""
    return any(told.status == "queued" for told in run.instructions.values())


def _may_continue(driver: Driver, request: Request) -> bool:
    """Whether an answer that is cut is gone on with. Not one that a guard has cut: what was shown
    of it leads to what was found, so it is asked for again as if nothing had been said."""
    return request.continues and step_of(request.number) not in driver.memory.tripped


def _intent(driver: Driver, request: Request, step: str, shown: str) -> Intent:
    def unless_told(run: Run) -> list[Event]:
        """Decided with the intent itself: no request begins without what was said before it."""
        settled = request.settles(run)
        heard = {event.instruction for event in settled if isinstance(event, InstructionSettled)}
        if any(i.status == "queued" and n not in heard for n, i in run.instructions.items()):
            raise Told(shown)
        return settled

    habits = driver.site.habits
    manner = Manner(
        effect="none",
        grace_s=habits.stop_grace_s,
        on_pause="hold",
        hold_s=habits.hold_s,
        on_redirect="cancel",
    )
    digest = str(request.number)
    return Intent(
        identity=Identity(step, "model", "", digest, request.number),
        with_it=unless_told,
        manner=manner,
        model=request.model,
        reserve=request.reserve,
        wraps_up=request.wraps_up,
        continues=_may_continue(driver, request),
    )


async def _bide(driver: Driver, wait: Wait) -> None:
    """Wait before the next attempt. Every control ends the wait, or holds what comes after it."""
    if wait.pause:
        pause = Pause(by="pullcord", reason=wait.pause, source="policy")
        await driver.site.journal.command(driver.run.id, pause)
        await driver.stand_still()
        return
    alarm = Alarm(driver.site.alarms, driver.news)
    alarm.set(wait.seconds)
    try:
        while alarm.is_set and not driver.gate.is_closed and not is_told(driver.run):
            await driver.moved()
    finally:
        alarm.off()
    await driver.gate.passes()


class Answer:
    """What comes back in one attempt: shown as it comes, unless the run is being paused."""

    def __init__(
        self, driver: Driver, flight: Flight, request: Request, before: str, *, was_cut: bool
    ) -> None:
        self._driver, self._flight, self._request = driver, flight, request
        self.before = before  # what was shown of an earlier attempt that did not end
        self.was_cut = was_cut  # by a pause, that is, and not by its provider
        self.sockets = Sockets()
        flight.transport = self.sockets.shut
        flight.spent = Spent(step=flight.step, estimated=True)
        self.stored: Json = msgspec.Raw(b"null")
        self._parts: list[_Part] = []
        self._calls: dict[int, Screen] = {}
        self._hit: tuple[Hit, str] | None = None  # what a guard has found, and in which part
        self._heard: Literal["", "cancel", "redirect", "pause"] = ""
        self._more = asyncio.Event()
        self._is_over = False
        self._showing = asyncio.create_task(self._show())

    # --- what the adapter says ---

    def says(self, index: int, text: str, kind: Kind = "text") -> None:
        """More of the `index`-th part of the answer has come.

        Raises:
            CutOff: nobody wants to hear it any more.
        """
        self.goes_on()
        if kind == "call":
            screen = self._calls.setdefault(index, self._driver.guards.screen())
            screen.feed(text)
            self._goes_past(screen, "")
            return
        if not self._parts or self._parts[-1].index != index:
            self._end_last()
            seal, screen = Sealer(self._driver.site.secrets), self._driver.guards.screen()
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
        if self._heard:
            self._obey()
        if self._flight.rung or self._hit:
            raise CutOff

    def costs(self, spent: Spent) -> None:
        """What it has cost so far, as far as that is known."""
        self._flight.spent = msgspec.structs.replace(spent, step=self._flight.step)

    # --- carrying it out ---

    async def carry_out(self) -> Any:
        driver, flight = self._driver, self._flight
        with (
            self.sockets.used(),
            driver.site.control.cutting(driver.run.id, self._hear, after_seq=flight.begun_seq),
        ):
            try:
                stored = await self._request.attempt(self)
                stored = driver.site.secrets.seal_json(stored, screen=True)
                self._passes_whole(stored)
                self.stored = stored
            except BaseException:
                if self._hit:
                    hit, part = self._hit
                    await trip(driver, hit, step=flight.step, part=part)
                    flight.stop()
                elif self._heard:
                    self._obey()  # the socket was shut behind this loop's back
                raise
        return self.stored

    def _passes_whole(self, stored: Json) -> None:
        """Nothing of an answer is called finished before guards have seen all of it."""
        if self._hit:
            raise CutOff  # somebody has caught it on the way
        self._end_last()
        self._more.set()
        if not (guards := self._driver.guards):
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
        match control:
            case CancelRequested():
                self._heard = "cancel"
            case Redirected():
                self._heard = self._heard or "redirect"
            case PauseRequested(now=True) | Hurried():
                self._heard = self._heard or "pause"
            case _:
                return
        self.sockets.shut()

    def _obey(self) -> None:
        if self._heard == "redirect":
            self._flight.redirect()
        else:
            self._flight.stop()

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
        with self._driver.busy():  # a pause takes hold when this is said
            await asyncio.wait({self._showing})
            for part in self._parts:
                if part.shown and not part.is_ended and self._driver.run.cancel is None:
                    ended = self._ended(part, part.shown, complete=False)
                    part.is_ended = bool(await self._driver.record(ended))
        for part in self._parts:
            if part.shown and not part.is_ended and self._driver.run.cancel is None:
                part.is_ended = True  # (the end of a run ends it, at what the journal has)
                await self._driver.begin(self._ended(part, part.shown, complete=False))
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
                self._driver.show(name, piece, offset=start, while_pausing=False)
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
            elif self._driver.gate.is_closed:
                raise Interrupted("this run is being unwound; the rest is shown in a later life")
            else:
                await self._driver.moved()

    async def _finish(self, part: "_Part") -> None:
        if not part.is_ended:
            part.is_ended = True
            if part.text:
                await self._driver.begin(self._ended(part, part.text, complete=True))

    def _ended(self, part: "_Part", text: str, *, complete: bool) -> TextEnded:
        step = self._flight.step if part.kind == "thinking" else ""
        return TextEnded(part=self._name(part), text=text, complete=complete, step=step)

    def _name(self, part: "_Part") -> str:
        thought = part.kind == "thinking"
        return spoken_part(self._flight.step, self._flight.attempt, part.index, thought=thought)


class _Part:
    def __init__(self, index: int, kind: Kind, seal: Sealer, screen: Screen) -> None:
        self.index, self.kind, self.seal, self.screen = index, kind, seal, screen
        self.came: list[str] = []  # all of it
        self.text = self.shown = ""  # what may be shown, and what was
        self.is_ended = False

    def take(self, text: str) -> None:
        """Take more of it, sealed; what no guard wants to see more of first may be shown."""
        self.came.append(text)
        self.text += self.screen.feed(text)


async def _show_the_rest(driver: Driver, past: Past, request: Request) -> None:
    """Show what an earlier life had the answer of, and did not come to show."""
    texts, step = driver.memory.texts, step_of(request.number)
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
            await pass_or_cut(driver, whole, part=again)
            await driver.begin(TextEnded(part=again, text=rest, step=step if thought else ""))


def shown_before(memory: Memory, number: int) -> str:
    """What earlier lives have shown of an answer that was cut: of all attempts, if each went on
    with the one before; else of the last one that came to say something."""
    step = step_of(number)
    past = memory.steps.get(step)
    said: list[str] = []
    for attempt in range(1, past.attempt + 1 if past else 1):
        start = spoken_part(step, attempt, 0)[:-1]
        parts = (text for part, (text, _) in memory.texts.items() if part.startswith(start))
        said.append("".join(parts))
    if past and past.continues and not past.failures:
        return "".join(said)
    return next(filter(None, reversed(said)), "")
