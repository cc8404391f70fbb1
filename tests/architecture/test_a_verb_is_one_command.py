"""A control verb is a command. All else that there is of it follows, and none of it is missing."""

from typing import Any, get_args

import msgspec
import pytest

from pullcord import RunHandle
from pullcord.cli.parser import VERBS, described
from pullcord.cli.render.json_shapes import PRINTED, Acknowledged
from pullcord.cli.verbs import command_of
from pullcord.core.commands import COMMANDS, SIGNED, Command, words_of
from pullcord.core.states import ASKS, TABLE
from pullcord.core.text.sealing import sealed
from pullcord.core.text.secrets import Secrets
from pullcord.core.values import dump
from pullcord.server.routes import ROUTES
from pullcord.server.wire import Said

EVERY = pytest.mark.parametrize("verb", COMMANDS)
KEYWORDS = {"raise": "raise_limits"}
"""What a method cannot be called in Python."""
SAID: dict[str, tuple[str, ...]] = {"value": ("1",), "args": ("{}",), "caps": ("steps=5",)}
"""Words for a field that takes no others."""


def test_every_command_is_known_by_its_verb() -> None:
    assert list(COMMANDS.values()) == list(get_args(Command))
    for verb, kind in COMMANDS.items():
        assert kind.__struct_config__.tag == verb == kind.verb


def test_the_table_of_states_has_a_row_for_each_and_for_no_other() -> None:
    assert set(ASKS) == set(COMMANDS)
    in_table = {event for row in TABLE.values() for event in row.on}
    assert set(ASKS.values()) <= in_table


@EVERY
def test_it_has_a_method_of_the_handle(verb: str) -> None:
    method = getattr(RunHandle, KEYWORDS.get(verb, verb))
    mine = set(COMMANDS[verb].__struct_fields__) - set(SIGNED)
    assert mine == set(method.__annotations__) - {"who", "return"}
    assert method.__doc__


@EVERY
def test_it_has_a_route_that_takes_what_is_in_it_and_nothing_else(verb: str) -> None:
    [route] = [one for one in ROUTES if one.path == f"/runs/{{run}}/{verb}"]
    kind = COMMANDS[verb]
    assert route.takes is not None
    mine = set(route.takes.__struct_fields__) - set(Said.__struct_fields__)
    assert mine == set(kind.__struct_fields__) - set(SIGNED)
    assert route.takes.__struct_config__.forbid_unknown_fields
    assert (route.right, route.wider, route.about) == (
        kind.right,
        kind.wider,
        words_of(kind).summary,
    )
    assert {field for field, _ in kind.wider} <= mine


@EVERY
def test_it_has_words_and_an_answer_on_the_command_line(verb: str) -> None:
    assert VERBS[verb].summary == words_of(COMMANDS[verb]).summary
    assert PRINTED[verb][0] is Acknowledged
    assert all(example.startswith(f"pullcord {verb} ") for example in VERBS[verb].examples)


@EVERY
def test_the_words_of_a_command_line_make_exactly_it(verb: str) -> None:
    """With as few words as can be, each field that may be left out has its own default."""
    kind = COMMANDS[verb]
    words = ["r1"]
    needed = [one for one in msgspec.structs.fields(kind) if one.required or one.name == "value"]
    for field in needed:
        if field.name not in SIGNED:
            words += SAID.get(field.name, (field.name,))
    asked: Any = described(verb).parse_args(words)
    asked.verb, asked.by, asked.call = verb, "ana", ""
    made = command_of(asked)
    assert type(made) is kind
    for field in msgspec.structs.fields(kind):
        if not field.required and field.name not in ("value",):
            assert getattr(made, field.name) == field.default, field.name


@EVERY
def test_whatever_can_be_said_in_it_is_sealed(verb: str) -> None:
    kind, word = COMMANDS[verb], "zzword-0123456789"
    said: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name in ("value", "args"):
            said[field.name] = dump({"it is": word})
        elif field.name == "caps":
            said[field.name] = {"steps": 5.0}  # names of caps are refused if they are others
        elif field.name not in ("source", "seen_seq") and not isinstance(field.default, bool):
            said[field.name] = word
    made = sealed(kind(**said), Secrets({"WORD": word}))
    assert word.encode() not in msgspec.json.encode(made)
