"""What each key does: it closes, it asks for a second press, or it sends a command.

The journal decides; the bar shows the panel and never what was pressed. Nothing here knows a
terminal, a thread or a store.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from pullcord.cli.live.card import CardOnScreen
from pullcord.cli.live.composer import Composer
from pullcord.cli.live.footer import AGAIN_S, Footer, SecondPress
from pullcord.cli.live.key_reader import Key
from pullcord.cli.live.local_run import RunSeen
from pullcord.cli.render.text_width import clip, wrapped
from pullcord.core.commands import Approve, Cancel, Command, Pause, Raise, Resume
from pullcord.core.show.panel import Button, Panel
from pullcord.core.states import RunState
from pullcord.core.values import dump
from pullcord.errors import PullcordError
from pullcord.terminal.choices import choices_of
from pullcord.terminal.key_repeat import HELD_S, KeyRepeat
from pullcord.terminal.keymap import Keymap

_REST_S: Final = 0.05
_S = RunState
Leave: TypeAlias = Literal["", "given back", "at once"]


class Press(NamedTuple):
    """A second press, until it is known that the key is not held down."""

    name: str
    due_s: float
    then: Callable[[], None]


class KeyActions(Protocol):
    """What a key may do to the world."""

    def look(self) -> RunSeen: ...

    def ask(self, run_id: str, command: Command) -> Any: ...


class KeySession:
    """One person at one terminal. `tell` writes a line above the bar; `edit` has a text edited in
    the person's own editor, None if there is none; `clock` is in seconds."""

    def __init__(
        self,
        actions: KeyActions,
        *,
        me: str,
        bound: Keymap,
        clock: Callable[[], float],
        tell: Callable[[str], None],
        edit: Callable[[str], str | None],
    ) -> None:
        self._actions = actions
        self._bound = bound
        self._clock = clock
        self._tell = tell
        self._edit = edit
        self._who: Any = {"by": me, "via": "terminal"}
        self._foot = Footer(actions.look(), me=me, bound=bound, clock=clock)
        self._ctrl_c = CtrlC()
        self._held = KeyRepeat()
        self._press: Press | None = None
        self._refreshed_s = float("-inf")
        self._columns = 80
        self.leaves: Leave = ""

    @property
    def panel(self) -> Panel:
        return self._foot.seen.panel

    # --- looking ---

    def refresh_if_due(self) -> float:
        """Text may come many times a second, and the bar need not be read as often. Return how
        long it still may wait, if it does."""
        if self._press and self._clock() >= self._press.due_s:
            self._carry_out()
        left = self._refreshed_s + _REST_S - self._clock()
        if left > 0:
            return left
        self.refresh()
        return 0.0

    def refresh(self) -> None:
        self._foot.see(self._actions.look())
        self._refreshed_s = self._clock()

    def bar(self, columns: int, of_rows: int) -> list[str]:
        self._columns = columns
        return self._foot.rows(columns, of_rows)

    def due_in_s(self) -> float:
        """When something changes by itself, at the latest."""
        due_s = self._foot.due_in_s()
        return min(due_s, max(self._press.due_s - self._clock(), 0.0)) if self._press else due_s

    # --- pressing ---

    def press(self, key: Key) -> None:
        is_held = self._held.comes_again(key.pressed, self._clock())
        if self._press and not is_held:  # so that was not held down either
            self._carry_out()
        if not isinstance(self._foot.open, Composer):
            self.refresh()
        if is_held and not isinstance(self._foot.open, Composer | CardOnScreen):
            self._let_go_of(key)
        elif key.name == "ctrl-c":
            self._press_ctrl_c()
        elif isinstance(self._foot.open, Composer):
            self._write(self._foot.open, key)
        elif isinstance(self._foot.open, CardOnScreen):
            self._review(self._foot.open, key)
        elif isinstance(self._foot.open, SecondPress):
            self._second(self._foot.open, key)
        else:
            self._first(key)

    def _first(self, key: Key) -> None:
        match "stop" if key.name == "esc" else self._action(key):
            case "stop":
                self._stop()
            case "pause":
                self._with(("pause", "resume"), self._pause_or_resume)
            case "redirect":
                self._with(("redirect",), self._redirect)
            case "cancel":
                self._with(("cancel",), self._cancel)
            case "review":
                self._next_card()
            case "raise":
                self._with(("raise",), self._raise)
            case "leave":
                says = "it is kept as it is; go on with it in any terminal"
                self._ask_again("leave", "Leave", says, self._give_back)
            case "help":
                self._tell(help_text(self._bound, self._columns))
            case "approve" | "deny" | "edit" as word:
                self._say(self._not_shown(word))
            case _:
                pass

    def _not_shown(self, word: str) -> str:
        """Why a word on a call does nothing: none is on the screen."""
        seen = self._foot.seen
        first = f"Press {self._bound['review']} first: it shows what waits for your word."
        if seen.cards:
            return f"{first} Then {self._bound[word]} counts."
        return first if seen.questions else "Nothing waits for your word."

    def _with(self, verbs: tuple[str, ...], does: Callable[[Button], None]) -> None:
        """What the panel offers for these verbs, or why it does not."""
        for button in self.panel.buttons:
            if button.verb in verbs and button.off:
                return self._say(f"{button.label}: {button.off}.")
            if button.verb in verbs:
                return does(button)
        why = "no limit was reached" if verbs == ("raise",) else f"it is {self.panel.state}"
        return self._say(f"{verbs[0].capitalize()}: {why}.")

    def _pause_or_resume(self, button: Button) -> None:
        if button.verb == "resume":
            self._send(Resume(**self._who, seen_seq=self.panel.seq))
        else:
            self._send(Pause(**self._who, now=button.body.get("now", False)))

    def _redirect(self, _: Button) -> None:
        self._foot.open = Composer("redirect", self.panel.run)

    def _cancel(self, button: Button) -> None:
        command = Cancel(**self._who, now=button.body.get("now", False))
        self._ask_again("cancel", button.label, button.says, lambda: self._send(command))

    def _raise(self, _: Button) -> None:
        caps = {one.cap: one.suggest for one in self.panel.raise_}
        told = [
            f"{one.cap} {one.of:g} → {one.suggest:g} ({one.used:g} used)"
            for one in self.panel.raise_
        ]
        command = Raise(**self._who, caps=caps)
        self._ask_again("raise", "Raise the limit", ", ".join(told), lambda: self._send(command))

    def _ask_again(self, action: str, title: str, says: str, then: Callable[[], None]) -> None:
        until_s = self._clock() + AGAIN_S
        self._foot.open = SecondPress(action, self._bound[action], title, says, until_s, then)

    def _second(self, asked: SecondPress, key: Key) -> None:
        self._foot.open = None
        if self._action(key) == asked.action:
            self._foot.open = asked  # it stands while it waits
            self._count(asked.key, asked.then)

    # --- a key that is held down is one press ---

    def _count(self, name: str, then: Callable[[], None]) -> None:
        """Carry it out, unless the key comes again at once."""
        self._press = Press(name, self._clock() + HELD_S, then)

    def _carry_out(self) -> None:
        press, self._press = self._press, None
        if isinstance(self._foot.open, SecondPress):
            self._foot.open = None
        if press:
            press.then()

    def _let_go_of(self, key: Key) -> None:
        if key.name == "ctrl-c":
            self._ctrl_c.let_go()
        if self._press is None:
            return
        name, self._press = self._press.name, None
        if isinstance(self._foot.open, SecondPress):
            self._foot.open = None
        self._say(f"{name} was held down: that counts once, so nothing more was done.")

    def _action(self, key: Key) -> str:
        return "leave" if key.name == "ctrl-d" else self._bound.action(key.pressed)

    # --- the stop keys: the first press never destroys ---

    def _press_ctrl_c(self) -> None:
        if self._foot.open is not None:
            self._foot.open = None
            return
        match self._ctrl_c.press(self.panel.state, self._clock()):
            case "pause":
                self._stop()
            case "cancel":
                self._count("Ctrl-C", self._cancel_at_once)
            case "leave":
                self._count("Ctrl-C", self._leave_at_once)
            case "warn":
                self._say(
                    "Cancelling already. Ctrl-C again within 2 s leaves at once; the next owner "
                    "goes on cancelling."
                )

    def _cancel_at_once(self) -> None:
        self._ctrl_c.cancelled()
        self._send(Cancel(**self._who))

    def _leave_at_once(self) -> None:
        self.leaves = "at once"

    def _stop(self) -> None:
        """Pause, if there is anything to pause."""
        more = f"Ctrl-C twice within 2 s cancels, {self._bound['leave']} leaves it as it is."
        if self.panel.state is _S.PAUSED:
            self._say(f"Paused already: nothing is running. {more}")
        elif self.panel.state is _S.PAUSING:
            cuts = f"{self._bound['pause']} cuts what it waits for"
            self._say(f"Pausing already; {cuts}. {more}")
        else:
            self._with(("pause", "resume"), self._pause_or_resume)

    def _give_back(self) -> None:
        self.leaves = "given back"

    # --- writing, and what waits for a word ---

    def _write(self, writing: Composer, key: Key) -> None:
        if key.name == "esc":
            self._foot.open = None
        elif key.name != "enter":
            writing.line.press(key)
        elif writing.text or writing.kind == "deny":
            self._send_written(writing)

    def _send_written(self, writing: Composer) -> None:
        try:
            command = writing.command(self._who)
        except PullcordError as error:
            self._foot.open = writing
            return self._tell_trouble(str(error))
        self._foot.open = None
        if self._is_sent(command, writing.run) and writing.kind == "args":
            shows = f"{self._bound['review']} shows the call as it is now"
            self._say(f"Changed, and not called yet: {shows}, to allow it.")
        return None

    def _next_card(self) -> None:
        if self._foot.seen.cards:
            self._foot.open = CardOnScreen(self._foot.seen.cards[0], self._clock(), self._bound)
        elif self._foot.seen.questions:
            one = self._foot.seen.questions[0]
            said: Any = {"about": one.text, "choices": choices_of(one)}
            self._foot.open = Composer("answer", one.run, question=one.question, **said)
        else:
            self._say("Nothing waits for your word.")

    def _review(self, shown: CardOnScreen, key: Key) -> None:
        card = shown.card
        if key.name == "esc":
            self._foot.open = None
            return
        match shown.press(key, self._clock()):
            case "approve":
                self._foot.open = None
                self._send(Approve(**self._who, question=card.question, call=card.call), card.run)
            case "deny":
                self._foot.open = Composer(
                    "deny", card.run, question=card.question, about=card.tool
                )
            case "edit":
                self._change(shown)
            case _:
                pass

    def _change(self, shown: CardOnScreen) -> None:
        card = shown.card
        text = bytes(dump(card.args)).decode()
        edited = self._edit(text)
        written = text if edited is None else edited.strip()
        writing = Composer("args", card.run, question=card.question, about=card.tool, text=written)
        if edited is None:
            self._foot.open = writing
        elif written in ("", text):
            self._say("Nothing was changed.")
        else:
            self._send_written(writing)

    # --- sending, and what comes back ---

    def _send(self, command: Command, run: str = "") -> None:
        self._is_sent(command, run)

    def _is_sent(self, command: Command, run: str) -> bool:
        """Send it, and return whether it holds. If not, it is said why."""
        try:
            ack = self._actions.ask(run or self.panel.run, command)
        except PullcordError as error:
            self._tell_trouble(str(error))
            return False
        self._say("")
        self.refresh()
        if not ack.holds:
            self._tell_trouble(ack.message)
        return ack.holds

    def _tell_trouble(self, message: str) -> None:
        self._tell(f"{message}\n")
        self._say(clip(message, 200))

    def _say(self, notice: str) -> None:
        self._foot.notice.say(notice)


TWICE_S: Final = 2.0
Meaning: TypeAlias = Literal["pause", "cancel", "warn", "leave"]


class CtrlC:
    def __init__(self) -> None:
        self._last_s = float("-inf")
        self._has_cancelled = False

    def press(self, state: RunState, now_s: float) -> Meaning:
        """What this press means, of a run in this state. The first one never destroys."""
        is_second = now_s - self._last_s <= TWICE_S
        self._last_s = now_s
        if state is RunState.CANCELLING:
            return "leave" if is_second or self._has_cancelled else "warn"
        return "cancel" if is_second else "pause"

    def cancelled(self) -> None:
        """The second press was carried out: one more leaves, however long it takes."""
        self._has_cancelled = True

    def let_go(self) -> None:
        """It was held down: the next press is a first one."""
        self._last_s = float("-inf")


_LINES: Final = (
    ("{pause}", "pause and resume; while it is pausing, cut what it waits for"),
    ("{redirect}", "redirect: write what is new; it rewrites what comes next"),
    ("{cancel} {cancel}", "cancel: stop for good and keep what is done; asked for twice"),
    ("{review}", "what waits for your word: calls to allow, questions to answer"),
    ("{approve} {deny} {edit}", "there: allow the call, deny it, change its arguments"),
    ("{raise} {raise}", "raise a limit that was reached"),
    ("{leave} {leave}", "leave: the run is given back unharmed, for any terminal to go on"),
    ("Esc", "closes what is open, or else pauses"),
    ("Ctrl-C", "the same; twice within 2 s cancels; once more leaves at once"),
    ("Ctrl-Z", "stops this process, and with it the run, until fg"),
)


def help_text(bound: Keymap, columns: int) -> str:
    lines = [(keys.format(**bound.words()), says) for keys, says in _LINES]
    wide = max(len(keys) for keys, _ in lines) + 1
    told: list[str] = []
    for keys, says in lines:
        first, *others = wrapped(says, max(columns - wide - 1, 20))
        told += [f"{keys:<{wide}}{first}", *(" " * wide + other for other in others)]
    return "".join(f"{one}\n" for one in told)
