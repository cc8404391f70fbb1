"""The errors with which a step can end, and the text that the journal stores of an error."""

from typing import Final

from pullcord.runtime.processes.warden_client import ToolEnd

_ERROR_CHARS: Final = 4000


class Cut(Exception):
    """The warden reported that the tool's process was stopped."""

    def __init__(self, ended: ToolEnd) -> None:
        super().__init__(ended.why or f"stopped ({ended.rung})")
        self.ended = ended


class Lost(Exception):
    """The outcome of a process tool is unknown: its warden is gone."""


class ResultLost(Exception):
    """A tool ran to its end, but its result cannot be stored."""


class ToolFailed(Exception):
    """A process tool raised an error: its text, and the line of the tool's own code."""

    def __init__(self, error: str, *, at: str = "", traceback: str = "") -> None:
        super().__init__(error)
        self.error, self.at, self.traceback = error, at, traceback
        if traceback:
            self.add_note(traceback)  # for the log: the process that raised it is gone


class Vanished(ToolFailed):
    """The tool's process ended without an answer: its effects are unknown."""


def described(error: BaseException) -> str:
    """Return an error as text that the journal can store, whatever it contains."""
    if isinstance(error, ToolFailed):
        return error.error[:_ERROR_CHARS]
    try:
        said = str(error).strip().encode(errors="backslashreplace").decode().replace("\0", "\\0")
    except BaseException:  # even str() may fail, and must not end the run
        said = "it cannot say what it is"
    if isinstance(error, ResultLost):
        return said[:_ERROR_CHARS]
    name = type(error).__name__
    return f"{name}: {said[:_ERROR_CHARS]}" if said else name
