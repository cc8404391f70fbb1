"""Tools that run in a process of their own: at the top of a module, where that finds them.

It imports little, because the process that they are forked from imports it, too.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pullcord
from pullcord import ToolContext

# --- what they are called with, and what they find --------------------------------------------


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def add_async(a: int, b: int = 2) -> int:
    return a + b


def takes(first: int, /, second: int, *rest: int, third: int = 3, **others: int) -> list[Any]:
    return [first, second, list(rest), third, others]


def context(ctx: ToolContext, path: str = "") -> dict[str, Any]:
    """Say who is asked for what. Fails at first, if there is a file to remember that in."""
    found = {"key": ctx.idempotency_key, "attempt": ctx.attempt, "step": ctx.step}
    if path and not happened(path, f"{ctx.attempt} {ctx.idempotency_key}"):
        raise ConnectionError("not the first time")
    return found | {"run": ctx.run_id, "deps": ctx.deps}


def environment(prefix: str) -> list[str]:
    return sorted(name for name in os.environ if name.startswith(prefix))


def happened(path: str, what: str) -> bool:
    """Write a line to a file, whole, and say whether there was one before it."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with open(file, "ab", buffering=0) as lines:
        is_first = os.fstat(file).st_size == 0
        lines.write(what.encode() + b"\n")
    return not is_first


class Desk:
    """Functions that are not simply at the top of a module."""

    @staticmethod
    def static(a: int) -> int:
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        return a

    def method(self, a: int) -> int:
        return a

    async def async_method(self, a: int) -> int:
        return a

    def __call__(self, a: int) -> int:
        return a


class AsyncDesk:
    async def __call__(self, a: int) -> int:
        return a


def generator(path: str) -> Any:
    happened(path, "generated")
    yield 1


async def async_generator(path: str) -> Any:
    happened(path, "generated")
    yield 1


# --- what comes out of them -------------------------------------------------------------------


@dataclass
class Draft:
    to: str
    at: datetime


def draft(to: str) -> Draft:
    return Draft(to, datetime(2026, 1, 2, tzinfo=UTC))


def pair() -> tuple[int, set[str]]:
    return 1, {"x"}


def _circular() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(10**5):
        nested = [nested]
    return nested


UNSTORABLE: Final[dict[str, Callable[[], Any]]] = {
    "object has no JSON form": object,
    "nan is not a JSON number": lambda: float("nan"),
    "circular, or nested too deeply": _circular,
    "circular, or nested": _deep,
    "an integer of more than 64 bits": lambda: {"n": 2**70},
    "it has 33,554,434 bytes, and 16,777,216 are allowed": lambda: "x" * (32 << 20),
    "half of a surrogate pair": lambda: "\ud800",
    "the key 1 is not text": lambda: {1: 2},
}


def gives(which: str) -> Any:
    return UNSTORABLE[which]()


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nor can this")


class SpeechlessExit(SystemExit):
    def __str__(self) -> str:
        raise RuntimeError("nor can this")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise BaseException("nor can this")


RAISED: Final[dict[str, Callable[[], BaseException]]] = {
    "ValueError: why": lambda: ValueError("why"),
    "BaseException: why": lambda: BaseException("why"),
    "SystemExit: why": lambda: SystemExit("why"),
    "KeyboardInterrupt: why": lambda: KeyboardInterrupt("why"),
    "GeneratorExit: why": lambda: GeneratorExit("why"),
    "StopIteration": lambda: StopIteration("why"),
    "Speechless: it cannot say what it is": Speechless,
    "SpeechlessExit: it cannot say what it is": SpeechlessExit,
    "Unspeakable: it cannot say what it is": Unspeakable,
    "ValueError: \\0 and \\ud800": lambda: ValueError("\0 and \ud800"),
    "ValueError: aaaa": lambda: ValueError("a" * 10**6),
}


def raises(which: str) -> None:
    raise RAISED[which]()


def closes_its_error_output() -> None:
    sys.stderr.close()
    raise ValueError("mine")


def exits() -> None:
    os._exit(3)


def crashes() -> None:
    ctypes.string_at(0)


def kills_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_killed(path: str) -> str:
    """Has its effect, and is then killed, as by a kernel that is out of memory."""
    with open(path, "a", encoding="utf-8") as outside:
        outside.write("done\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def closes_everything() -> str:
    os.closerange(3, 1024)
    return "nobody hears this"


ENDINGS: Final[dict[str, Callable[[], Any]]] = {
    "status 3": exits,
    "status -11": crashes,
    "status -9": kills_itself,
    "status 0": closes_everything,
}


def removes_its_directory() -> str:
    here = os.getcwd()
    os.rmdir(here)
    return here


# --- what takes its time ------------------------------------------------------------------------
# Each says that it has begun by putting out a line.


def beats(path: str, times: int = 10**6, every_s: float = 0.1, says: int = 10**6) -> int:
    """Write a line to a file every so often, and put the first ones out, too."""
    for number in range(times):
        happened(path, str(number))
        if number < says:
            print("beat", number)
        time.sleep(every_s)
    return times


def waits_for(path: str) -> str:
    """Wait until something stands in a file, and return that."""
    print("begun")
    while not (os.path.exists(path) and (text := Path(path).read_text())):
        time.sleep(0.002)
    return text


def ignores_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("begun")
    while True:
        time.sleep(60)


def cleans_up(path: str) -> None:
    """Write down that it was told to stop."""

    def stop(*_: object) -> None:
        happened(path, "cleaned up")
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    print("begun")
    while True:
        time.sleep(60)


@pullcord.tool(effect="idempotent")
def declared(a: int) -> int:
    """Says what it is."""
    return a + 1
