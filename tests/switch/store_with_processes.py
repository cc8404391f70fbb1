"""A store whose runs have owners in other processes (`owner_process`), and its kill switch."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pullcord.core.commands import Resume
from pullcord.core.states import RunState
from pullcord.journal.open_store import opened
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store_location import beside
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import Flags, Scope, new_note
from pullcord.killswitch.pulled import Pulled
from tests import nursery
from tests.switch.owner_process import FENCE, MARKS
from tests.tools.census import alive, below, living, rid

ROOT: Final = Path(__file__).parents[2]
BOUND_S: Final = 60


class StoreWithProcesses:
    """One store, the processes that drive its runs, and the switch. `url`: it is not a file; then
    `store` is where what would lie beside that lies."""

    def __init__(self, folder: Path, url: str = "", fence: str = "auto") -> None:
        self.url, self.fence = url, fence
        self.store = Path(beside(url)) if url else folder / "runs.db"
        self.marks = folder / "marks"
        self.den = folder / "den"
        self.flags = Flags(str(self.store))
        self.families: list[subprocess.Popen[str]] = []

    @property
    def where(self) -> str:
        """What its processes open."""
        return self.url or str(self.store)

    def opens(self, *wanted: str, kind: str = "killable") -> "subprocess.Popen[str]":
        process = self.tries_to_open(*wanted, kind=kind)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process

    def tries_to_open(self, *wanted: str, kind: str = "killable") -> "subprocess.Popen[str]":
        process = nursery.start(
            *("tests.switch.owner_process", self.where, kind, *wanted),
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ
            | {
                MARKS: str(self.marks),
                FENCE: self.fence,
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            },
        )
        self.families.append(process)
        return process

    def pulls(self, scope: Scope | None = None, *, reason: str = "a test") -> Pulled:
        note = new_note(by="ana", reason=reason, via="test")
        return pull(self.flags, f"{self.store}-side", scope or Scope(), note)

    def starts(self, *of: str) -> list[tuple[str, int]]:
        """What was begun, and when, in the order of the marks."""
        if not self.marks.exists():
            return []
        lines = [line.split() for line in self.marks.read_text().splitlines()]
        return [(what, int(at_ns)) for what, at_ns in lines if not of or what in of]

    def until(self, holds: Callable[[], object]) -> None:
        """Look again and again, within a bound: other processes bring it about."""
        end = time.monotonic() + BOUND_S
        while not holds():
            assert time.monotonic() < end, "it did not come to that"
            time.sleep(0.005)

    def has_begun(self, **wanted: int) -> None:
        self.until(lambda: all(len(self.starts(w)) >= n for w, n in wanted.items()))

    def living(self) -> set[int]:
        return living(str(self.den))

    def loses_everybody(self) -> set[int]:
        """Kill the runtimes, the wardens and all between them and the tools, as `pkill -9 -f
        pullcord` would. Return which processes of tools are left."""
        ours = {process.pid for process in self.families}
        ours |= {pid for process in self.families for pid in below(process.pid)} - self.living()
        for number in (signal.SIGSTOP, signal.SIGKILL):  # none sees another one die, and acts on it
            for pid in ours:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        for process in self.families:
            process.wait()
        self.until(lambda: not alive(ours))
        return self.living()

    def states(self) -> dict[str, str]:
        store = opened(self.where)
        try:
            heads = store.read(
                lambda v: v.heads(states=RunState, thread=None, before=None, limit=1000)
            )
            return {head.run_id: head.state.value for head in heads}
        finally:
            store.close()

    def resumes_all(self) -> None:
        store = opened(self.where)
        ledger = Ledger(store.clock)
        for run_id, state in self.states().items():
            if state == "paused":
                store.write(lambda tx, r=run_id: ledger.command(tx, r, Resume(by="ana")))
        store.poke()
        store.close()

    def close(self) -> None:
        for process in self.families:
            with process:
                process.send_signal(signal.SIGCONT)
                process.kill()


@contextmanager
def store_with_processes(
    folder: Path, url: str = "", fence: str = "auto"
) -> Generator[StoreWithProcesses]:
    home = StoreWithProcesses(folder, url, fence)
    try:
        yield home
    finally:
        home.close()
        home.until(lambda: not home.living())
        assert not rid(str(home.den))
