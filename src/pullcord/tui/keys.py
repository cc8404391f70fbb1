"""The keys: the same as of `pullcord run`. None of them alone destroys anything."""

from typing import Final

from pullcord.tui.lines import BLANK, Line, Piece, line

KEYS: Final = (
    ("p", "pause, or resume; again while it pauses: cut now"),
    ("r", "redirect: write what comes next; Enter sends, Esc closes"),
    ("c", "cancel: says what it would do; a second c within 3 s does it"),
    ("", "before it, 1 to 4 say why, 5 lets you write it; any other key lets go"),
    ("a", "answer: the calls and questions that wait for your word"),
    ("y n e", "there: approve, deny, edit the arguments (or answer a question)"),
    ("+", "raise a limit"),
    ("", ""),
    ("↑ ↓ j k", "another run"),
    ("1 to 5, Tab", "steps, text, approvals, timeline, receipt"),
    ("PgUp PgDn", "scroll it"),
    ("/", "list only the runs with these words; Esc lists all again"),
    ("l", "list only living runs, or all"),
    ("t", "dark or light"),
    ("Esc", "close what is open; never stops anything"),
    ("q", "leave; stops nothing"),
)


def help_lines(width: int) -> list[Line]:
    lines: list[Line] = []
    for key, says in KEYS:
        lines.append((Piece(f" {key:<13}", "strong"), Piece(says)) if says else BLANK)
    return [
        *lines,
        BLANK,
        line(" Every press is signed with your name and kept in the run's journal.", role="muted"),
    ]


HINT: Final = "↑↓ run  tab view  / filter  l living  ? keys  q leave, stops nothing"
