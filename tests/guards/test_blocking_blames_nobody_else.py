"""Only what holds the loop is named: not a busy loop, not a process that was stopped, and nothing
twice. A loop in a thread of its own is looked at step by step, with a clock in the test's hand.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Generator

import pytest

from pullcord.runtime.watching.blocked_loop import LoopCheck
from pullcord.runtime.watching.loop_probe import CodePlace, LoopProbe
from tests.promises.children import child

AFTER_S = 0.375
EVERY_S = 0.125


class Loop:
    """A real loop that is in one callback until it is told to go to the next."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._is_in = threading.Semaphore(0)
        self._may_leave = threading.Semaphore(0)
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.is_waiting = True

    def enter(self, callback: Callable[[], None] | None = None) -> None:
        """Be in a callback."""
        self.is_waiting = False
        self.loop.call_soon_threadsafe(callback or self.hold)
        assert self._is_in.acquire(timeout=20)

    def leave(self) -> None:
        """Be in none: it waits for something to do."""
        self._may_leave.release()
        self.is_waiting = True
        self.gets_on()

    def gets_on(self) -> None:
        """Carry out what is there."""
        done = threading.Event()
        self.loop.call_soon_threadsafe(done.set)
        assert done.wait(20)

    def next(self) -> None:
        """Be in the next callback at once."""
        self.loop.call_soon_threadsafe(self.hold)
        self._may_leave.release()
        assert self._is_in.acquire(timeout=20)

    def hold(self) -> None:
        self._is_in.release()
        self._may_leave.acquire()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._may_leave.release()
        self.thread.join()
        self.loop.close()


class Eyes:
    """Who looks, when the test says so."""

    def __init__(self, loop: Loop) -> None:
        self.now_s = 0.0
        self.run_id = "r1"
        self.said: list[tuple[str, CodePlace, str]] = []
        self.loop = loop
        assert loop.thread.ident
        assert isinstance(loop.loop, asyncio.BaseEventLoop)
        self.look = LoopCheck(
            LoopProbe(loop.loop, loop.thread.ident),
            AFTER_S,
            lambda: (self.run_id, "crunch"),
            lambda run_id, place, text: self.said.append((run_id, place, text)),
            now=lambda: self.now_s,
        )

    def after(self, seconds: float) -> None:
        self.now_s += seconds
        if self.loop.is_waiting:
            self.loop.gets_on()
        self.look.once()

    def times(self, looks: int) -> None:
        for _ in range(looks):
            self.after(EVERY_S)


@pytest.fixture
def loop() -> Generator[Loop]:
    made = Loop()
    try:
        yield made
    finally:
        made.close()


def test_a_callback_that_lasts_is_named_once_and_at_its_end(loop: Loop) -> None:
    eyes = Eyes(loop)
    loop.enter()
    eyes.times(3)
    assert not eyes.said
    eyes.times(10)
    [(run_id, place, text)] = eyes.said
    assert (run_id, place.function, place.path) == ("r1", "hold", __file__)
    assert f"{place} holds the event loop (step 'crunch'), for 0.4 s so far." in text
    loop.leave()
    eyes.times(1)
    assert eyes.said[1][1] == place
    assert "held the event loop for 1.5 s" in eyes.said[1][2]


def test_what_is_deep_inside_of_itself_is_named_too(loop: Loop) -> None:
    def deep(levels: int) -> None:
        deep(levels - 1) if levels else loop.hold()

    eyes = Eyes(loop)
    loop.enter(lambda: deep(200))
    eyes.times(4)
    [(_, place, _)] = eyes.said
    assert (place.function, place.path) == ("hold", __file__)


def test_many_short_callbacks_are_nobodys_fault(loop: Loop) -> None:
    eyes = Eyes(loop)
    loop.enter()
    for _ in range(200):
        eyes.after(0.01)
        eyes.after(AFTER_S - 0.01)
        loop.next()
    assert not eyes.said


def test_a_loop_that_waits_is_not_held(loop: Loop) -> None:
    eyes = Eyes(loop)
    loop.enter()
    loop.leave()
    eyes.times(100)
    assert not eyes.said


def test_time_in_which_nobody_was_awake_does_not_count(loop: Loop) -> None:
    """The process was stopped, or the machine slept, in the middle of something short."""
    eyes = Eyes(loop)
    loop.enter()
    eyes.times(1)
    eyes.after(3600)
    eyes.times(1)
    assert not eyes.said
    loop.next()
    eyes.after(3600)
    assert not eyes.said


def test_what_goes_on_after_that_is_named_without_that_time(loop: Loop) -> None:
    eyes = Eyes(loop)
    loop.enter()
    eyes.times(1)
    eyes.after(3600)
    eyes.times(4)
    assert "for 0.4 s so far" in eyes.said[0][2]


def test_a_place_is_named_again_only_if_it_takes_much_longer(loop: Loop) -> None:
    eyes = Eyes(loop)
    loop.enter()
    for looks, said in ((5, 2), (5, 2), (5, 2), (12, 4), (12, 4)):
        eyes.times(looks)
        loop.next()
        eyes.times(1)
        assert len(eyes.said) == said
    eyes.run_id = "r2"  # to another run it is news
    eyes.times(5)
    assert len(eyes.said) == 5


async def test_a_stopped_process_blames_nothing() -> None:
    async with child("tests.guards.stopped") as busy:
        assert await busy.says() == "busy"
        for _ in range(5):
            busy.signal(signal.SIGSTOP)
            await asyncio.sleep(0.7)  # time in which it does not run: there is no event to wait for
            busy.signal(signal.SIGCONT)
            await asyncio.sleep(0.05)
        await busy.tell("enough")
        assert await busy.says() == "blamed 0 times"
