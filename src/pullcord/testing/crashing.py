"""Death at a chosen place: a real process, a real `kill -9`, a real file.

`crash_points` starts one small server process that imports the scenario once and forks a child
per point. The child runs the scenario on a journal that kills it before, inside or after its
n-th write; what it was told is acknowledged reaches the parent through a pipe, the outside
witness. Then n grows until a child lives to the end: every point, none sampled.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.journal.one_commit import in_one_commit
from pullcord.journal.store import Job, Listener, Outcome, Scrubbed, Store, Transaction, View

T = TypeVar("T")
When: TypeAlias = Literal["before", "inside", "after"]
Witness: TypeAlias = Callable[[str], None]
Scenario: TypeAlias = Callable[[Journal, Witness], Awaitable[None]]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class WrappedStore:
    """A store around another one, for tests that meddle with its writes."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.writes = 0

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def beside(self) -> str:
        return self._inner.beside

    @property
    def readers(self) -> int:
        return self._inner.readers

    @property
    def clock(self) -> Clock:
        return self._inner.clock

    def write(self, job: Callable[[Transaction], T]) -> T:
        return self._inner.write(job)

    def write_each(self, jobs: Sequence[Job]) -> list[Outcome]:
        return in_one_commit(self.write, jobs)

    def read(self, job: Callable[[View], T]) -> T:
        return self._inner.read(job)

    def scrub(self, *, rewrite: bool = False) -> Scrubbed:
        return self._inner.scrub(rewrite=rewrite)

    def listen(self) -> Listener:
        return self._inner.listen()

    def poke(self) -> None:
        self._inner.poke()

    def close(self) -> None:
        self._inner.close()


class CrashingStore(WrappedStore):
    """A store whose process dies at its n-th write transaction."""

    def __init__(
        self, inner: Store, *, at: int, when: When, die: Callable[[], None] = _die
    ) -> None:
        super().__init__(inner)
        self._at, self._when, self._die = at, when, die

    def write(self, job: Callable[[Transaction], T]) -> T:
        self.writes += 1
        if self.writes != self._at:
            return self._inner.write(job)
        if self._when == "before":
            self._die()
        result = self._inner.write(self._dying(job))
        if self._when == "after":
            self._die()
        return result

    def _dying(self, job: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        def carry_out(tx: Transaction) -> T:
            result = job(tx)
            if self._when == "inside":
                self._die()
            return result

        return carry_out


class CrashingJournal(Journal):
    """A journal over a `CrashingStore`. Give `die` to do something milder than SIGKILL."""

    def __init__(
        self,
        inner: Store,
        *,
        at: int,
        when: When = "before",
        die: Callable[[], None] = _die,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(CrashingStore(inner, at=at, when=when, die=die), clock=clock)


class CrashReport(NamedTuple):
    """One death. `acked` is what the scenario had been told; `path` is the file it left."""

    at: int
    when: When
    path: Path
    acked: list[str]


class Point(msgspec.Struct):
    """Where to die: said by the parent to the server."""

    path: str
    at: int  # 0: nowhere
    when: When


class Life(msgspec.Struct):
    """What became of a child: said by the server to the parent."""

    died: bool
    acked: list[str]
    writes: int  # how many it made; known only of one that lived to the end


def crash_points(
    scenario: str, folder: Path, *, pick: Callable[[int, When], bool] | None = None
) -> Iterator[CrashReport]:
    """Kill `scenario` ("package.module:function") at each of its writes, in a fresh file each.

    The scenario is `async def scenario(journal, witness)`; it calls `witness(text)` after each
    acknowledgement it got. It is first run undisturbed to count its writes; `pick` then chooses
    among all the points (default: every one).
    """
    with _server(scenario) as ask:
        undisturbed = ask(folder / "undisturbed.db", 0, "before")
        for at in range(1, undisturbed.writes + 1):
            for when in get_args(When):
                if pick is None or pick(at, when):
                    path = folder / f"{at}-{when}.db"
                    life = ask(path, at, when)
                    if life.died:  # one with tasks may get by with fewer writes this time
                        yield CrashReport(at, when, path, life.acked)


@contextlib.contextmanager
def _server(scenario: str) -> Generator[Callable[[Path, int, When], Life]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "pullcord.testing.crash_server", scenario],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    stdin, stdout = process.stdin, process.stdout

    def ask(path: Path, at: int, when: When) -> Life:
        stdin.write(msgspec.json.encode(Point(str(path), at, when)) + b"\n")
        stdin.flush()
        if line := stdout.readline():
            return msgspec.json.decode(line, type=Life)
        raise RuntimeError(f"the crash server for {scenario} ended; see its error output")

    try:
        yield ask
    finally:
        stdin.close()
        process.wait(timeout=30)
        stdout.close()
