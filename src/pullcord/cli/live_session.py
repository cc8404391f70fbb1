"""What each key does: it closes, it asks for a second press, or it sends a command.

The journal decides; the bar shows the panel and never what was pressed. Nothing here knows a
terminal, a thread or a store.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias

from pullcord.cli.live_bar import BODY_ROWS, again, keys, rows
from pullcord.cli.live_card import Shown
from pullcord.cli.live_hand import Seen
from pullcord.cli.live_keys import Key
from pullcord.cli.live_text import clip
from pullcord.cli.live_writing import Writing, value_of
from pullcord.cli.words import clock
from pullcord.core.commands import (
    Answer,
    Approve,
    Cancel,
    Command,
    Deny,
    Pause,
    Raise,
    Redirect,
    Resume,
)
from pullcord.core.panel import Button, Panel
from pullcord.core.states import RunState
from pullcord.core.values import dump
from pullcord.errors import PullcordError

CTRL_C_S: Final = 2.0
AGAIN_S: Final = 3.0
_NOTICE_S: Final = 4.0
_REST_S: Final = 0.05
_S = RunState
Leave: TypeAlias = Literal["", "given back", "at once"]
HELP: Final = """\
p      pause and resume; while it is pausing, cut what it waits for
r      redirect: write what is new; it rewrites what comes next
c c    cancel: stop for good and keep what is done; asked for twice
a      what waits for your word: calls to allow, questions to answer
+      raise a limit that was reached
q q    leave: the run is given back unharmed, for any terminal to go on
Esc    closes what is open, or else pauses
Ctrl-C the same; twice within 2 s cancels; once more leaves at once
Ctrl-Z stops this process, and with it the run, until fg
"""


class Hands(Protocol):
    """What a key may do to the world."""

    def look(self) -> Seen: ...

    def ask(self, run_id: str, command: Command) -> Any: ...


class _Again:
    """A key that has to be pressed a second time."""

    def __init__(self, key: str, title: str, says: str, until_s: float, then: Callable[[], None]):
        self.key, self.title, self.says = key, title, says
        self.until_s, self.then = until_s, then


class Session:
    """One person at one terminal. `tell` writes a line above the bar; `edit` has a text edited in
    the person's own editor, None if there is none; `clock` is in seconds."""

    def __init__(
        self,
        hands: Hands,
        *,
        me: str,
        clock: Callable[[], float],
        tell: Callable[[str], None],
        edit: Callable[[str], str | None],
    ) -> None:
        self._hands = hands
        self._clock = clock
        self._tell = tell
        self._edit = edit
        self._who: Any = {"by": me, "via": "terminal"}
        self._me = me
        self._seen = hands.look()
        self._open: _Again | Writing | Shown | None = None
        self._notice, self._notice_until_s = "", 0.0
        self._ctrl_c_s = self._refreshed_s = float("-inf")
        self._has_cancelled = False
        self.leaves: Leave = ""

    @property
    def panel(self) -> Panel:
        return self._seen.panel

    # --- looking ---

    def refresh_if_due(self) -> float:
        """Text may come many times a second, and the bar need not be read as often. Return how
        long it still may wait, if it does."""
        left = self._refreshed_s + _REST_S - self._clock()
        if left > 0:
            return left
        self.refresh()
        return 0.0

    def refresh(self) -> None:
        """See how the run is now, and let go of what has gone or has waited too long."""
        self._seen = self._hands.look()
        now = self._refreshed_s = self._clock()
        match self._open:
            case _Again(until_s=until_s) if until_s <= now:
                self._open = None
            case Shown() as shown if not any(shown.is_of(card) for card in self._seen.cards):
                self._open = None
                self._say("That call is not waiting any more.")
            case Writing(question=question, run=run) if question and not self._waits(run, question):
                self._open = None
                self._say("That is not waiting any more.")
            case _:
                pass
        if self._notice and self._notice_until_s <= now:
            self._notice = ""

    def _waits(self, run: str, question: str) -> bool:
        both = [*self._seen.cards, *self._seen.questions]
        return any((one.run, one.question) == (run, question) for one in both)

    def bar(self, columns: int, of_rows: int) -> list[str]:
        aside = "? help"
        match self._open:
            case _Again() as asked:
                left = asked.until_s - self._clock()
                body = again(asked.title, asked.says, asked.key, left, columns)
            case Writing() as writing:
                aside = "Enter sends · Esc closes"
                body = writing.shown(columns, self.panel)
            case Shown() as shown:
                left = shown.card.expires_at_ms - self._seen.now_ms
                aside = f"expires in {clock(left)}"
                body = shown.page(columns, max(of_rows * 2 // 3, BODY_ROWS), self._clock())
            case _:
                body = keys(self.panel, columns, self._notice)
        return rows(self.panel, body, columns=columns, of_rows=of_rows, me=self._me, aside=aside)

    # --- pressing ---

    def press(self, key: Key) -> None:
        if not isinstance(self._open, Writing):
            self.refresh()
        if key.name == "ctrl-c":
            self._ctrl_c()
        elif isinstance(self._open, Writing):
            self._write(self._open, key)
        elif isinstance(self._open, Shown):
            self._review(self._open, key)
        elif isinstance(self._open, _Again):
            self._second(self._open, key)
        else:
            self._first(key)

    def _first(self, key: Key) -> None:
        match key.name, key.text:
            case "esc", _:
                self._stop()
            case "char", "p":
                self._with(("pause", "resume"), self._pause_or_resume)
            case "char", "r":
                self._with(("redirect",), self._redirect)
            case "char", "c":
                self._with(("cancel",), self._cancel)
            case "char", "a":
                self._next_card()
            case "char", "+":
                self._with(("raise",), self._raise)
            case ("char", "q") | ("ctrl-d", _):
                says = "it is kept as it is; go on with it in any terminal"
                self._ask_again("q", "Leave", says, self._give_back)
            case "char", "?":
                self._tell(HELP)
            case _:
                pass

    def _with(self, verbs: tuple[str, ...], does: Callable[[Button], None]) -> None:
        """What the panel offers for these verbs, or why it does not."""
        for button in self.panel.buttons:
            if button.verb in verbs:
                return self._say(f"{button.label}: {button.off}.") if button.off else does(button)
        why = "no limit was reached" if verbs == ("raise",) else f"it is {self.panel.state}"
        return self._say(f"{verbs[0].capitalize()}: {why}.")

    def _pause_or_resume(self, button: Button) -> None:
        if button.verb == "resume":
            self._send(Resume(**self._who, seen_seq=self.panel.seq))
        else:
            self._send(Pause(**self._who, now=button.body.get("now", False)))

    def _redirect(self, _: Button) -> None:
        self._open = Writing("redirect", self.panel.run)

    def _cancel(self, button: Button) -> None:
        command = Cancel(**self._who, now=button.body.get("now", False))
        self._ask_again("c", button.label, button.says, lambda: self._send(command))

    def _raise(self, _: Button) -> None:
        caps = {one.cap: one.suggest for one in self.panel.raise_}
        told = [
            f"{one.cap} {one.of:g} → {one.suggest:g} ({one.used:g} used)"
            for one in self.panel.raise_
        ]
        command = Raise(**self._who, caps=caps)
        self._ask_again("+", "Raise the limit", ", ".join(told), lambda: self._send(command))

    def _ask_again(self, key: str, title: str, says: str, then: Callable[[], None]) -> None:
        self._open = _Again(key, title, says, self._clock() + AGAIN_S, then)

    def _second(self, asked: _Again, key: Key) -> None:
        self._open = None
        if key == Key("char", asked.key):
            asked.then()

    # --- the stop keys: the first press never destroys ---

    def _ctrl_c(self) -> None:
        if self._open is not None:
            self._open = None
            return
        now, before = self._clock(), self._ctrl_c_s
        self._ctrl_c_s = now
        is_second = now - before <= CTRL_C_S
        if self.panel.state is _S.CANCELLING:
            if is_second or self._has_cancelled:
                self.leaves = "at once"
            else:
                self._say(
                    "Cancelling already. Ctrl-C again within 2 s leaves at once; the next owner "
                    "goes on cancelling."
                )
        elif is_second:
            self._has_cancelled = True
            self._send(Cancel(**self._who))
        else:
            self._stop()

    def _stop(self) -> None:
        """Pause, if there is anything to pause."""
        more = "Ctrl-C twice within 2 s cancels, q leaves it as it is."
        if self.panel.state is _S.PAUSED:
            self._say(f"Paused already: nothing is running. {more}")
        elif self.panel.state is _S.PAUSING:
            self._say(f"Pausing already; p cuts what it waits for. {more}")
        else:
            self._with(("pause", "resume"), self._pause_or_resume)

    def _give_back(self) -> None:
        self.leaves = "given back"

    # --- writing ---

    def _write(self, writing: Writing, key: Key) -> None:
        if key.name == "esc":
            self._open = None
        elif key.name != "enter":
            writing.line.press(key)
        elif writing.text or writing.kind == "deny":
            self._open = None
            self._send_written(writing)

    def _send_written(self, writing: Writing) -> None:
        try:
            match writing.kind:
                case "redirect":
                    command = Redirect(**self._who, instruction=writing.text)
                case "answer":
                    value = dump(value_of(writing.text))
                    command = Answer(**self._who, question=writing.question, value=value)
                case "deny":
                    who: Any = self._who | {"reason": writing.text}
                    command = Deny(**who, question=writing.question)
                case "args":
                    args = dump(value_of(writing.text, is_json=True))
                    command = Approve(
                        **self._who, question=writing.question, edited=True, args=args
                    )
        except PullcordError as error:
            self._open = writing
            return self._tell_trouble(str(error))
        return self._send(command, writing.run)

    # --- the inbox ---

    def _next_card(self) -> None:
        if self._seen.cards:
            self._open = Shown(self._seen.cards[0], self._clock())
        elif self._seen.questions:
            one = self._seen.questions[0]
            self._open = Writing("answer", one.run, question=one.question, about=one.text)
        else:
            self._say("Nothing waits for your word.")

    def _review(self, shown: Shown, key: Key) -> None:
        card, now = shown.card, self._clock()
        match key.name, key.text:
            case "esc", _:
                self._open = None
            case ("char", " ") | ("down" | "page-down", _):
                shown.scroll(1 if key.name == "down" else 5, now)
            case "up" | "page-up", _:
                shown.scroll(-1 if key.name == "up" else -5, now)
            case "char", "y" | "n" | "e" if not shown.is_seen or shown.waits_s(now) > 0:
                pass  # nobody can have read it
            case "char", "y":
                self._open = None
                self._send(Approve(**self._who, question=card.question, call=card.call), card.run)
            case "char", "n":
                self._open = Writing("deny", card.run, question=card.question, about=card.tool)
            case "char", "e":
                self._change(shown)
            case _:
                pass

    def _change(self, shown: Shown) -> None:
        card = shown.card
        text = bytes(dump(card.args)).decode()
        writing = Writing("args", card.run, question=card.question, about=card.tool, text=text)
        edited = self._edit(text)
        if edited is None:
            self._open = writing
        elif edited.strip() in ("", text):
            self._say("Nothing was changed.")
        else:
            self._open = None
            written = Writing("args", card.run, question=card.question, text=edited.strip())
            self._send_written(written)

    # --- sending, and what comes back ---

    def _send(self, command: Command, run: str = "") -> None:
        try:
            ack = self._hands.ask(run or self.panel.run, command)
        except PullcordError as error:
            return self._tell_trouble(str(error))
        self._notice = ""
        self.refresh()
        if not ack.holds:
            self._tell_trouble(ack.message)
        return None

    def _tell_trouble(self, message: str) -> None:
        self._tell(f"{message}\n")
        self._say(clip(message, 200))

    def _say(self, notice: str) -> None:
        self._notice, self._notice_until_s = notice, self._clock() + _NOTICE_S

    def due_in_s(self) -> float:
        """When something changes by itself, at the latest."""
        now = self._clock()
        due = [1.0 - now % 1.0]
        if isinstance(self._open, _Again):
            due.append(self._open.until_s - now)
        if isinstance(self._open, Shown) and (left := self._open.waits_s(now)):
            due.append(left)
        if self._notice:
            due.append(self._notice_until_s - now)
        return max(min(due), 0.02)
