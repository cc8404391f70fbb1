"""The keys that do something to the selected run. None of them alone destroys anything."""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec
from textual.timer import Timer

from pullcord.core.show.panel import Button, Panel
from pullcord.journal.views.inbox import Card, Open
from pullcord.terminal.choices import choices_of, either
from pullcord.terminal.key_repeat import HELD_S
from pullcord.terminal.keymap import Keymap
from pullcord.tui.aim import ARMED_S, REASONS, Aim
from pullcord.tui.bar import Ask, Bar
from pullcord.tui.command_sender import CommandSender
from pullcord.tui.lines import Line, cut, flat, line
from pullcord.tui.pane import Pane

_PROMPT: Final = 40  # cells; the rest of the line is to write in


class Around(NamedTuple):
    """What stands around the cord: where it is shown and what it speaks by."""

    bar: Bar
    pane: Pane
    hand: Aim
    control: CommandSender
    bound: Keymap
    say: Callable[[str], None]
    update: Callable[[], None]


class CordKeys:
    """Acts on the run that the bar shows, and on no other."""

    def __init__(self, around: Around) -> None:
        self._bar, self._pane, self._hand, self._control = around[:4]
        self._bound, self._say, self._update = around[4:]
        self._second: Timer | None = None  # a second press, until it is known not to be held down
        self._silence: Timer | None = None  # a key that is held down, until it is let go of

    @property
    def actions(self) -> dict[str, Callable[[], None]]:
        return {
            "pause": self._pause_or_resume,
            "redirect": self._redirect,
            "cancel": self._cancel,
            "raise": self._raise,
            "approve": self._approve,
            "deny": self._deny,
            "edit": self._edit,
        }

    def _button(self, *verbs: str) -> tuple[Panel, Button] | None:
        """The selected run and its button with one of these verbs, if it can be pressed."""
        panel = self._bar.panel
        if panel is None:
            return self._say("No run is selected.")
        found = next((button for button in panel.buttons if button.verb in verbs), None)
        if found is None:
            return self._say(f"{panel.run} is {panel.label.lower()}: that cannot be done now.")
        return self._say(f"{found.label}: {found.off}.") if found.off else (panel, found)

    # --- pause, cancel ---

    def _pause_or_resume(self) -> None:
        if (found := self._button("pause", "resume")) and self._hand.is_ready("pause"):
            self._bar.run_worker(partial(self._control.press, *found))

    def _cancel(self) -> None:
        if self._silence:
            self._stay_silent()
        elif (found := self._button("cancel")) and self._hand.is_ready("cancel"):
            panel, button = found
            self._hand.arm(panel.run, button)
            self._bar.set_timer(ARMED_S + 0.05, self._update)

    def while_armed(self, key: str) -> None:
        """The first press of cancel: the same key carries it out, a number says why, all else
        lets go."""
        is_again = self._bound.action(key) == "cancel"
        if is_again and self._second:  # it came again at once: the key is held down
            self._forget_second()
            self._hand.let_go()
            self._stay_silent()
            held = f"{self._bound['cancel']} was held down"
            self._say(f"{held}, so nothing was cancelled. Press it twice.")
        elif is_again:
            self._second = self._bar.set_timer(HELD_S, self._carry_out)
        elif key in ("1", "2", "3", "4"):
            self._hand.choose(REASONS[int(key) - 1])
            self._bar.set_timer(ARMED_S + 0.05, self._update)
        elif key == "5":
            self._write_reason()
        else:
            self._hand.let_go()

    def _stay_silent(self) -> None:
        """What comes again at once is no first press either."""
        if self._silence:
            self._silence.stop()
        self._silence = self._bar.set_timer(HELD_S, self._end_silence)

    def _end_silence(self) -> None:
        self._silence = None

    def _forget_second(self) -> None:
        if self._second:
            self._second.stop()
        self._second = None

    def _carry_out(self) -> None:
        self._forget_second()
        armed, panel = self._hand.armed, self._bar.panel
        self._hand.let_go()
        self._update()
        if armed and panel and panel.run == armed.run:
            press = partial(self._control.press, panel, armed.button, armed.reason)
            self._bar.run_worker(press)

    def _write_reason(self) -> None:
        armed, panel = self._hand.armed, self._bar.panel
        self._hand.let_go()
        if armed and panel:
            said = f"Enter: {armed.button.label.lower()} · {armed.button.says}"
            send = partial(self._control.press, panel, armed.button)
            self._bar.open(Ask("reason", line(said, role="held strong"), "why  ", send))

    # --- redirect, raise ---

    def _redirect(self) -> None:
        if (found := self._button("redirect")) is None:
            return
        about = _what_is_replaced(found[0])
        self._bar.open(Ask("redirect", *about, self._send_redirect, follow=_what_is_replaced))

    async def _send_redirect(self, said: str) -> bool:
        panel = self._bar.panel
        if not self._hand.is_ready("redirect"):
            self._say("The run has just moved on: look at what comes next, then press Enter again.")
            return False
        return panel is not None and await self._control.redirect(panel, said)

    def _raise(self) -> None:
        panel = self._bar.panel
        if panel is None or panel.ended or not panel.meters:
            return self._say("It has no limit that could be raised.")
        wanted = [f"{one.cap}={one.suggest:g}" for one in panel.raise_]
        value = " ".join(wanted or [f"{meter.cap}={meter.of:g}" for meter in panel.meters])
        used = " · ".join(meter.says for meter in panel.meters)
        goes_on = " The run goes on." if panel.raise_ else ""
        before = line(f"Used: {used}. Write what it may use in all.{goes_on}", role="muted")
        self._bar.open(Ask("raise", before, "↑ ", self._send_raise, value))
        return None

    async def _send_raise(self, caps: str) -> bool:
        panel = self._bar.panel
        return panel is not None and await self._control.raise_limits(panel, caps)

    # --- approve, deny, edit, answer ---

    def _approve(self) -> None:
        if not isinstance(card := self._pane.card, Card):
            return
        if not self._pane.is_seen_whole:
            self._say("The call goes on: read it to its end first (PgDn).")
        elif not self._hand.has_read(card.call):
            self._say("Read it first: a call can be approved after a second on the screen.")
        else:
            self._bar.run_worker(partial(self._control.approve, card))

    def _deny(self) -> None:
        if isinstance(card := self._pane.card, Card):
            said = f"Enter denies {flat(card.tool, 60)}. The agent is told why, and goes on."
            send = partial(self._control.deny, card)
            self._bar.open(Ask(f"deny {card.question}", line(said, role="muted"), "why  ", send))

    def _edit(self) -> None:
        card = self._pane.card
        if isinstance(card, Card):
            said = "Enter asks anew about the call with these arguments. Nothing is done yet."
            value = msgspec.json.encode(card.args or {}).decode()
            send = partial(self._control.edit, card)
            before = line(said, role="muted")
            self._bar.open(Ask(f"edit {card.question}", before, "args  ", send, value))
        elif card:
            self.answer(card)

    def answer(self, asked: Open) -> None:
        """Open the line to answer it in. If it takes only some answers, the line says which."""
        send = partial(self._control.answer, asked)
        choices = choices_of(asked)
        prompt = f"{cut(either(choices), _PROMPT)} > " if choices else "> "
        self._bar.open(Ask(f"answer {asked.question}", line(flat(asked.text)), prompt, send))


def _what_is_replaced(panel: Panel) -> tuple[Line, str]:
    """The words that a redirect of this run drops now, and the prompt for the new ones."""
    if coming := panel.next:
        return line(f"- next  {flat(coming.after)}", role="removed"), "+ next  "
    return line("The agent is told at once, and once.", role="muted"), "+ told  "
