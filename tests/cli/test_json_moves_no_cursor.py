"""Whatever an agent says: in JSON there is nothing that a terminal would obey."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pullcord.cli.as_json import printable, to_json

SNEAKY = "\x1b[31m \x9b31m \x7f \u202e \u200b \u2066 \ufeff \x07 \U000e0041 é 日"


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.just(SNEAKY))
def test_it_is_the_same_value_and_all_of_it_is_printable(text: str) -> None:
    shown = to_json({"text": text})
    assert json.loads(shown) == {"text": text}
    assert shown.endswith("\n")
    assert shown[:-1].isprintable()


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.just(SNEAKY))
def test_a_sentence_is_printable_but_for_its_line_breaks(text: str) -> None:
    assert printable(text).replace("\n", "").isprintable()
