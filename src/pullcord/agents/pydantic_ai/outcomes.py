"""What a function has said by raising, known again from the words that were stored of it."""

from collections.abc import Callable
from typing import Final

from pydantic_ai import ModelRetry
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed

from pullcord.adapters import ToolFailed as ProcessFailed
from pullcord.errors import SecretUnknown, StepError

_KINDS: Final[dict[str, Callable[[str], Exception]]] = {
    "ModelRetry": ModelRetry,
    "ToolFailed": ToolFailed,
    "ApprovalRequired": lambda _: ApprovalRequired(),
    "CallDeferred": lambda _: CallDeferred(),
    "SecretUnknown": lambda said: ToolFailed(f"not_started: {said}"),
}


def raised_by(failed: StepError, cause: BaseException | None = None) -> BaseException:
    """What a function raised: itself, or what stands for it after a restart or in a process."""
    cause = cause or failed.__cause__
    if cause is not None and not isinstance(cause, ProcessFailed | SecretUnknown):
        return cause
    return said_in(failed.error) or cause or failed


def said_in(error: str) -> Exception | None:
    """What is meant for the model or for whoever decides; None: it is an error like any other."""
    kind, _, message = error.partition(": ")
    make = _KINDS.get(kind)
    return make(message) if make else None


def timed_out_in(failed: StepError) -> bool:
    """Whether the runtime has stopped it because its time was up."""
    return failed.error.startswith("TimeoutError: it took longer than")
