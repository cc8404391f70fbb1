"""What may come next on a command line: verbs, options, and ids of runs, the newest first."""

import argparse
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pullcord.cli.parser import VERBS, described
from pullcord.core.states import LIVING, OFFERED, TERMINAL, RunState
from pullcord.errors import PullcordError
from pullcord.journal.store_location import is_url
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli import reach as reaching
    from pullcord.cli import settings as settling
else:
    settling = lazy_import("pullcord.cli.settings")
    reaching = lazy_import("pullcord.cli.reach")

_MOST: Final = 50
_ENDED_TOO: Final = {"show", "watch", "receipt", "fork", "continue", "aside"}.union(
    *(OFFERED[state] for state in TERMINAL)
)


def complete(words: list[str]) -> int:
    """Print what may stand in the place of the last word, one a line. Never an error."""
    *before, word = words or [""]
    with suppress(PullcordError, OSError):
        for found in _candidates(before, word):
            sys.stdout.write(f"{found}\n")
    return 0


def _candidates(before: list[str], word: str) -> Iterable[str]:
    if not before:
        return [name for name in (*VERBS, "--help", "--version") if name.startswith(word)]
    if before[0] not in VERBS:
        return []
    parser = described(before[0])
    options = {name: action for action in parser._actions for name in action.option_strings}  # pyright: ignore[reportPrivateUsage]
    last = options.get(before[-1])
    if last is not None and last.nargs != 0:
        return _values(last, before, word)
    if word.startswith("-"):
        return [name for name in options if name.startswith(word)]
    return _subjects(parser, before, word)


def _values(option: argparse.Action, before: list[str], word: str) -> Iterable[str]:
    if option.choices:
        return [str(choice) for choice in option.choices if str(choice).startswith(word)]
    return _runs(before, word, LIVING) if option.dest == "run" else []


def _subjects(parser: argparse.ArgumentParser, before: list[str], word: str) -> Iterable[str]:
    """The first thing that is not an option; the others are anybody's own words."""
    if any(not said.startswith("-") for said in before[1:]):
        return []
    subjects = [one for one in parser._actions if not one.option_strings]  # pyright: ignore[reportPrivateUsage]
    if subjects and subjects[0].dest == "run":
        return _runs(before, word, RunState if before[0] in _ENDED_TOO else LIVING)
    if subjects and subjects[0].choices:
        return [str(choice) for choice in subjects[0].choices if str(choice).startswith(word)]
    return []


def _runs(before: list[str], word: str, states: Iterable[RunState]) -> Iterable[str]:
    """Looks only at where each run ends: however many there are, it takes no time."""
    places: dict[str, str | None] = {"store": None, "server": None, "token_file": None}
    for name, value in pairwise(before):
        key = name.removeprefix("--").replace("-", "_")
        if name.startswith("--") and key in places:
            places[key] = value
    asked: Any = argparse.Namespace(verb="ps", insecure="--insecure" in before, **places)
    settling.settle(asked)
    if not asked.server and not is_url(asked.store) and not os.path.exists(asked.store):
        return []
    with reaching.reach(asked) as place:
        return [run for run in place.ids(states, _MOST) if run.startswith(word)]
