"""What waits for a person: the call as it will be made first; what the agent says of it after."""

from typing import NamedTuple

import msgspec

from pullcord.core.show.words import declared, left
from pullcord.journal.views.inbox import Attention, Card, Inbox, Open
from pullcord.terminal.choices import choices_of, either
from pullcord.terminal.keymap import Keymap
from pullcord.tui.lines import BLANK, Line, Piece, flat, line, padded, paragraph, wrapped


class CardsShown(NamedTuple):
    """What is shown of it: which one is being decided, and the line where its call ends."""

    lines: list[Line]
    call_end: int


def card_lines(
    of: Inbox, width: int, bound: Keymap, *, at: int, since_ms: float, is_ready: bool
) -> CardsShown:
    """All that waits. The one at `at`, of the calls and questions, is whole; `is_ready`: it has
    been on the screen long enough to have been read."""
    asked: list[Card | Open] = [*of.cards, *of.questions]
    lines: list[Line] = []
    end = 0
    if asked:
        one = asked[at % len(asked)]
        if len(asked) > 1:
            others = f"{bound['previous_card']} and {bound['next_card']} go to the others"
            said = f"{at % len(asked) + 1} of {len(asked)} · {others}"
            lines += [line(said, role="muted"), BLANK]
        if isinstance(one, Card):
            lines += _call(one, width)
            end = len(lines)
            left_ms = one.expires_in_ms - since_ms
            lines += _about(one, left_ms, width, bound, is_ready=is_ready)
        else:
            lines += _question(one, width, bound)
    lines += _attention(of.attention, width)
    return CardsShown(lines or [line("Nothing waits for an answer.", role="muted")], end)


def _call(card: Card, width: int) -> list[Line]:
    """Each argument on its own line, as JSON: no line break in it can push another one away."""
    lines = paragraph(f"{_whole(card.tool)}(", width, role="strong", rest="  ")
    if isinstance(card.args, dict):
        args: dict[str, object] = card.args  # pyright: ignore[reportUnknownVariableType]
        for name, value in args.items():
            said = f"{_whole(str(name))} = {msgspec.json.encode(value).decode()}"
            lines += paragraph(said, width, role="strong", first="    ", rest="      ")
    elif card.args is not None:
        said = msgspec.json.encode(card.args).decode()
        lines += paragraph(said, width, role="strong", first="    ", rest="      ")
    return [*lines, line(")", role="strong")]


def _whole(name: str) -> str:
    """On one line, however long: what is to be allowed is not cut."""
    return flat(name, len(name) + 1)


def _about(card: Card, left_ms: float, width: int, bound: Keymap, *, is_ready: bool) -> list[Line]:
    policy = declared(card.effect, undoable=card.can_be_undone)
    expires = f"expires in {left(left_ms)}" if left_ms > 0 else "expired"
    facts = f"{flat(policy, 60)} · {expires}"
    ready = "this one call is made, exactly as above" if is_ready else "read it first: in a second"
    return [
        line(facts, role="" if card.can_be_undone else "held"),
        line("The agent says", role="muted"),
        *paragraph(f"“{card.text}”", width, role="muted", first="  │ ", rest="  │ "),
        *_choices(
            width,
            (bound["approve"], "Approve", ready, is_ready),
            (bound["deny"], "Deny", "the agent is told why, and goes on", True),
            (bound["edit"], "Edit the arguments", "the changed call is asked about again", True),
        ),
    ]


def _choices(width: int, *choices: tuple[str, str, str, bool]) -> list[Line]:
    """A key each, with its consequence below it."""
    room = min(width // max(len(choices), 2), 44)
    rows: list[list[Piece]] = [[], [], []]
    for key, label, says, is_on in choices:
        rows[0].append(Piece(f" {key} ", "key" if is_on else "key off"))
        rows[0].append(
            Piece(padded(f" {label}", room - len(key) - 2), "strong" if is_on else "muted")
        )
        said = [*wrapped(says, room - 2), "", ""]
        rows[1].append(Piece(padded(said[0], room), "muted"))
        rows[2].append(Piece(padded(said[1], room), "muted"))
    return [tuple(row) for row in rows if any(piece.text.strip() for piece in row)]


def _question(asked: Open, width: int, bound: Keymap) -> list[Line]:
    how = either(choices_of(asked)) or "an answer; JSON, or else text"
    return [
        line("A step is in doubt" if asked.kind == "doubt" else "The agent asks", role="muted"),
        *paragraph(asked.text, width, role="strong", first="  │ ", rest="  │ "),
        *_choices(width, (bound["review"], "Answer", how, True)),
    ]


def _attention(items: list[Attention], width: int) -> list[Line]:
    lines: list[Line] = []
    for item in items:
        lines += [BLANK, *paragraph(item.text, width, first="! ", rest="  ")]
        lines.append(
            line(f"  when it is dealt with: pullcord settle {item.run} {item.item}", role="muted")
        )
    return lines[1:] if lines else []
