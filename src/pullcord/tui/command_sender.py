"""Carrying out what a person has asked for: one command each, and one line on what came of it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from pullcord.core.commands import (
    Answer,
    Approve,
    Cancel,
    Command,
    Deny,
    Edit,
    Pause,
    Raise,
    Redirect,
    Resume,
)
from pullcord.core.limits import parsed
from pullcord.core.show.panel import Button, Panel
from pullcord.core.values import dump
from pullcord.errors import InvalidInput, PullcordError
from pullcord.journal.views.inbox import Card, Open
from pullcord.tui.source import Source

VIA: Final = "top"


class CommandSender:
    """The controls of one person, named `me`, at this screen."""

    def __init__(
        self,
        source: Source,
        me: str,
        *,
        say: Callable[[str], None],
        look: Callable[[str], Awaitable[None]],
    ) -> None:
        self.me = me
        self._source = source
        self._say = say
        self._look = look

    async def press(self, panel: Panel, button: Button, reason: str = "") -> bool:
        """Carry out a button that needs no words: pause, resume, cancel."""
        now = button.body.get("now", False)
        match button.verb:
            case "pause":
                command: Command = Pause(**self._who(reason.strip()), now=now)
            case "resume":
                command = Resume(**self._who(reason), seen_seq=panel.seq)
            case _:
                command = Cancel(**self._who(reason.strip()), now=now)
        return await self._send(panel.run, command)

    async def redirect(self, panel: Panel, instruction: str) -> bool:
        if not instruction.strip():
            return self._refuse("There is nothing to say yet. Esc closes this.")
        command = Redirect(**self._who(), instruction=instruction.strip(), seen_seq=panel.seq)
        return await self._send(panel.run, command, f"Told {panel.run}. It is handed over once.")

    async def raise_limits(self, panel: Panel, caps: str) -> bool:
        try:
            command = Raise(**self._who(), caps=parsed(caps.split()), seen_seq=panel.seq)
        except InvalidInput as error:
            return self._refuse(str(error))
        return await self._send(panel.run, command, f"Raised the limits of {panel.run}.")

    async def approve(self, card: Card) -> bool:
        """Allow the call that was shown, and no other."""
        command = Approve(**self._who(), question=card.question, call=card.call)
        return await self._send(card.run, command, f"Approved {card.tool}: this one call is made.")

    async def deny(self, card: Card, reason: str) -> bool:
        command = Deny(**self._who(reason.strip()), question=card.question)
        return await self._send(card.run, command, f"Denied {card.tool}. The agent is told.")

    async def edit(self, card: Card, args: str) -> bool:
        try:
            given = msgspec.json.decode(args, type=dict[str, Any])
        except msgspec.DecodeError as error:
            return self._refuse(f"This is not JSON with the arguments by name: {error}.")
        about: Any = {"question": card.question, "call": card.call}
        command = Edit(**self._who(), **about, args=dump(given))
        return await self._send(card.run, command, "Changed. The new call is asked about again.")

    async def answer(self, asked: Open, value: str) -> bool:
        if not value.strip():
            return self._refuse("There is no answer yet. Esc closes this.")
        command = Answer(**self._who(), question=asked.question, value=dump(_value(value.strip())))
        return await self._send(asked.run, command, f"Answered {asked.run}.")

    def _who(self, reason: str = "") -> Any:
        return {"by": self.me, "reason": reason, "via": VIA}

    async def _send(self, run: str, command: Command, done: str = "") -> bool:
        try:
            ack = await self._source.command(run, command)
            await self._look(run)
        except PullcordError as error:
            return self._refuse(str(error))
        if not ack.holds:
            return self._refuse(ack.message)
        if ack.verdict == "already":
            self._say(f"{run} is {ack.state} already. Nothing was changed.")
        else:
            self._say(done)  # of a pause or cancel the bar itself says how far it has got
        return True

    def _refuse(self, why: str) -> bool:
        self._say(why)
        return False


def _value(text: str) -> Any:
    """JSON, or else the text as it is."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
