"""How a step can end other than well, and an error as text that can be stored."""

from typing import Final

from pullcord.runtime.processes.warden_client import ToolEnd

_ERROR_CHARS: Final = 4000


class Cut(Exception):
    """The process of a tool was stopped, by the warden's word."""

    def __init__(self, ended: ToolEnd) -> None:
        super().__init__(ended.why or f"stopped ({ended.rung})")
        self.ended = ended


class Lost(Exception):
    """Nobody can say what became of a process tool: whoever held it is gone."""


class ResultLost(Exception):
    """A tool ran to its end, and what came out of it cannot be stored."""


class ToolFailed(Exception):
    """A process tool raised: what it said, in words, and where in its own code."""

    def __init__(self, error: str, *, at: str = "", traceback: str = "") -> None:
        super().__init__(error)
        self.error, self.at, self.traceback = error, at, traceback
        if traceback:
            self.add_note(traceback)  # for the log: the process that it happened in is gone


class Vanished(ToolFailed):
    """Its process ended without a word: what it had done by then, nobody knows."""


def described(error: BaseException) -> str:
    """An error as text that can be stored, whatever is in it."""
    if isinstance(error, ToolFailed):
        return error.error[:_ERROR_CHARS]
    try:
        said = str(error).strip().encode(errors="backslashreplace").decode().replace("\0", "\\0")
    except BaseException:  # even that may fail, and must not take the run with it
        said = "it cannot say what it is"
    if isinstance(error, ResultLost):
        return said[:_ERROR_CHARS]
    name = type(error).__name__
    return f"{name}: {said[:_ERROR_CHARS]}" if said else name
