"""How a run that was driven or followed has ended, in words and as an exit status."""

import json
import sys
from typing import Any

from pullcord.cli.parser import FAILED, REFUSED
from pullcord.cli.render.run_text import plain, state, why
from pullcord.cli.standard_streams import put
from pullcord.core.run import Run
from pullcord.core.states import RunState


def tell_end(asked: Any, ended: Run, result: Any, said: str, *, is_told: bool = False) -> int:
    """Say how it ended; `is_told`: somebody says it at more length. A result that was the last
    thing `said` is not said once more."""
    if not asked.json:
        _tell_children(asked, ended)
        if not is_told:
            _tell_state(ended)
        if ended.state is RunState.COMPLETED and result is not None and result != said:
            put(sys.stdout, f"{plain(result if isinstance(result, str) else json.dumps(result))}\n")
    if ended.state is RunState.COMPLETED:
        return 0
    return REFUSED if ended.state is RunState.CANCELLED else FAILED


def _tell_children(asked: Any, ended: Run) -> None:
    how = "Follow it: pullcord watch" if asked.server else "Go on with it: pullcord resume"
    for child, known in ended.children.items():
        if known.detached:
            print(f"{child} is on its own. {how} {child}", file=sys.stderr)


def _tell_state(ended: Run) -> None:
    if ended.state is RunState.STOPPED:
        print(f"{state(ended.state)}{why(ended)}", file=sys.stderr)
    elif ended.state is not RunState.COMPLETED:
        print(state(ended.state), file=sys.stderr)
