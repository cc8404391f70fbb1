"""Where in the user's own code an error was raised. Standard library only."""

import os
import sysconfig
import traceback
from collections.abc import Iterator
from typing import Final

_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES: Final = tuple(
    {
        path + os.sep
        for name in ("stdlib", "purelib", "platlib")
        if (path := sysconfig.get_path(name))
    }
)
_FRAMES_MAX: Final = 20  # of one error: the innermost
_LINE_MAX: Final = 200
_ERRORS_MAX: Final = 4  # of a chain of causes


def own_place(error: BaseException) -> str:
    """Return the innermost place in the user's code: `shop.py:12, in charge`. Empty: there is none.

    A frame of a library counts only if there is no other.
    """
    frames = _frames(error)
    mine = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    if not (found := (mine or frames)[-1:]):
        return ""
    return _storable(f"{os.path.basename(found[0].filename)}:{found[0].lineno}, in {found[0].name}")


def own_traceback(error: BaseException) -> str:
    """Return the frames of the user's code and its libraries, innermost last, without ours.

    What the errors say is left out: it is stored beside this. A long line is left out as a whole,
    so that no half of a secret is kept.
    """
    parts = list[str]()
    for one in reversed(list(_chain(error))):
        lines = list[str]()
        for frame in _frames(one)[-_FRAMES_MAX:]:
            lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
            if frame.line:
                lines.append(
                    f"    {frame.line if len(frame.line) <= _LINE_MAX else '(a long line)'}"
                )
        if lines:
            parts.append("\n".join([f"{type(one).__name__}, raised here:", *lines]))
    return _storable("\n".join(parts))


def told(error: BaseException) -> str:
    """Return the error as a traceback for the log, without frames of ours, unless one of them is
    where something went wrong that nobody meant to."""
    whole = traceback.TracebackException.from_exception(error)
    one: BaseException | None = error
    shown: traceback.TracebackException | None = whole
    while one is not None and shown is not None:
        is_on_purpose = type(one).__module__.startswith("pullcord.")
        theirs = [frame for frame in shown.stack if not frame.filename.startswith(_OURS)]
        if is_on_purpose or theirs[-1:] == list(shown.stack)[-1:]:
            shown.stack = traceback.StackSummary.from_list(theirs)
        is_caused = shown.__cause__ is not None
        one = one.__cause__ if is_caused else one.__context__
        shown = shown.__cause__ if is_caused else shown.__context__
    return _storable("".join(whole.format()))


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    try:
        found = traceback.extract_tb(error.__traceback__)
    except Exception:  # a source that cannot be read must not hide the error itself
        return []
    is_frozen = "<frozen "
    return [f for f in found if not f.filename.startswith((_OURS, is_frozen))]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what led to it."""
    one: BaseException | None = error
    for _ in range(_ERRORS_MAX):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _storable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\0")
