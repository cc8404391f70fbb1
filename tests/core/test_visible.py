"""Whatever acts on a terminal or hides from a reader is written out, however it is cut."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullcord.core.text.visible import visible, visible_json

KEPT = {"\n", "\t"}
# Signs of Arabic, Syriac and Kaithi that are drawn, although they are counted as formats.
DRAWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
BLANK = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180F, 0x2800, 0x3164, 0xFFA0)
OF_LATER_UNICODE = {
    0x2065,
    *range(0xFFF0, 0xFFF9),
    *range(0x180B, 0x1810),
    *range(0x13430, 0x13440),
}
PIECES = st.text(
    st.one_of(
        st.sampled_from("\x1b[]\\;78\x07\x9b\x9d\r\n\t\u202e\u200b⚠\ufe0fa\x00\U000e0041"),
        st.characters(),
    )
)


def is_dangerous(code: int) -> bool:
    """By the Unicode database, and not by the table in question."""
    if chr(code) in KEPT or code in DRAWN:
        return False
    kind = unicodedata.category(chr(code))
    is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF
    is_none = (code & 0xFFFE) == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return kind in ("Cc", "Cf", "Cs", "Zl", "Zp") or is_selector or is_none or code in BLANK


def test_every_character_of_unicode_is_kept_if_and_only_if_it_neither_acts_nor_hides() -> None:
    kept = set(visible("a".join(map(chr, range(sys.maxunicode + 1)))))
    wrong = [
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if (chr(code) not in kept) != is_dangerous(code) and code not in OF_LATER_UNICODE
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb", "a\\x0db"),
        ("rm \u202etxt", "rm \\u202etxt"),
        ("a\U000e0041", "a\\U000e0041"),
        ("half \ud800", "half \\ud800"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("grüße, שלום, 你好, é", "grüße, שלום, 你好, é"),
    ],
)
def test_there_is_one_clear_form(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_an_emoji_keeps_its_selector_and_a_letter_does_not_get_one() -> None:
    assert visible("⚠\ufe0f") == "⚠\ufe0f"
    assert visible("\ufe0f", after="⚠") == "\ufe0f"
    assert visible("⚠\ufe0f\ufe0f") == "⚠\ufe0f\\ufe0f"
    assert visible("a\ufe0f") == visible("a") + "\\ufe0f"
    assert visible("\ufe0f") == "\\ufe0f"


@given(PIECES, PIECES)
def test_a_text_is_shown_the_same_however_it_is_cut(first: str, second: str) -> None:
    assert visible(first) + visible(second, after=first[-1:]) == visible(first + second)


@given(PIECES)
def test_nothing_that_is_shown_has_to_be_shown_again(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    visible(text).encode()  # also half of a pair can be written now


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_says_the_same_and_shows_everything(text: str) -> None:
    encoded = visible_json(json.dumps({"a": text}, ensure_ascii=False, indent=1))
    assert json.loads(encoded) == {"a": text}
    assert visible(encoded) == encoded
