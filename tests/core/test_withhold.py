"""What is withheld of a quarantined run: also the words that a question is named after."""

from typing import Any

import msgspec
import pytest

from pullcord.core.events import (
    TAGS,
    Answered,
    Event,
    LateResult,
    QuestionAsked,
    QuestionWithdrawn,
    Released,
    encode_event,
)
from pullcord.core.show.withhold import as_viewed, withheld
from pullcord.core.values import dump
from tests.core.filled_events import SHOWN, SHOWN_OF, WORD, full

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


def test_what_failed_after_it_was_stopped_is_not_said_to_have_happened() -> None:
    left = withheld(LateResult(step="s", error="ValueError: zzword"))
    assert left == LateResult(step="s", error="(withheld)")
    assert withheld(LateResult(step="s", result=dump(1))) == LateResult(step="s")


def test_what_could_not_be_released_is_still_said() -> None:
    assert withheld(Released(defer="d", error="ValueError: zzword")) != withheld(
        Released(defer="d")
    )
