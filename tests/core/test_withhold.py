"""What is withheld of a quarantined run: also the words that a question is named after."""

import pytest

from pullcord.core.events import (
    Answered,
    Event,
    QuestionAsked,
    QuestionWithdrawn,
    encode_event,
)
from pullcord.core.withhold import as_viewed

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
