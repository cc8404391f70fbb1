"""The keys in words, as they are bound: the same as of `pullcord run`. None alone destroys."""

from typing import Final

from pullcord.terminal.keymap import Keymap
from pullcord.tui.lines import BLANK, Line, Piece, line, wrapped

_LINES: Final = (
    ("{pause}", "pause, or resume; again while it pauses: cut now"),
    ("{redirect}", "redirect: write what comes next; Enter sends, Esc closes"),
    ("{cancel}", "cancel: says what it would do; a second {cancel} within 3 s does it"),
    ("", "before it, 1 to 4 say why, 5 lets you write it; any other key lets go"),
    ("{review}", "answer: the calls and questions that wait for your word"),
    ("{approve} {deny} {edit}", "there: approve, deny, edit the arguments"),
    ("{raise}", "raise a limit"),
    ("", ""),
    ("↑ ↓ {down} {up}", "another run"),
    ("1 to 5, Tab", "steps, text, approvals, timeline, receipt"),
    ("PgUp PgDn", "scroll it; so does {read_on}"),
    ("{filter}", "list only the runs with these words; Esc lists all again"),
    ("{living}", "list only living runs, or all"),
    ("{theme}", "dark or light"),
    ("Esc", "close what is open; never stops anything"),
    ("{leave} Ctrl-C", "leave; stops nothing"),
)


def help_lines(bound: Keymap, width: int) -> list[Line]:
    words = bound.words()
    told = [(keys.format(**words), says.format(**words)) for keys, says in _LINES]
    wide = max(13, *(len(keys) + 1 for keys, _ in told))
    lines: list[Line] = []
    for keys, says in told:
        first, *others = wrapped(says, width - wide - 2)
        lines.append((Piece(f" {keys:<{wide}}", "strong"), Piece(first)) if says else BLANK)
        lines += [(Piece(" " * (wide + 1)), Piece(other)) for other in others]
    signed = "Every press is signed with your name and kept in the run's journal."
    return [*lines, BLANK, *(line(f" {one}", role="muted") for one in wrapped(signed, width - 1))]


def hint(bound: Keymap, width: int) -> str:
    said = "↑↓ run  tab view  {filter} filter  {living} living  {help} keys  {leave} leave"
    short = said.format(**bound.words())
    whole = f"{short}, stops nothing"
    return whole if len(whole) <= width else short
