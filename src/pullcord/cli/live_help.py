"""What every key does, for whoever asks, with the keys as they are bound."""

from typing import Final

from pullcord.cli.live_text import wrapped
from pullcord.core.keys import Keymap

_LINES: Final = (
    ("{pause}", "pause and resume; while it is pausing, cut what it waits for"),
    ("{redirect}", "redirect: write what is new; it rewrites what comes next"),
    ("{cancel} {cancel}", "cancel: stop for good and keep what is done; asked for twice"),
    ("{review}", "what waits for your word: calls to allow, questions to answer"),
    ("{approve} {deny} {edit}", "there: allow the call, deny it, change its arguments"),
    ("{raise} {raise}", "raise a limit that was reached"),
    ("{leave} {leave}", "leave: the run is given back unharmed, for any terminal to go on"),
    ("Esc", "closes what is open, or else pauses"),
    ("Ctrl-C", "the same; twice within 2 s cancels; once more leaves at once"),
    ("Ctrl-Z", "stops this process, and with it the run, until fg"),
)


def help_text(bound: Keymap, columns: int) -> str:
    lines = [(keys.format(**bound.words()), says) for keys, says in _LINES]
    wide = max(len(keys) for keys, _ in lines) + 1
    told: list[str] = []
    for keys, says in lines:
        first, *others = wrapped(says, max(columns - wide - 1, 20))
        told += [f"{keys:<{wide}}{first}", *(" " * wide + other for other in others)]
    return "".join(f"{one}\n" for one in told)
