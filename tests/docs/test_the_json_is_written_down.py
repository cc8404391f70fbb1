"""docs/json.md is made of the types in cli/render/json_shapes.py, and every verb prints what they
say."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
from msgspec import inspect

from pullcord.cli.parser import VERBS
from pullcord.cli.render.json_shapes import PRINTED, Failure
from pullcord.core.states import RunState
from tests.cli.serving import Serving, serve
from tests.cli.terminal import Said

ROOT = Path(__file__).parent.parent.parent
WORLD = ROOT / "tests" / "cli" / "world.py"
HEAD = """\
# What `--json` prints

Generated from `cli/render/json_shapes.py`; a test keeps it current, and holds every command to it.

With `--json` standard output is JSON and nothing else: one value, or one a line where a run is
followed. Fields are only ever added. What was not done is JSON too, with the exit status that it
has without: `{"error": ..., "message": ...}`. Everything outside ASCII that is not printable is
escaped.
"""


def kind(of: inspect.Type) -> str:
    match of:
        case inspect.StructType(cls=cls):
            return cls.__name__
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return f"list of {kind(item)}"
        case inspect.DictType(value_type=value):
            return f"object of {kind(value)}"
        case inspect.UnionType(types=types):
            shown = [kind(t) for t in types if not isinstance(t, inspect.CustomType)]
            return " or ".join(one for one in shown if one != "UNSET")
        case inspect.EnumType(cls=cls):
            return f"one of {', '.join(str(one) for one in cls)}"
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(json.dumps(one) for one in values)}"
        case inspect.IntType() | inspect.FloatType():
            return "number"
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.RawType() | inspect.AnyType():
            return "any value"
        case _:
            return type(of).__name__


def named(shape: Any) -> str:
    if get_origin(shape) is list:
        return f"a list of `{get_args(shape)[0].__name__}`"
    return f"`{shape.__name__}`"


def structs() -> list[Any]:
    """Every type that is printed, and those in them that are small enough to be worth a table."""
    found: dict[str, Any] = {}
    shapes = [s for printed in PRINTED.values() for s in printed]
    for shape in [*shapes, Failure]:
        shape = get_args(shape)[0] if get_origin(shape) is list else shape
        found.setdefault(shape.__name__, shape)
    for shape in list(found.values()):
        info = inspect.type_info(shape)
        assert isinstance(info, inspect.StructType)
        for field in info.fields:
            inner = getattr(field.type, "item_type", field.type)
            if isinstance(inner, inspect.StructType):
                found.setdefault(inner.cls.__name__, inner.cls)
    return list(found.values())


def page() -> str:
    parts = [HEAD, "| command | prints |\n|---|---|"]
    for verb, printed in PRINTED.items():
        parts[-1] += f"\n| `{verb}` | {', or '.join(named(shape) for shape in printed)} |"
    parts.append("`pause` and `cancel` print the receipt with `--wait`, `undo` unless `--detach`.")
    for shape in structs():
        about = " ".join((shape.__doc__ or "").split("\n\n")[0].split())
        rows = ["| field | is | |", "|---|---|---|"]
        info = inspect.type_info(shape)
        assert isinstance(info, inspect.StructType)
        for field in info.fields:
            often = "" if field.required else "may be left out"
            rows.append(f"| `{field.encode_name}` | {kind(field.type)} | {often} |")
        parts.append(f"## {shape.__name__}\n\n{about}\n\n" + "\n".join(rows))
    parts.append(
        "A `Run` (`run_state`) is the run as its records make it; its fields are those of "
        "`pullcord.Run`."
    )
    return "\n\n".join(parts) + "\n"


def test_the_page_is_current() -> None:
    path = ROOT / "docs" / "json.md"
    wanted = page()
    current = path.read_text() if path.exists() else ""
    if current != wanted:
        path.write_text(wanted)
    assert current == wanted, "docs/json.md was out of date; it has been written anew"


def test_every_verb_that_takes_json_is_written_down() -> None:
    assert set(PRINTED) == set(VERBS) - {"tour", "demo", "completion", "top"}


# --- real output ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    with serve(tmp_path_factory.mktemp("json"), str(WORLD)) as made:
        made.begin("planned", "wait-1")
        made.begin("pays", "pay-1")
        made.begin("hangs", "hang-1")
        for name in ("wait-1", "pay-1"):
            made.here.reached(RunState.WAITING, run_id=name)
        made.here.until(lambda run: bool(run.open_steps()), run_id="hang-1")
        made("run", "quick", "x", "--run-id", "done-1")
        made("run", "drafts", "--run-id", "fail-1")
        yield made


WORDS: list[tuple[str, ...]] = [
    ("ps", "--all"),
    ("show", "done-1", "--records"),
    ("show", "wait-1"),
    ("show", "fail-1", "--records"),
    ("watch", "done-1"),
    ("watch", "fail-1"),
    ("receipt", "done-1"),
    ("receipt", "wait-1"),
    ("approvals",),
    ("attention",),
    ("redirect", "wait-1", "in German"),
    ("pause", "wait-1"),
    ("resume", "wait-1", "--detach"),
    ("answer", "wait-1", "none-such", "1"),
    ("settle", "wait-1", "nothing"),
    ("raise", "wait-1", "steps=2000"),
    ("signal", "wait-1", "enough"),
    ("rename", "wait-1", "churn in May"),
    ("pause", "wait-1", "--wait"),
    ("cancel", "wait-1", "--wait"),
    ("cancel", "wait-1"),
    ("edit", "pay-1", "pay", '{"eur": 5}'),
    ("deny", "pay-1", "pay", "--reason", "no"),
    ("approve", "pay-1", "pay"),
    ("undo", "fail-1"),
    ("undo", "done-1"),
    ("fork", "done-1"),
    ("fork", "done-1", "--detach"),
    ("continue", "done-1", "go on"),
    ("continue", "done-1", "go on", "--detach"),
    ("aside", "done-1", "why?"),
    ("doctor",),
    ("kill-switch", "status"),
    ("log", "show"),
    ("log", "show", "wait-1"),
    ("log", "verify"),
    ("log", "head"),
]


def checked(verb: str, said: Said) -> None:
    assert said.out, said
    for one in said.out.splitlines():
        fits(verb, one)


def fits(verb: str, line: str) -> None:
    """It is one of the shapes of this verb, with no field that is not written down."""
    value = json.loads(line)
    problems: list[str] = []
    for shape in PRINTED[verb]:
        try:
            msgspec.convert(value, shape, strict=False)
        except msgspec.ValidationError as error:
            problems.append(f"{shape}: {error}")
            continue
        return unknown_fields(shape, value)
    raise AssertionError((verb, line[:300], problems))


def unknown_fields(shape: Any, value: Any) -> None:
    if get_origin(shape) is list:
        for one in value:
            unknown_fields(get_args(shape)[0], one)
        return
    assert set(value) <= {f.encode_name for f in msgspec.structs.fields(shape)}, shape


@pytest.mark.parametrize("place", ["here", "abroad"])
def test_each_verb_prints_what_is_written_down_and_nothing_else(
    serving: Serving, place: str
) -> None:
    ask = serving.here if place == "here" else serving.abroad
    for words in WORDS if place == "here" else WORDS[:10]:
        said = ask(*words, "--json")
        assert said.status in (0, 1, 3), (words, said)
        checked(words[0], said)


def test_a_token_and_where_the_page_is(serving: Serving) -> None:
    fits("grant", serving.here("grant", "x", "--json").out)
    with serving.here.running("serve", "--port", "0", "--json") as process:
        assert process.stdout
        fits("serve", process.stdout.readline())


@pytest.mark.parametrize(
    "words",
    [
        ("show", "none-such"),
        ("show", "a b"),
        ("show",),
        ("pause", "done-1", "--nonsense"),
        ("show", "done-1", "--store", "none.db"),
        ("run", "none.py:such"),
        ("fork", "done-1", "--at", "x"),
        ("fork", "done-1", "--at", "999"),
        ("raise", "done-1", "x"),
        ("pause", "hang-1", "--wait", "--timeout-s", "0"),
    ],
    ids=" ".join,
)
def test_what_is_not_done_is_json_too(serving: Serving, words: tuple[str, ...]) -> None:
    said = serving.here(*words, "--json")
    assert said.status in (2, 3, 4), said
    if said.status != 3:
        msgspec.json.decode(said.out, type=Failure)
    assert "usage:" not in said.err
