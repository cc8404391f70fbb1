"""What somebody is writing to a run, in the place of the keys, with what will become of it."""

from typing import Any, Final, Literal, TypeAlias

import msgspec

from pullcord.cli.live.line_editor import LineEditor
from pullcord.cli.render.run_text import coloured, line
from pullcord.cli.render.text_width import clip, width
from pullcord.core.commands import Answer, Command, Deny, Edit, Redirect
from pullcord.core.show.panel import Panel
from pullcord.core.values import dump
from pullcord.errors import InvalidInput
from pullcord.terminal.choices import DOUBT, either

Kind: TypeAlias = Literal["redirect", "answer", "deny", "args"]
_SIGN: Final = {"redirect": "↪ ", "answer": "? ", "deny": "Deny, because: ", "args": "JSON: "}
_ROOM: Final = 12  # columns to write in
_DOUBT: Final = 'run: begin it again · skip: go on without it · or {"happened": RESULT}'


class Composer:
    """`question`: what it answers; `about`: in words; `choices`: the only answers it takes."""

    def __init__(
        self,
        kind: Kind,
        run: str,
        *,
        question: str = "",
        about: str = "",
        text: str = "",
        choices: tuple[str, ...] = (),
    ) -> None:
        self.kind: Kind = kind
        self.run = run
        self.question = question
        self.about = about
        self.choices = choices
        self.line = LineEditor(text)

    @property
    def text(self) -> str:
        return self.line.text.strip()

    def command(self, who: Any) -> Command:
        """What it asks of the run.

        Raises:
            InvalidInput: it is meant as JSON, and is none.
        """
        match self.kind:
            case "redirect":
                return Redirect(**who, instruction=self.text)
            case "answer":
                return Answer(**who, question=self.question, value=dump(_value(self.text)))
            case "deny":
                return Deny(**who, reason=self.text, question=self.question)
            case "args":
                args = dump(_value(self.text, is_json=True))
                return Edit(**who, question=self.question, args=args)

    def shown(self, columns: int, panel: Panel) -> list[str]:
        sign = self._sign(columns)
        mine = sign + self.line.shown(columns - width(sign))
        match self.kind:
            case "redirect":
                return [mine, *self._diff(columns, panel)]
            case "answer":
                asked = clip(line(self.about, 500), columns)
                hint = self._hint(sign)
                return [coloured(asked, "1"), mine, coloured(clip(hint, columns), "2")]
            case "deny":
                said = f"{line(self.about, 60)} is not called. The agent is told why, and goes on."
                return [mine, coloured(clip(said, columns), "2"), ""]
            case _:
                said = "It is not called as it is: the changed call is asked about anew."
                return [mine, coloured(clip(said, columns), "2"), ""]

    def _sign(self, columns: int) -> str:
        """What stands before what is written: the answers there are, if there are only some, as far
        as they leave room for one."""
        sign = f"? {either(self.choices)}: " if self.choices else _SIGN[self.kind]
        return sign if width(sign) <= columns - _ROOM else _SIGN[self.kind]

    def _hint(self, sign: str) -> str:
        if not self.choices:
            return "JSON, or else text; the first answer counts"
        if sign == _SIGN[self.kind]:
            return either(self.choices)
        return _DOUBT if self.choices == DOUBT else "the first answer counts"

    def _diff(self, columns: int, panel: Panel) -> list[str]:
        if panel.next is None:
            return [coloured(clip("the agent is told at once, and once", columns), "2"), ""]
        after = self.text or panel.next.after
        return [
            coloured(clip(f"- next  {line(panel.next.after, 300)}", columns), "31"),
            coloured(clip(f"+ next  {line(after, 300)}", columns), "32"),
        ]


def _value(text: str, *, is_json: bool = False) -> Any:
    """JSON, or else the text as it is.

    Raises:
        InvalidInput: it is meant as JSON, and is none.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if is_json or text.startswith(("{", "[")):
            raise InvalidInput(f"{line(text)} is not JSON: {error}. Nothing was sent.") from None
        return text
