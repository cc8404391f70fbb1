"""A run in a terminal, with its bar: a thread that draws and hears keys, whatever the agents do.

It reads and commands the run through the journal alone, so an agent that holds the event loop
can hold up neither the bar nor a key.
"""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from pullcord.cli.live.key_reader import Key, KeyReader
from pullcord.cli.live.local_run import LocalRun
from pullcord.cli.live.screen import FooterScreen
from pullcord.cli.live.session import KeySession, Leave
from pullcord.cli.live.terminal import Terminal, is_live
from pullcord.cli.local_runs import LocalRuns
from pullcord.cli.parser import INTERRUPTED, store_path
from pullcord.cli.render.narration import Narration
from pullcord.cli.render.run_text import paint, plain
from pullcord.cli.standard_streams import put
from pullcord.core.events import (
    Blocked,
    Claimed,
    Created,
    InstructionSettled,
    Planned,
    Record,
    Remembered,
    Requeued,
    Spent,
)
from pullcord.core.fold import ends
from pullcord.journal.open_store import opened
from pullcord.journal.stored_runs.run_records import Cursor
from pullcord.journal.views.local_viewer import LocalViewer
from pullcord.terminal.keymap import Keymap

_ESC_S: Final = 0.05
# What the bar shows anyhow, or what says nothing to a person.
_UNTOLD: Final = (
    Created,
    Claimed,
    Blocked,
    Requeued,
    Planned,
    Spent,
    Remembered,
    InstructionSettled,
)
Watching = Callable[[Callable[[Any], None]], Callable[[], None]]


def is_wanted(asked: Any) -> bool:
    """Whether somebody sits in front of it and wants to read words."""
    return not asked.json and store_path(asked.store) != ":memory:" and is_live()


class RunView:
    """Used with `with`, by the main thread. `began` starts the bar; `leaves` says how it ended."""

    def __init__(self, store: str, *, me: str, bound: Keymap) -> None:
        self._store = store
        self._me = me
        self._bound = bound
        self._terminal = Terminal()
        self._screen = FooterScreen(self._terminal.write, self._terminal.size)
        self._keys = KeyReader()
        self._pressed_s = 0.0
        self._thread: threading.Thread | None = None
        self._is_over = False  # nothing of the run is left to be shown
        self._has_ended = False  # the run, and not only we
        self._is_closing = False
        self._is_midline = False
        self.telling: Narration | None = None
        self.leaves: Leave = ""
        self.broken: Exception | None = None

    def __enter__(self) -> "RunView":
        self._terminal.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing = self._is_over = True
        self._terminal.poke()
        if self._thread:
            self._thread.join()
        self._terminal.close()

    def began(
        self,
        run_id: str,
        *,
        watch: Watching,
        over: Callable[[], None],
        after: Cursor,
        hold_s: float,
    ) -> None:
        """Show this run until it has ended or somebody leaves; then call `over`, once."""
        self._run_id = run_id
        stop_watching = watch(lambda _: self._terminal.poke())

        def show() -> None:
            try:
                with_store(self._store, lambda here: self._show(here, after, hold_s))
            except Exception as error:
                self.broken = error
            finally:
                self._put_back()
                stop_watching()
                over()
            self._linger()

        self._thread = threading.Thread(target=show, name="pullcord-bar", daemon=True)
        self._thread.start()

    # --- the thread ---

    def _show(self, here: LocalRuns, after: Cursor, hold_s: float) -> None:
        paint(is_terminal=True)
        hand = LocalRun(here, self._run_id, after=after, hold_s=hold_s)
        says = self._say if self._terminal.has_stdout else _to_stdout
        reader = LocalViewer(
            self._me,
            "terminal",
            since=here.run(self._run_id)[0].seq,
            noted=lambda said: here.note_shown(self._run_id, said),
        )
        self.telling = Narration(self._run_id, says=says, tells=self._say, reader=reader)
        session = KeySession(
            hand,
            me=self._me,
            bound=self._bound,
            clock=time.monotonic,
            tell=self._tell,
            edit=self._edit,
        )
        self._take()
        while not self._is_over:
            self._hear_signals(session)
            self._hear_keys(session)
            self._follow(hand)
            left_s = session.refresh_if_due()
            self._show_printed()
            if session.leaves:
                self.leaves = session.leaves
            if self.leaves or self._is_over:
                break
            self._screen.show(session.bar(self._screen.columns, self._screen.rows))
            due_s = min(left_s or session.due_in_s(), session.due_in_s())
            self._terminal.wait(min(due_s, _ESC_S) if self._keys.is_unsure else due_s)
        if self.leaves == "at once":
            self._leave_at_once()

    def _follow(self, hand: LocalRun) -> None:
        assert self.telling is not None
        for cursor, item in hand.news():
            if not isinstance(item, Record) or not isinstance(item.event, _UNTOLD):
                if self._is_midline:  # of what some code has printed
                    self._say("\n")
                    self._is_midline = False
                self.telling.tell(cursor, item)
            if isinstance(item, Record) and ends(item.event):
                self._is_over = self._has_ended = True

    def _hear_keys(self, session: KeySession) -> None:
        pressed = self._terminal.pressed()
        if pressed is None:  # it has hung up
            self.leaves = self.leaves or "given back"
            return
        now = time.monotonic()
        if pressed:
            self._pressed_s = now
            found = self._keys.feed(pressed)
        else:
            found = self._keys.quiet() if now - self._pressed_s >= _ESC_S else []
        for key in found:
            if key.name == "ctrl-z":
                os.kill(0, signal.SIGTSTP)  # everybody in this job, as without us
            else:
                session.press(key)

    def _hear_signals(self, session: KeySession) -> None:
        for number in self._terminal.signals():
            match number:
                case signal.SIGWINCH:
                    self._screen.resized()
                case signal.SIGTSTP:
                    self._put_back()
                    os.kill(os.getpid(), signal.SIGSTOP)
                case signal.SIGCONT:
                    self._take()
                case signal.SIGINT:
                    session.press(Key("ctrl-c"))
                case _:
                    self.leaves = "given back"

    # --- the terminal ---

    def _take(self) -> None:
        if self._terminal.take():
            self._screen.up()

    def _put_back(self) -> None:
        if self.telling:
            self.telling.end_line()
        self._show_printed()
        self._screen.down()
        self._terminal.give()

    def _say(self, text: str) -> None:
        self._screen.say(text)

    def _tell(self, text: str) -> None:
        """Something of our own, in lines of its own."""
        if self.telling:
            self.telling.end_line()
        self._say(plain(text))

    def _show_printed(self) -> None:
        while text := self._terminal.printed():
            if self.telling and not self._is_midline:
                self.telling.end_line()
            self._say(text)
            self._is_midline = not text.endswith("\n")

    def _edit(self, text: str) -> str | None:
        """Have it edited. None: there is no editor to do it in."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor:
            return None
        with tempfile.NamedTemporaryFile("w+", suffix=".json", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            self._put_back()
            try:
                subprocess.run([*shlex.split(editor), file.name], check=False)
            except OSError as error:
                self._say(f"{plain(str(error))}\n")
                return None
            finally:
                list(self._terminal.signals())  # meant for the editor
                self._take()
            with open(file.name, encoding="utf-8", errors="replace") as edited:
                return edited.read()

    # --- leaving ---

    def _leave_at_once(self) -> None:
        """End the process, now. Whoever has the run next goes on cancelling."""
        self._put_back()
        self._terminal.write(
            f"Left at once. {self._run_id} is being cancelled, and whoever drives it next goes on "
            f"with that.\nDo it here: pullcord cancel {self._run_id}, or with what it did undone: "
            f"pullcord undo {self._run_id}\n"
        )
        os._exit(INTERRUPTED)

    def _linger(self) -> None:
        """While the main thread gives the run back, which takes as long as its steps are allowed
        to take: one more Ctrl-C does not wait for that."""
        while not self._is_closing:
            self._terminal.wait(5.0)
            if set(self._terminal.signals()) & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}:
                kept = f"It is kept as it is. Go on with: pullcord resume {self._run_id}"
                if self._has_ended:
                    kept = f"It has ended. What it left behind: pullcord receipt {self._run_id}"
                self._terminal.write(f"\nLeft at once. {kept}\n")
                os._exit(INTERRUPTED)


def with_store(path: str, work: Callable[[LocalRuns], None]) -> None:
    store = opened(path)
    try:
        work(LocalRuns(store))
    finally:
        store.close()


def _to_stdout(text: str) -> None:
    put(sys.stdout, text)  # if whoever read it has had enough, the run goes on
