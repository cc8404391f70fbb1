"""The command `pullcord`: parse, hand over to the one module needed, say what went wrong."""

import gc
import os
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from pullcord.cli.as_json import to_json
from pullcord.cli.parser import FAILED, INTERRUPTED, REFUSED, USAGE, VERBS, parse
from pullcord.cli.settings import settle
from pullcord.cli.standard_streams import guarded, open_closed, put
from pullcord.core.text.visible import visible
from pullcord.errors import (
    InvalidInput,
    NotReached,
    PullcordError,
    RunForgotten,
    RunNotFound,
    ThreadBusy,
)
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli import word_completion
    from pullcord.cli.commands import (
        completion,
        control,
        doctor,
        drive,
        forget,
        grant,
        kill_switch,
        log,
        remote_run,
        serve,
        show,
        top,
        tour,
        waiting,
    )
else:
    remote_run = lazy_import("pullcord.cli.commands.remote_run")
    word_completion = lazy_import("pullcord.cli.word_completion")
    completion = lazy_import("pullcord.cli.commands.completion")
    control = lazy_import("pullcord.cli.commands.control")
    doctor = lazy_import("pullcord.cli.commands.doctor")
    drive = lazy_import("pullcord.cli.commands.drive")
    forget = lazy_import("pullcord.cli.commands.forget")
    grant = lazy_import("pullcord.cli.commands.grant")
    waiting = lazy_import("pullcord.cli.commands.waiting")
    log = lazy_import("pullcord.cli.commands.log")
    show = lazy_import("pullcord.cli.commands.show")
    serve = lazy_import("pullcord.cli.commands.serve")
    kill_switch = lazy_import("pullcord.cli.commands.kill_switch")
    top = lazy_import("pullcord.cli.commands.top")
    tour = lazy_import("pullcord.cli.commands.tour")


class _Verb(Protocol):
    """A module that carries verbs out."""

    def carry_out(self, asked: Any, /) -> int: ...


_MODULES: Final[dict[str, _Verb]] = {
    "completion": completion,
    "control": control,
    "doctor": doctor,
    "drive": drive,
    "forget": forget,
    "grant": grant,
    "waiting": waiting,
    "log": log,
    "show": show,
    "serve": serve,
    "kill_switch": kill_switch,
    "top": top,
    "tour": tour,
}

_UNSETTLED: Final = ("doctor", "completion")  # of use even where a file cannot be read
_ACT: Final = ("control", "kill_switch")  # what they do is done, whoever reads of it
_LASTING: Final = ("watch",)  # as long as its run
_GONE: Final = (
    "The folder that this command was called in is there no more. Nothing was started. "
    "Go to one that is: cd ~"
)
_TELL: Final = ("show", "waiting", "log", "doctor", "completion")  # what they say is all they do


def main(argv: list[str] | None = None) -> int:
    """Carry out one command and return its exit status."""
    open_closed()
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["__complete"]:
        return word_completion.complete(words[1:])
    asked = parse(words)
    if not VERBS[asked.verb].is_brief or asked.verb in _LASTING:
        gc.enable()  # the others will be gone before there is anything to collect
    with guarded(tells_of_pipes=VERBS[asked.verb].module not in _ACT) as out:
        status = _carried_out(asked)
        put(out, "")
        if out.error is None or isinstance(out.error, BrokenPipeError):
            return status
        put(sys.stderr, f"Standard output cannot be written to: {out.error.strerror}.\n")
    return status or (FAILED if VERBS[asked.verb].module in _TELL else 0)


def _carried_out(asked: Any) -> int:
    try:
        if asked.verb not in _UNSETTLED:
            settle(asked)
        return _module(asked).carry_out(asked)
    except PullcordError as error:
        return _say(asked, error)
    except FileNotFoundError:
        if _is_here():
            raise
        return _say(asked, InvalidInput(_GONE))
    except BrokenPipeError:  # whoever read our output has had enough of it
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _is_here() -> bool:
    """Whether the folder that this process is in is still there."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _module(asked: Any) -> _Verb:
    name = VERBS[asked.verb].module
    is_abroad = name == "drive" and getattr(asked, "server", None)
    return remote_run if is_abroad else _MODULES[name]


def _say(asked: Any, error: PullcordError) -> int:
    if getattr(asked, "json", False):
        put(sys.stdout, to_json({"error": type(error).__name__, "message": str(error)}))
    else:
        print(visible(str(error)), file=sys.stderr)
    if isinstance(error, InvalidInput | RunNotFound):
        return USAGE
    return REFUSED if isinstance(error, ThreadBusy | NotReached | RunForgotten) else FAILED
