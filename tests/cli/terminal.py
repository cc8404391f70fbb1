"""The command as a person has it: real processes, a store on disk, words on two streams."""

import json
import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pullcord.core.run import Run
from pullcord.core.states import TERMINAL, RunState
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import View
from pullcord.journal.stored_runs.run_records import existing
from pullcord.journal.stored_runs.snapshots import load
from tests import nursery

T = TypeVar("T")
AGENTS = Path(__file__).with_name("agents.py")


@dataclass
class Said:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal:
    """Runs `pullcord` on one store, and waits for what a command has brought about."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "runs.db"
        self.notes = folder / "notes"
        self.folder: Path | None = None  # where the commands are typed, if that matters
        self.env: dict[str, str] = os.environ | {
            "PULLCORD_STORE": str(self.store),
            "PULLCORD_USER": "ana",
            "NOTES": str(self.notes),
            "COLUMNS": "80",
        }

    def __call__(self, *words: str, given: str | None = None) -> Said:
        done = nursery.run("pullcord", *words, env=self.env, cwd=self.folder, given=given)
        return Said(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, *words: str) -> Generator["subprocess.Popen[str]"]:
        process = nursery.start(
            "pullcord",
            *words,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def until(self, holds: Callable[[Run], bool], run_id: str = "r1") -> Run:
        """Wait for the run to be as it must become. The test's own timeout is the bound."""

        def look(view: View) -> Run | None:
            run = load(view, existing(view, run_id)) if view.head(run_id) else None
            return run if run is not None and holds(run) else None

        return self._until(look)

    def until_it_speaks(self, run_id: str = "r1") -> None:
        self._until(lambda view: view.live(run_id, after_pos=0) or None)

    def _until(self, look: Callable[[View], T | None]) -> T:
        while not self.store.exists():
            os.sched_yield()
        store = SqliteStore(self.store)
        listener = store.listen()
        try:
            while (found := store.read(look)) is None:
                listener.wait(1.0)
            return found
        finally:
            listener.close()
            store.close()

    def reached(self, *states: RunState, run_id: str = "r1") -> Run:
        return self.until(lambda run: run.state in states, run_id)

    def ended(self, run_id: str = "r1") -> Run:
        return self.reached(*TERMINAL, run_id=run_id)

    def effects(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []


def agent(name: str) -> str:
    return f"{AGENTS}:{name}"
