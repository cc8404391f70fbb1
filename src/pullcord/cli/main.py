"""The command `pullcord`: parse, hand over to the one module needed, say what went wrong."""

import gc
import os
import sys
from importlib import import_module
from typing import Any, Final

import msgspec

from pullcord.cli.parser import VERBS, parse
from pullcord.errors import InvalidInput, NotReached, PullcordError, RunNotFound, ThreadBusy

FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3


def main(argv: list[str] | None = None) -> int:
    """Carry out one command and return its exit status."""
    asked = parse(sys.argv[1:] if argv is None else argv)
    if VERBS[asked.verb].is_brief:
        gc.disable()  # it will be gone before there is anything to collect
    module: Any = import_module(f"pullcord.cli.{VERBS[asked.verb].module}")
    try:
        status = module.carry_out(asked)
        sys.stdout.flush()
        return status
    except PullcordError as error:
        return _say(asked, error)
    except BrokenPipeError:  # whoever read our output has had enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _say(asked: Any, error: PullcordError) -> int:
    if getattr(asked, "json", False):
        said = {"error": type(error).__name__, "message": str(error)}
        print(msgspec.json.encode(said).decode())
    else:
        print(error, file=sys.stderr)
    if isinstance(error, InvalidInput | RunNotFound):
        return USAGE
    return REFUSED if isinstance(error, ThreadBusy | NotReached) else FAILED
