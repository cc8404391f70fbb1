"""Sealing, as a pure function: nothing is left of a secret, in any form, and nothing is lost."""

import base64
import json
from itertools import pairwise
from typing import Any, cast
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullcord.core.events import Event, StepFailed, StepStarted, TextEnded
from pullcord.core.text.sealing import sealed
from pullcord.core.text.secret_forms import forms_of
from pullcord.core.text.secrets import Secrets, reference
from pullcord.core.text.stream_sealer import Sealer
from pullcord.core.values import dump, load
from pullcord.errors import InvalidId, InvalidInput, SecretUnknown

# Values of every sort: plain, with all that is escaped somewhere, of several lines, of digits.
VALUES = {
    "plain": "fake-0123456789abcdef",
    "odd": "fake\"quo'ted\\and/slash&<%+=\n\tß→😀",
    "lines": "-----BEGIN FAKE-----\nMIIfakefakefakefake0001\nMIIfakefakefakefake0002\n-----END",
    "digits": "4929123456789012",
    "overlapping": "0123456789abcdef-and-more",
}
SECRETS = Secrets(VALUES)
FORMS = [
    (name, form, text) for name, value in VALUES.items() for form, text in forms_of(value).items()
]
PROSE = st.text(st.sampled_from('ab0 {}:|"\\/%=+-_\n0123ß'), max_size=12)
PIECES = st.lists(st.one_of(PROSE, st.sampled_from([text for _, _, text in FORMS])), max_size=6)
TEXTS = PIECES.map("".join)


def verbatim(text: str) -> list[tuple[str, str]]:
    """What of it can be read."""
    return [(name, form) for name, form, said in FORMS if said in text]


@given(TEXTS)
def test_what_is_sealed_holds_no_form_of_a_secret_and_is_revealed_to_the_letter(text: str) -> None:
    hidden = SECRETS.seal(text)
    assert verbatim(hidden) == []
    assert SECRETS.reveal(hidden) == text
    assert SECRETS.seal(hidden) == hidden


@given(TEXTS, st.lists(st.integers(0, 400), max_size=12))
def test_wherever_a_stream_is_cut_it_is_sealed_as_the_whole_would_be(
    text: str, cuts: list[int]
) -> None:
    sealer, said = Sealer(SECRETS), ""
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    for start, end in pairwise(places):
        said += sealer.feed(text[start:end])
        assert verbatim(said) == []
    assert said + sealer.end() == SECRETS.seal(text)


@pytest.mark.parametrize(("name", "form", "text"), FORMS)
def test_a_form_split_at_every_place_never_shows_its_beginning(
    name: str, form: str, text: str
) -> None:
    around = f"a {text} b"
    for cut in range(len(around) + 1):
        sealer = Sealer(SECRETS)
        first = sealer.feed(around[:cut])
        shown = first.removeprefix("a ")
        assert not shown or not text.startswith(shown), "a part of it was shown"
        assert first + sealer.feed(around[cut:]) + sealer.end() == SECRETS.seal(around)


def test_a_text_without_secrets_is_not_held_back() -> None:
    sealer = Sealer(SECRETS)
    assert sealer.feed("Nothing to hide here") == "Nothing to hide here"
    assert sealer.feed(": f") == ": "  # it may be one
    assert sealer.feed("or now.") == "for now."


@given(st.recursive(TEXTS | st.integers(-9, 9), lambda s: st.lists(s) | st.dictionaries(TEXTS, s)))
def test_stored_values_are_sealed_everywhere_and_revealed_as_they_were(value: object) -> None:
    stored = dump(value)
    hidden = SECRETS.seal_json(stored)
    found = load(hidden)
    assert all(verbatim(text) == [] for text in texts_in(found))
    assert SECRETS.reveal_value(found) == load(stored)
    assert SECRETS.seal_json(hidden) == hidden


def texts_in(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            items = cast("list[object]", value)
            return [text for item in items for text in texts_in(item)]
        case dict():
            return texts_in([*value, *value.values()])  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return []


def test_a_number_is_sealed_as_text_and_revealed_as_a_number() -> None:
    hidden = SECRETS.seal_json(dump({"card": 4929123456789012, "n": 5}))
    assert load(hidden) == {"card": "{{secret:digits|number}}", "n": 5}
    assert SECRETS.reveal_value(load(hidden)) == {"card": 4929123456789012, "n": 5}


def test_json_that_others_have_written_is_read_before_it_is_believed() -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in VALUES["plain"])
    assert load(SECRETS.seal_json(msgspec.Raw(f'"{escaped}"'.encode()))) == "{{secret:plain}}"
    slashed = json.dumps(VALUES["odd"]).replace("/", "\\/")
    assert load(SECRETS.seal_json(msgspec.Raw(slashed.encode()))) == "{{secret:odd}}"


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
@pytest.mark.parametrize("name", VALUES)
def test_base64_is_found_whatever_stands_around_it(name: str, before: str) -> None:
    text = base64.b64encode(f"{before}{VALUES[name]}:pw".encode()).decode()
    hidden = SECRETS.seal(text)
    assert reference(name, f"base64-{len(before) % 3}") in hidden
    assert SECRETS.reveal(hidden) == text


def test_the_reference_says_which_form_it_was() -> None:
    assert SECRETS.seal(f"key={VALUES['plain']};") == "key={{secret:plain}};"
    assert SECRETS.seal(quote(VALUES["odd"], safe="")) == "{{secret:odd|percent}}"
    assert SECRETS.seal(VALUES["plain"].encode().hex()) == "{{secret:plain|hex}}"
    assert SECRETS.seal("  MIIfakefakefakefake0002") == "  {{secret:lines|line-3}}"


def test_events_are_sealed_where_something_is_said_and_only_there() -> None:
    # a secret that is also one of our own words
    words = Secrets({"word": "approved", "tool": "idempotent"})
    step = StepStarted(
        step="a-1", name="is it approved?", effect="idempotent", args=dump(["approved"])
    )
    hidden = sealed(step, words)
    assert hidden.effect == "idempotent"
    assert hidden.name == "is it {{secret:word}}?"
    assert load(hidden.args) == ["{{secret:word}}"]
    plain: Event = StepFailed(step="a-1", error="nothing")
    assert sealed(plain, words) is plain
    assert sealed(plain, Secrets()) is plain


def test_what_was_streamed_is_not_judged_by_its_looks_a_second_time() -> None:
    watchful = Secrets({"k": VALUES["plain"]}, redact=True)
    ended = TextEnded(part="p", text=f"password=hunter22 {VALUES['plain']}")
    assert sealed(ended, watchful, streamed=(TextEnded,)).text == "password=hunter22 {{secret:k}}"
    failed = StepFailed(step="a-1", error="password=hunter22")
    assert sealed(failed, watchful).error == "password=[redacted password]"


def test_a_reference_that_cannot_be_resolved_is_refused_by_name() -> None:
    with pytest.raises(SecretUnknown, match="'other'"):
        SECRETS.reveal("{{secret:other}}", tool="charge")
    with pytest.raises(SecretUnknown, match="'plain'"):
        Secrets().reveal_value(["{{secret:plain}}"])
    assert SECRETS.reveal("{{ secret:other }} {{secret:}}") == "{{ secret:other }} {{secret:}}"


def test_a_secret_may_be_for_some_tools_only() -> None:
    some = Secrets({"key": {"value": VALUES["plain"], "tools": ["charge"]}})
    assert some.reveal("{{secret:key}}", tool="charge") == VALUES["plain"]
    with pytest.raises(SecretUnknown, match="other tools only"):
        some.reveal("{{secret:key}}", tool="send_mail")
    assert some.seal(VALUES["plain"]) == "{{secret:key}}"


@pytest.mark.parametrize(
    ("registered", "why"),
    [
        ({"short": "1234567"}, "fewer than 8"),
        ({"blank": "   1234   "}, "fewer than 8"),
        ({"itself": "{{secret:"}, "in its place"),
        ({"stripe_key_live": "stripe_key"}, "in its place"),
        ({"half": "fake\ud800-01234567"}, "surrogate"),
        ({"bytes": b"fake-0123456789"}, "not text"),
        ({"kept": {"value": "fake-0123456789"}}, "the tools that may have it"),
        ({"kept": {"value": 12345678, "tools": []}}, "not text"),
    ],
)
def test_what_could_not_be_told_from_other_text_is_refused(
    registered: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        Secrets(registered)
    [(name, value)] = registered.items()
    assert str(value) not in str(refused.value).replace(name, "")
    assert "Nothing was opened" in str(refused.value)


def test_a_name_has_to_be_an_id() -> None:
    with pytest.raises(InvalidId):
        Secrets({"my key": VALUES["plain"]})


def test_a_value_may_be_read_when_it_is_needed_and_is_shown_by_nothing() -> None:
    asked: list[int] = []

    def read() -> str:
        asked.append(1)
        return VALUES["plain"]

    late = Secrets({"key": read})
    assert late.seal(VALUES["plain"]) == late.seal(VALUES["plain"]) == "{{secret:key}}"
    assert asked == [1]
    assert VALUES["plain"] not in repr(late)
