"""Credentials that nobody registered: hidden by their looks, and nothing else is touched."""

import random

import pytest
from bench.secrets import SHAPES, harmless
from hypothesis import given
from hypothesis import strategies as st

from pullcord.core.text.redaction import PATTERNS, Redactor
from pullcord.core.text.secrets import Secrets
from pullcord.core.text.stream_sealer import Sealer

EVERY = Redactor()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_known_shape_is_hidden_wherever_it_stands(shape: str) -> None:
    dice = random.Random(shape)
    for _ in range(50):
        text, secret = SHAPES[shape](dice)
        hidden = EVERY.redact(text)
        assert secret not in hidden
        assert "[redacted " in hidden
        assert EVERY.redact(hidden) == hidden


def test_what_is_harmless_is_left_alone() -> None:
    for text in harmless(random.Random(5), 2000):
        assert EVERY.redact(text) == text


def test_only_what_was_named_is_looked_for() -> None:
    text = "password=hunter22 and ghp_" + "a1B2" * 9
    assert Redactor(["password"]).redact(text).startswith("password=[redacted password] and ghp_")
    assert Redactor(["github-token"]).redact(text).startswith("password=hunter22 and [redacted")


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 10**6), st.integers(1, 40))
def test_a_stream_shows_nothing_of_it_however_it_is_cut(shape: str, seed: int, size: int) -> None:
    text, secret = SHAPES[shape](random.Random(seed))
    text = f"It begins here. {text} And it goes on.\n"
    sealer, said = Sealer(Secrets(redact=True)), ""
    for start in range(0, len(text), size):
        said += sealer.feed(text[start : start + size])
        assert secret not in said
    said += sealer.end()
    assert secret not in said
    assert said.startswith("It begins here.")
    assert said.endswith("And it goes on.\n")


def test_every_pattern_has_a_shape_that_it_finds() -> None:
    dice = random.Random(6)
    texts = [SHAPES[shape](dice)[0] for shape in SHAPES for _ in range(20)]
    found = {name for name in PATTERNS if any(Redactor([name]).redact(t) != t for t in texts)}
    assert found == set(PATTERNS)
