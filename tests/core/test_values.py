"""What cannot be stored faithfully is refused, with the place named, before anything is written."""

import math
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullcord.core.run import day_of
from pullcord.core.values import VALUE_MAX_DEPTH, check_id, dump, load
from pullcord.errors import InvalidId, Unstorable


def circular() -> list[object]:
    knot: list[object] = []
    knot.append(knot)
    return knot


def deep(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, r"\$ "),
        ({"rows": [1, {"price": math.inf}]}, r"\$\.rows\[1\]\.price"),
        (circular(), "circular"),
        (deep(VALUE_MAX_DEPTH + 1), "nested"),
        (deep(sys.getrecursionlimit() * 3), "nested"),
        ({1: "one"}, "key 1 is not text"),
        ({"a": "\ud800"}, r"\$\.a.*surrogate"),
        ({"\ud800": 1}, "surrogate"),
        (2**70, "more than 64 bits"),
        (object(), "object has no JSON form"),
        (lambda: 0, "function has no JSON form"),
        ("x" * (16 * 1024 * 1024), "16,777,216 are allowed"),
        (b"x" * (16 * 1024 * 1024), "16,777,216 are allowed"),
    ],
    ids=["nan", "inf", "circular", "deep", "abyss", "key", "surrogate", "surrogate key", "huge int",
         "object", "closure", "large", "large bytes"],
)  # fmt: skip
def test_what_json_cannot_carry_is_refused_by_place(value: object, place: str) -> None:
    with pytest.raises(Unstorable, match=place) as refusal:
        dump(value)
    assert "Nothing was written" in str(refusal.value)
    assert len(str(refusal.value)) < 400


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=JSON)
def test_what_json_can_carry_comes_back_the_same(value: object) -> None:
    assert load(dump(value)) == value


@given(value=st.dictionaries(st.text(), st.integers(0, 9), max_size=6))
def test_equal_values_are_equal_bytes(value: dict[str, int]) -> None:
    assert dump(value) == dump(dict(reversed(value.items())))


def test_common_python_values_have_a_json_form() -> None:
    @dataclass
    class Point:
        x: int
        when: datetime

    class Model:
        def model_dump(self, *, mode: str) -> dict[str, str]:
            return {"mode": mode}

    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert load(dump(Point(1, at))) == {"x": 1, "when": "2026-01-02T00:00:00Z"}
    assert load(dump((1, {2}, uuid.UUID(int=0)))) == [1, [2], str(uuid.UUID(int=0))]
    assert load(dump({"m": Model()})) == {"m": {"mode": "json"}}


@pytest.mark.parametrize("bad", ["", "-a", "a/b", "a" * 65, "é", None, 7, "a\n", "..", "a b"])
def test_an_id_has_one_shape(bad: object) -> None:
    with pytest.raises(InvalidId, match="Nothing was looked up"):
        check_id(bad)


@given(st.integers(0, 4_102_444_800_000))
def test_a_day_is_the_one_that_a_calendar_has(at_ms: int) -> None:
    assert day_of(at_ms) == datetime.fromtimestamp(at_ms // 1000, UTC).date().isoformat()
