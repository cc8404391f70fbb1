"""Whatever an agent says: in JSON there is nothing that a terminal would obey."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pullcord.cli.as_json import to_json
from pullcord.core.text.visible import visible

SNEAKY = "\x1b[31m \x9b31m \x7f \u202e \u200b \u2066 \ufeff \x07 \U000e0041 é 日"


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.just(SNEAKY))
def test_it_is_the_same_value_and_nothing_in_it_acts_or_hides(text: str) -> None:
    shown = to_json({"text": text})
    assert json.loads(shown) == {"text": text}
    assert shown.endswith("\n")
    assert visible(shown) == shown
    assert "\n" not in shown[:-1]
