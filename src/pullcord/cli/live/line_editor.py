"""One line that somebody is writing."""

from pullcord.cli.live.key_reader import Key
from pullcord.cli.render.text_width import clip, width
from pullcord.core.text.visible import visible

CURSOR = "▏"


class LineEditor:
    def __init__(self, text: str = "") -> None:
        self._before = text
        self._behind = ""

    @property
    def text(self) -> str:
        return self._before + self._behind

    def press(self, key: Key) -> None:
        """Do what the key does in a line. Those that do nothing in one are let pass."""
        match key.name:
            case "char" | "paste":
                self._before += " ".join(key.text.splitlines())
            case "backspace":
                self._before = self._before[:-1]
            case "delete":
                self._behind = self._behind[1:]
            case "word":
                kept = self._before.rstrip()
                self._before = kept[: kept.rfind(" ") + 1]
            case "clear":
                self._before = ""
            case "left" | "right" | "home" | "end":
                self._move(key.name)
            case _:
                pass

    def _move(self, where: str) -> None:
        text, at = self.text, len(self._before)
        goal = {"left": at - 1, "right": at + 1, "home": 0, "end": len(text)}[where]
        goal = min(max(goal, 0), len(text))
        self._before, self._behind = text[:goal], text[goal:]

    def shown(self, columns: int) -> str:
        """As much of it as fits, with the place where one writes."""
        before = visible(self._before)
        room = max(columns - 1, 1)
        while width(before) > room - min(width(self._behind), 8):
            before = "…" + before[2:] if len(before) > 2 else ""
            if not before:
                break
        return before + CURSOR + clip(visible(self._behind), room - width(before))
