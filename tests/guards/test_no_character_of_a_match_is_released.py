"""What a screen hands out never has a character of a match in it, however the text is cut up."""

import base64
import random
import re
import string
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullcord.core.text.phrases import folded
from pullcord.core.text.screening import Check, Guard, Guards, Hit, Pattern, Phrase
from pullcord.errors import InvalidInput
from tests.guards.disguises import DISGUISES, SECRET, UNSEEN
from tests.storage.campaign import FULL, fresh_seed

BEFORE = "Well, here it is: "
AFTER = " and that was it."
PHRASE = Guards([Phrase(SECRET, name="code")])
KEY = Guards([Pattern(r"key-[a-z0-9]{16,40}", max_chars=44, name="key")])


def shown(guards: Guards, pieces: Iterable[str]) -> tuple[str, Hit | None]:
    """All that a viewer would have seen, and what was found."""
    screen = guards.screen()
    said = "".join([screen.feed(piece) for piece in pieces])
    return said + screen.end(), screen.hit


def in_two(text: str, at: int) -> list[str]:
    return [text[:at], text[at:]]


# --- phrases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("disguise", DISGUISES)
def test_nothing_of_a_secret_that_is_cut_anywhere(disguise: str) -> None:
    secret = DISGUISES[disguise](SECRET)
    whole = BEFORE + secret + AFTER
    for at in range(len(BEFORE), len(BEFORE) + len(secret) + 1):
        said, hit = shown(PHRASE, in_two(whole, at))
        assert said == BEFORE, f"cut at {at}"
        assert hit is not None
        assert (BEFORE + hit.evidence).startswith(BEFORE + secret[:40])


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_nothing_of_a_secret_that_comes_in_small_pieces(disguise: str, size: int) -> None:
    whole = BEFORE + DISGUISES[disguise](SECRET) + AFTER
    pieces = [whole[n : n + size] for n in range(0, len(whole), size)]
    said, hit = shown(PHRASE, pieces)
    assert said == BEFORE
    assert hit is not None


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz", "two words "])
@pytest.mark.parametrize("secret", [SECRET, "Überraschung-in-fünf-Zügen"])
def test_inside_of_something_that_was_encoded_whole_no_bit_of_it(before: str, secret: str) -> None:
    """What is shown is decided by what stands before it, and by nothing of the secret."""
    guards = Guards([Phrase(secret)])
    whole = base64.b64encode(f"{before}{secret} and more".encode()).decode()
    for at in range(len(whole) + 1):
        said, hit = shown(guards, in_two(whole, at))
        assert hit is not None
        assert said == whole[: len(before.encode()) * 8 // 6]


@pytest.mark.parametrize("disguise", ["Cyrillic", "of no width", "spelled out"])
def test_a_beginning_that_comes_to_nothing_is_shown(disguise: str) -> None:
    begun = DISGUISES[disguise](SECRET[:-1])
    for end in ("", "?", "!?", " or not"):
        assert shown(PHRASE, [BEFORE, begun, end]) == (BEFORE + begun + end, None)


def test_a_secret_that_begins_twice() -> None:
    whole = SECRET[:9] + SECRET[:20] + SECRET
    for at in range(len(whole) + 1):
        said, hit = shown(PHRASE, in_two(whole, at))
        assert said == SECRET[:9] + SECRET[:20]
        assert hit is not None


def test_after_a_match_nothing_is_ever_released() -> None:
    screen = PHRASE.screen()
    assert screen.feed(SECRET) == ""
    first = screen.hit
    assert screen.feed("an innocent remark") == screen.feed(SECRET) == screen.end() == ""
    assert screen.hit is first


def test_of_several_guards_the_one_whose_match_begins_first_is_named() -> None:
    guards = Guards([Phrase("second phrase", name="b"), Phrase("the first phrase", name="a")])
    said, hit = shown(guards, ["Now the first phrase, then the second phrase."])
    assert said == "Now "
    assert hit is not None
    assert hit.guard == "a"


def test_a_long_run_of_nothing_in_between_costs_no_more_than_its_length() -> None:
    """A guard that looked back at all of it with each chunk would take minutes."""
    gap = " \u200b" * 100_000
    pieces = [SECRET[:20], *(gap[n : n + 4] for n in range(0, len(gap), 4)), SECRET[20:]]
    assert shown(PHRASE, pieces)[0] == ""


# --- patterns and functions -------------------------------------------------------------------


@pytest.mark.parametrize("size", range(1, 9))
def test_nothing_of_what_a_pattern_finds(size: int) -> None:
    whole = f"{BEFORE}key-{'a1' * 15}{AFTER}"
    said, hit = shown(KEY, [whole[n : n + size] for n in range(0, len(whole), size)])
    assert said == BEFORE
    assert hit is not None


@pytest.mark.parametrize("disguise", ["Cyrillic", "of no width", "full width", "accents"])
def test_a_pattern_sees_what_a_reader_sees(disguise: str) -> None:
    key = DISGUISES[disguise]("key-" + "ab12" * 6)
    whole = BEFORE + key + AFTER
    for at in range(len(whole) + 1):
        said, hit = shown(KEY, in_two(whole, at))
        assert said == BEFORE
        assert hit is not None


def test_a_pattern_is_told_what_stood_before_it() -> None:
    guards = Guards([Pattern(r"(?<![a-z])cat\b", max_chars=3)])
    for at in range(12):
        assert shown(guards, in_two("a concat cats", at)) == ("a concat cats", None)
        assert shown(guards, in_two("a concat cat.", at))[0] == "a concat "


def test_a_match_that_could_go_on_is_taken_at_the_end() -> None:
    assert shown(KEY, [BEFORE, "key-" + "a" * 16])[1] is not None
    assert shown(KEY, [BEFORE, "key-" + "a" * 15])[1] is None


def test_a_match_that_never_ends_is_taken_when_it_is_long_enough() -> None:
    screen = Guards([Pattern(r"key-\w+", max_chars=30)]).screen()
    said = [screen.feed(piece) for piece in ["key-", *(["abcde"] * 10)]]
    assert "".join(said) == ""
    assert screen.hit is not None


@pytest.mark.parametrize("size", [1, 3, 10, 200])
def test_nothing_of_a_stretch_in_which_a_function_finds_something(size: int) -> None:
    def has_a_sum(text: str) -> bool:
        return any(int(found) % 97 == 1 for found in re.findall(r"\d{6}", text))

    guards = Guards([Check(has_a_sum, max_chars=6)])
    whole = "It costs 123450 and not 097001, you know."
    said, hit = shown(guards, [whole[n : n + size] for n in range(0, len(whole), size)])
    assert hit is not None
    assert whole.startswith(said)
    assert "0" not in said.removeprefix("It costs 123450")


def test_a_function_that_fails_lets_nothing_through() -> None:
    def broken(text: str) -> bool:
        raise ValueError(text)

    said, hit = shown(Guards([Check(broken, max_chars=10)]), ["anything"])
    assert said == ""
    assert hit is not None


# --- what is not a match ----------------------------------------------------------------------

ALL_KINDS: list[Guard] = [
    Phrase(SECRET),
    Phrase("Überraschung-in-fünf"),
    Pattern(r"key-[a-z0-9]{16,}", max_chars=40),
    Check(lambda text: "\N{SNOWMAN}" * 3 in text, max_chars=3),
]
ALL, BUT_CHECKS = Guards(ALL_KINDS), Guards(ALL_KINDS[:3])
WORDS = st.text(max_size=12) | st.sampled_from(
    [SECRET[:8], SECRET[:39], SECRET[20:], "key-", "VGFuZ2VyaW5l", "\u200b", " ", "aA+/-_", "Ü"]
)


@given(st.lists(WORDS, max_size=30))
@settings(max_examples=2000 if FULL else 200, deadline=None)
def test_ordinary_text_comes_through_as_it_is(pieces: list[str]) -> None:
    said, hit = shown(ALL, pieces)
    assert hit is not None or said == "".join(pieces)


@given(st.lists(WORDS, max_size=12), st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=2000 if FULL else 200, deadline=None)
def test_how_it_is_cut_up_makes_no_difference(words: list[str], cuts: list[int]) -> None:
    whole = "".join([*words, SECRET, *words])
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    assert shown(BUT_CHECKS, pieces)[0] == shown(BUT_CHECKS, [whole])[0]


@pytest.mark.campaign
def test_random_secrets_in_random_company() -> None:
    random.seed(fresh_seed() if FULL else 7)
    alphabet = string.ascii_letters + string.digits + "-_. äöüжλ"
    for _ in range(20_000 if FULL else 300):
        secret = "a" + "".join(random.choices(alphabet, k=random.randint(14, 60)))
        guards = Guards([Phrase(secret)])
        disguise = random.choice(list(DISGUISES))
        try:
            worn = DISGUISES[disguise](secret)
        except ValueError:  # that costume does not fit
            continue
        before = "".join(random.choices(secret + "  .,", k=random.randint(0, 30))) + "¶ "
        whole = f"{before}{worn}!"
        at = random.randint(0, len(whole))
        said, hit = shown(guards, in_two(whole, at))
        if guards.hit_in(before):
            continue
        if hit is None:
            raise AssertionError(f"{secret!r} as {worn!r} was not found")
        kept = before.removeprefix(said)  # what the secret begins or ends with may go with it
        assert before.startswith(said), f"{secret!r} as {worn!r}"
        if disguise not in UNSEEN:  # then what is seen may look like another beginning
            assert not folded(kept), f"{secret!r} as {worn!r}: {kept!r}"


# --- what cannot be a guard -------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "short", "s-h-o-r-t - - -", "\u200b" * 40, "☃☃☃☃☃☃☃☃☃"])
def test_a_phrase_that_is_too_short_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Phrase(text, name="mine")
    assert "8" in str(refused.value)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize("regex", ["(", "a*", ""])
def test_a_pattern_that_is_none_is_refused(regex: str) -> None:
    with pytest.raises(InvalidInput):
        Pattern(regex, max_chars=10)


def test_a_guard_does_not_say_what_it_watches_for() -> None:
    assert SECRET not in repr(Phrase(SECRET))
    assert SECRET not in repr(Hit("name", "pause", SECRET))
