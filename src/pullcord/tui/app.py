"""`pullcord top`: all runs, live, and the cord of the one that is selected.

Keys go through one place, here: what is open takes them first, then the screen and the cord.
Nothing is stopped by leaving, by Esc, or by any single key.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import ClassVar, Final

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.timer import Timer
from textual.widgets import Input

from pullcord.core.show.panel import Panel
from pullcord.core.show.words import count
from pullcord.core.states import LIVING, NEEDS_OWNER, TERMINAL, RunState
from pullcord.errors import PullcordError
from pullcord.journal.views.inbox import Open
from pullcord.terminal.keymap import Keymap
from pullcord.tui.aim import READ_S, Aim
from pullcord.tui.bar import Bar, Words
from pullcord.tui.command_sender import CommandSender
from pullcord.tui.cord_keys import Around, CordKeys
from pullcord.tui.key_help import hint
from pullcord.tui.line_widgets import FixedLines
from pullcord.tui.lines import Line, Piece, flat, line, spread
from pullcord.tui.pane import TABS, Pane
from pullcord.tui.roster import Roster
from pullcord.tui.run_list import RunList
from pullcord.tui.source import Source
from pullcord.tui.theme import THEMES

_PAGE: Final = 100
_ENDED_MAX: Final = 2000  # of runs that have ended; older ones: pullcord ps --all
_NOTICE_S: Final = 12.0
_LOOK_S: Final = 5.0  # that a process has died is in no record
_WIDE: Final = 110
_HELD: Final = (RunState.PAUSING, RunState.PAUSED)
_ASKED_FIRST: Final = (RunState.WAITING, RunState.PAUSED)


class Top(App[str], inherit_bindings=False):
    """The screen. `now` is the clock by which presses and ticking are counted."""

    CSS_PATH = "top.tcss"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "leave", "Leave", priority=True, show=False)
    ]

    def __init__(
        self,
        source: Source,
        me: str,
        *,
        bound: Keymap | None = None,
        now: Callable[[], float] = time.monotonic,
        light: bool = False,
    ) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = "pullcord-light" if light else "pullcord-dark"
        self._source = source
        self._bound = bound = bound or Keymap()
        self._now = now
        self.roster = Roster()
        self.is_loaded = False
        self.notice = ""
        self.engaged: list[str] = []  # what the kill switch is engaged for
        self.trouble = ""  # why nothing new is heard
        self._living_only = False
        self._notice_timer: Timer | None = None
        hand, control = Aim(now), CommandSender(source, me, say=self.say, look=self._look)
        self.title_line, self.hint = (
            FixedLines(self._title, id="title"),
            FixedLines(self._hint, id="hint"),
        )
        self.banner = FixedLines(lambda width: banner(self.engaged, width), id="banner")
        self.filter = Words(id="filter", compact=True, placeholder="only runs with these words")
        self.runs = RunList(self.roster, now, id="runs")
        self.pane = Pane(source, hand, now, bound, self.say)
        self.bar = Bar(hand, me, now, bound)
        self.hand = hand
        self.cord = CordKeys(
            Around(self.bar, self.pane, hand, control, bound, self.say, self.update)
        )

    def compose(self) -> ComposeResult:
        yield self.title_line
        yield self.banner
        yield self.filter
        with Container(id="both"):
            yield self.runs
            yield self.pane
        yield self.bar
        yield self.hint

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.run_worker(self._hear, group="hear")
        self.set_interval(1.0, self._tick)
        self.set_interval(_LOOK_S, self._look_after)

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#both").set_class(event.size.width >= _WIDE, "wide")
        self.call_after_refresh(self.update)

    # --- the runs ---

    async def _load(self) -> None:
        """First those that may need a person, then the other living ones, then the ended."""
        try:
            for states in (_ASKED_FIRST, LIVING - set(_ASKED_FIRST), TERMINAL):
                before, known = None, 0
                while found := await self._source.listed(states, before=before, limit=_PAGE):
                    before, known = found[-1].run, known + len(found)
                    self._take(found)
                    if len(found) < _PAGE or (states is TERMINAL and known >= _ENDED_MAX):
                        break
        except PullcordError as error:
            self.say(str(error))
        self.is_loaded = True
        self.update()

    async def _hear(self) -> None:
        try:
            async with aclosing(self._source.changes()) as changes:
                async for news in changes:
                    if news.is_fresh:
                        self.run_worker(self._load, group="load", exclusive=True)
                    self._take(news.panels)
                    if news.is_fresh or any(one.state in _HELD for one in news.panels):
                        self.run_worker(self._look_at_switch, group="switch", exclusive=True)
                    self._tell_trouble(news.trouble)
        except PullcordError as error:
            self.is_loaded = True
            self._tell_trouble(str(error))

    def _tell_trouble(self, trouble: str) -> None:
        if self.trouble and not trouble:
            self.say("Connected again.")
        self.trouble = trouble
        self.update()

    async def _look(self, *runs: str) -> None:
        self._take(await self._source.panels(*runs))

    async def _look_after(self) -> None:
        shown = {*self.runs.in_view(), self.roster.kept} & self.roster.rows.keys()
        rows = self.roster.rows
        if self.trouble:
            return
        await self._look_at_switch()
        if driven := [run for run in shown if rows[run].panel.state in NEEDS_OWNER]:
            try:
                await self._look(*driven)
            except PullcordError as error:
                self.say(str(error))

    async def _look_at_switch(self) -> None:
        """It may be pulled at any time, by anybody, and then nothing else is as important."""
        with suppress(PullcordError):  # whoever cannot say says so elsewhere
            self.engaged = await self._source.switched_off()
            self.set_class(bool(self.engaged), "engaged")
            self.banner.update()

    def _take(self, panels: Sequence[Panel]) -> None:
        stayed = self.roster.take(panels, self._now())
        if stayed is None:
            self.runs.reorder()
        else:
            self.runs.redraw(stayed)
        if not self.roster.kept and len(self.roster):
            self.select(self.roster.at(0))
        elif any(panel.run == self.roster.kept for panel in panels):
            self._show()
        self.title_line.update()

    def select(self, run: str) -> None:
        """Look at this run from now on."""
        before = self.roster.kept
        if self.roster.keep(run):
            self.runs.reorder()
        self.runs.redraw({before, run})
        self.runs.reveal(run)
        self._show()

    def _show(self) -> None:
        row = self.roster.rows.get(self.roster.kept)
        self.bar.show(row)
        self.pane.show(row.panel if row else None)

    def _move(self, by: int) -> None:
        if len(self.roster):
            place = (self.roster.place(self.roster.kept) or 0) + by
            self.select(self.roster.at(min(max(place, 0), len(self.roster) - 1)))

    def on_run_list_picked(self, event: RunList.Picked) -> None:
        self.select(event.run)

    # --- keys ---

    def on_key(self, event: events.Key) -> None:
        is_writing = isinstance(self.focused, Input)
        if is_writing and event.key != "escape":
            return  # it is text, or moves about in it
        event.prevent_default()
        event.stop()
        key = (event.character if event.is_printable else event.key) or ""
        if self.hand.armed and not is_writing:
            self.cord.while_armed(key)
        elif act := self._acts(key):
            act()
        self.update()

    def _acts(self, key: str) -> Callable[[], None] | None:
        """What a key does here: what is bound to it, or what it always does."""
        actions = self.cord.actions | self._actions()
        return actions.get(self._bound.action(key)) or self._always().get(key)

    def _actions(self) -> dict[str, Callable[[], None]]:
        """The actions on nothing but the screen."""
        pane = self.pane
        return {
            "review": self._approvals,
            "previous_card": lambda: pane.next_card(-1),
            "next_card": lambda: pane.next_card(1),
            "read_on": lambda: pane.scroll(1),
            "up": lambda: self._move(-1),
            "down": lambda: self._move(1),
            "filter": self._filter,
            "living": self._living,
            "theme": self._turn_theme,
            "help": pane.help,
            "leave": self.action_leave,
        }

    def _always(self) -> dict[str, Callable[[], None]]:
        """The keys that nobody can bind."""
        pane, end = self.pane, len(self.roster)
        moves = {"up": -1, "down": 1, "home": -end, "end": end}
        turns = {"tab": 1, "right": 1, "shift+tab": -1, "left": -1}
        return {
            "escape": self._close,
            "pageup": lambda: pane.scroll(-1),
            "pagedown": lambda: pane.scroll(1),
            **{key: lambda by=by: self._move(by) for key, by in moves.items()},
            **{key: lambda by=by: pane.turn_by(by) for key, by in turns.items()},
            **{str(n): lambda tab=tab: pane.turn_to(tab) for n, tab in enumerate(TABS, start=1)},
        }

    def _approvals(self) -> None:
        """Show what waits for a word: of this run, or of the first one that has something."""
        if not (self.bar.panel and self.bar.panel.wants):
            if run := self.roster.first_that_waits():
                self.select(run)
            else:
                self.say("Nothing waits for an answer.")
        self.pane.turn_to("approvals", then=self._answer)
        self.set_timer(READ_S + 0.1, self.update)

    def _answer(self) -> None:
        """It is on the screen by now. A question is answered at once, in its line."""
        if isinstance(asked := self.pane.card, Open) and not isinstance(self.focused, Input):
            self.cord.answer(asked)

    def _filter(self) -> None:
        self.add_class("filtering")
        self.filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self.filter:
            self._narrow()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input is self.filter:  # what is listed stays so; the keys are the run's again
            self.set_focus(None)
            self.set_class(bool(event.value.strip()), "filtering")

    def _living(self) -> None:
        self._living_only = not self._living_only
        self._narrow()

    def _narrow(self) -> None:
        self.roster.narrow(self.filter.value, living_only=self._living_only)
        self.runs.reorder()
        self.runs.reveal(self.roster.kept)
        self.update()

    def _close(self) -> None:
        """Close what is open, one thing at a time. Nothing else."""
        if self.bar.ask:
            self.bar.close()
        elif self.has_class("filtering"):
            self.set_focus(None)
            self.filter.value = ""
            self.remove_class("filtering")
        elif self.pane.is_help:
            self.pane.help()
        else:
            self.say("")

    def _turn_theme(self) -> None:
        is_dark = self.theme == "pullcord-dark"
        self.theme = "pullcord-light" if is_dark else "pullcord-dark"

    def action_leave(self) -> None:
        """Leave. Whatever runs, runs on."""
        living = self.roster.living
        goes = f" {count(living, 'run')} {'goes' if living == 1 else 'go'} on as before."
        self.exit(f"Nothing was stopped.{goes if living else ''}")

    # --- lines ---

    def say(self, notice: str) -> None:
        """One line about the last press."""
        self.notice = notice
        if self._notice_timer:
            self._notice_timer.stop()
        if notice:
            self._notice_timer = self.set_timer(_NOTICE_S, lambda: self.say(""))
        self.hint.update()

    def _tick(self) -> None:
        self.runs.tick()
        self.update()

    def update(self) -> None:
        """Draw what has changed around the list."""
        if not self.is_running:
            return
        self.set_class(self.pane.tab == "approvals" or self.pane.is_help, "reviewing")
        self.title_line.update()
        self.hint.update()
        self.bar.update()
        self.pane.update()

    def _title(self, width: int) -> list[Line]:
        told = {"is_loaded": self.is_loaded, "living_only": self._living_only}
        return [title(self.roster, self._source.name, width, **told)]

    def _hint(self, width: int) -> list[Line]:
        return [status(self.notice, self.trouble, hint(self._bound, width))]


def title(roster: Roster, where: str, width: int, *, is_loaded: bool, living_only: bool) -> Line:
    found: list[Piece] = []
    if roster.needing:
        word = "needs" if roster.needing == 1 else "need"
        found.append(Piece(f"{roster.needing:,} {word} you  ", "waiting strong"))
    listed = f"{len(roster):,} of " if len(roster) < len(roster.rows) else ""
    known = f"{roster.living:,} living  {listed}{count(len(roster.rows), 'run')}"
    found.append(Piece(known if is_loaded else f"{known}, reading on", "number"))
    only = " · living only" if living_only else ""
    name = Piece(f" · {flat(where, 80)}{only}", "muted")
    return spread((Piece("pullcord top", "strong"), name), tuple(found), width)


def banner(engaged: Sequence[str], width: int) -> list[Line]:
    """While the kill switch is engaged: that it is, and the way out. Nothing, while it is not."""
    if not engaged:
        return []
    said = flat(f"{engaged[0][:1].upper()}{engaged[0][1:]}", 300)
    more = f", and {len(engaged) - 1} more" if len(engaged) > 1 else ""
    left = line(f"■ {said}{more}. Nothing starts.", role="held strong")
    return [spread(left, line("pullcord kill-switch release", role="muted"), width)]


def status(notice: str, trouble: str, keys: str) -> Line:
    """About the last press; or else why nothing is heard; or else which keys there are."""
    if notice:
        return line(flat(notice, 400))
    return line(flat(trouble, 400), role="held strong") if trouble else line(keys, role="muted")
