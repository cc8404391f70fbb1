"""The control bar: how the selected run is and what each key does to it. It never moves."""

from collections.abc import Awaitable, Callable
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from pullcord.core.show.panel import Panel
from pullcord.terminal.keymap import Keymap
from pullcord.terminal.single_row import single_row
from pullcord.tui.aim import REASONS, Aim, Armed
from pullcord.tui.barlines import between, head, keys, title
from pullcord.tui.line_widgets import FixedLines
from pullcord.tui.lines import BLANK, Line, Piece, line, width_of, wrapped
from pullcord.tui.roster import RosterRow


class Ask(NamedTuple):
    """What somebody is about to write: what will come of it, and who takes it. `send` returns
    whether it was taken. `follow` returns `before` and `prompt` as the run has them now; without
    it they stay as they are."""

    name: str
    before: Line
    prompt: str
    send: Callable[[str], Awaitable[bool]]
    value: str = ""
    follow: Callable[[Panel], tuple[Line, str]] | None = None


class Words(Input):
    """A line to write in. What is pasted is one line, and nothing in it acts unseen."""

    ALLOW_SELECT: ClassVar[bool] = False

    def _on_paste(self, event: events.Paste) -> None:
        self.insert_text_at_cursor(single_row(" ".join(event.text.split())))
        event.prevent_default()
        event.stop()


class Bar(Vertical):
    """Shows a row's panel; opens in place where something has to be written."""

    def __init__(self, hand: Aim, me: str, now: Callable[[], float], bound: Keymap) -> None:
        super().__init__(id="bar")
        self._hand = hand
        self._me = me
        self._now = now
        self._bound = bound
        self._row: RosterRow | None = None
        self.ask: Ask | None = None
        self._words = Words(id="words", compact=True, select_on_focus=False)
        self._sheets = {
            name: FixedLines(draw, id=name)
            for name, draw in (
                ("head", self._head),
                ("before", self._before),
                ("after", self._after),
                ("prompt", self._prompt),
                ("keys", self._keys),
            )
        }
        self.drafts: dict[tuple[str, str], str] = {}  # what was begun and not sent, by run

    def compose(self) -> ComposeResult:
        yield self._sheets["head"]
        yield self._sheets["before"]
        with Horizontal(id="second"):
            yield self._sheets["after"]
            yield self._sheets["prompt"]
            yield self._words
        yield self._sheets["keys"]

    @property
    def panel(self) -> Panel | None:
        return self._row.panel if self._row else None

    def show(self, row: RosterRow | None) -> None:
        """Show this run. What was being written for another one is put away."""
        if self._row and (row is None or row.panel.run != self._row.panel.run):
            self.close()
        self._row = row
        if row:
            self._hand.note(row.panel)
        self.update()

    def update(self) -> None:
        if self.ask:
            self._sheets["prompt"].styles.width = cell_len(self._around_the_words(self.ask)[1])
        for sheet in self._sheets.values():
            sheet.update()

    # --- writing in place ---

    def open(self, ask: Ask) -> None:
        self.close()
        self.ask = ask
        self.add_class("writing")
        words = self._words
        words.value = self.drafts.get((self._run, ask.name), ask.value)
        words.cursor_position = len(words.value)
        words.focus()
        self.update()

    def close(self, *, is_sent: bool = False) -> None:
        """Put away what is open. What was written is there when it is opened again."""
        if self.ask is None:
            return
        words = self._words
        self.drafts.pop((self._run, self.ask.name), None)
        if not is_sent and words.value != self.ask.value:
            self.drafts[self._run, self.ask.name] = words.value
        self.ask = None
        self.remove_class("writing")
        self.screen.set_focus(None)
        self.update()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        ask = self.ask
        if ask and await ask.send(event.value) and self.ask is ask:
            self.close(is_sent=True)

    @property
    def _run(self) -> str:
        return self._row.panel.run if self._row else ""

    # --- lines ---

    def _since_ms(self) -> float:
        return (self._now() - self._row.at_s) * 1000 if self._row else 0.0

    def _head(self, width: int) -> list[Line]:
        if self._row is None:
            return [line("─" * width, role="edge"), line("No run is selected.", role="muted")]
        panel = self._row.panel
        return [
            title(panel, width),
            head(panel, self._me, self._since_ms(), width),
        ]

    def _middle(self, width: int) -> tuple[Line, Line]:
        if self._row is None:
            return BLANK, BLANK
        if armed := self._hand.armed:
            said = f"{armed.button.label} {armed.run}: {armed.button.says}"
            return _in_two(line(said, role="held strong"), width)
        first, second = between(self._row.panel)
        return (first, second) if second else _in_two(first, width)

    def _before(self, width: int) -> list[Line]:
        return [self._around_the_words(self.ask)[0] if self.ask else self._middle(width)[0]]

    def _after(self, width: int) -> list[Line]:
        return [self._middle(width)[1]]

    def _prompt(self, width: int) -> list[Line]:
        if self.ask is None:
            return [BLANK]
        return [line(self._around_the_words(self.ask)[1], role="added")]

    def _around_the_words(self, ask: Ask) -> tuple[Line, str]:
        """The line above the field and the prompt beside it, as the run is now."""
        return ask.follow(self.panel) if ask.follow and self.panel else (ask.before, ask.prompt)

    def _keys(self, width: int) -> list[Line]:
        if self._row is None:
            return []
        if self.ask:
            return [*_sending(), BLANK, BLANK]
        if armed := self._hand.armed:
            return _armed(armed, self._bound["cancel"], width)
        return keys(self._row.panel, width, self._bound)


def _in_two(of: Line, width: int) -> tuple[Line, Line]:
    """A sentence that needs the second line takes it."""
    [said] = of or line("")
    lines = wrapped(said.text, width)
    return line(lines[0], role=said.role), line(" ".join(lines[1:]), role=said.role)


def _armed(armed: Armed, key: str, width: int) -> list[Line]:
    """The second press, why, if somebody wants to say so, and the way out."""
    lines: list[Line] = [
        (
            Piece(f" {key} ", "key"),
            Piece(f" again within 3 s: {armed.button.label.lower()}", "held strong"),
            Piece("    any other key lets go", "muted"),
        ),
        (Piece("Why, if you like: ", "muted"),),
    ]
    for number, reason in enumerate((*REASONS, "other"), start=1):
        mark, role = ("✓", "held strong") if reason == armed.reason else (" ", "")
        said = (Piece(f" {number} ", "key"), Piece(f" {reason} {mark} ", role))
        if width_of((*lines[-1], *said)) > min(width, 80):
            lines.append((Piece(" " * 18),) if width > 62 else ())
        lines[-1] = (*lines[-1], *said)
    return lines[:3]


def _sending() -> list[Line]:
    return [
        (
            Piece(" Enter ", "key"),
            Piece(" sends it   "),
            Piece(" Esc ", "key"),
            Piece(" closes this and keeps what you wrote", "muted"),
        )
    ]
