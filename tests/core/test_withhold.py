"""What is withheld of a quarantined run: also the words that a question is named after."""

from typing import Any, Final, Literal, get_args, get_origin

import msgspec
import pytest

from pullcord.core.events import (
    TAGS,
    Answered,
    Event,
    PlanItem,
    QuestionAsked,
    QuestionWithdrawn,
    Released,
    encode_event,
)
from pullcord.core.values import dump
from pullcord.core.withhold import as_viewed, withheld

ID = "the-word-nobody-may-have-0f3a"
ABOUT: list[Event] = [
    QuestionAsked(question=ID, text="The word?"),
    Answered(question=ID, by="ana"),
    QuestionWithdrawn(question=ID),
]


@pytest.mark.parametrize("event", ABOUT, ids=lambda event: type(event).__name__)
def test_no_word_of_a_question_is_in_its_id(event: Event) -> None:
    assert b"word" not in encode_event(as_viewed(event, hide=True))
    assert as_viewed(event, hide=False) == event


def test_what_belongs_to_one_question_still_does_and_no_other() -> None:
    def name(event: Event) -> str:
        seen = as_viewed(event, hide=True)
        assert isinstance(seen, QuestionAsked | Answered | QuestionWithdrawn)
        return seen.question

    assert len({name(event) for event in ABOUT}) == 1
    assert name(ABOUT[0]) != name(QuestionAsked(question="another-0f3b"))


# --- every field of every event -------------------------------------------------------------------

WORD: Final = "zzword"
SHOWN: Final = {
    # ids and names that are in the code, in the settings or made up by whoever asks
    "agent", "attempt", "back_to", "child", "code_version", "condition", "cwd", "defer", "digest",
    "forked_from", "item", "key", "leaves", "limits", "model", "name", "owner", "parent", "part",
    "place", "plan", "run_in", "scope", "step", "target", "thread", "tool", "trace", "where",
    "call", "approval", "guard", "family", "frozen", "state", "caps", "ladder_ms", "cause",
    "still_running",
    # who stopped it, why and by which way: what a stop is known by
    "by", "reason", "via",
}  # fmt: skip
SHOWN_OF: Final = {"QuestionWithdrawn.why"}  # a sentence of the library's own


def of_type(kind: Any) -> Any:
    """A value of this type, with the word in it wherever there is room for one."""
    if kind is str:
        return WORD
    if kind is msgspec.Raw:
        return dump({WORD: WORD})
    if kind is PlanItem:
        return PlanItem(WORD, WORD)
    if get_origin(kind) is tuple:
        return (of_type(get_args(kind)[0]),)
    if get_origin(kind) is dict:
        return {WORD: 1.0}
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if of_many := [one for one in get_args(kind) if one in (str, msgspec.Raw)]:
        return of_type(of_many[0])
    return None


def full(kind: type[Event]) -> dict[str, Any]:
    """Its fields that can hold words, each with one."""
    fields = {one.name: of_type(one.type) for one in msgspec.structs.fields(kind)}
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("kind", TAGS, ids=lambda kind: kind.__name__)
def test_no_field_of_any_event_is_shown_by_oversight(kind: type[Event]) -> None:
    """A new event, or a new field, has to be withheld or named above."""
    given = full(kind)
    made: Any = kind
    bare = [one.name for one in msgspec.structs.fields(kind) if one.required]
    seen = withheld(made(**(dict.fromkeys(bare, 1) | given)))
    for name in given:
        left = msgspec.json.encode(getattr(seen, name)).decode()
        if name == "items":  # their ids are numbers of the library's own
            left = "".join(item.title for item in getattr(seen, name))
        is_named = name in SHOWN or f"{kind.__name__}.{name}" in SHOWN_OF
        assert WORD not in left or is_named, f"{kind.__name__}.{name} is shown: {left}"


def test_what_could_not_be_released_is_still_said() -> None:
    assert withheld(Released(defer="d", error="ValueError: zzword")) != withheld(
        Released(defer="d")
    )
