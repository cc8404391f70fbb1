"""Every type that a public call takes, returns or raises has a public name."""

import dataclasses
import inspect
import re
import subprocess
import sys
import types
import typing
from collections.abc import Awaitable, Coroutine, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import msgspec

import pullcord
from pullcord import errors, tools
from pullcord.core import events
from pullcord.runs import ChildRun

ROOT = Path(pullcord.__file__).parent.parent.parent
PUBLIC = (
    "pullcord",
    "pullcord.adapters",
    "pullcord.engines",
    "pullcord.errors",
    "pullcord.events",
    "pullcord.guard",
    "pullcord.hooks",
    "pullcord.limits",
    "pullcord.options",
    "pullcord.runs",
    "pullcord.server",
    "pullcord.tools",
)
"""The documented modules: what a program imports from anywhere else may change at any time."""

FOR_EXTENSIONS = {
    "pullcord.Context.live",
    "pullcord.Runtime.journal",
    "pullcord.server.Runs.journal",
}
"""What is not for programs: an adapter or a server reaches through it to what lies behind."""


def names_of(module: str) -> list[str]:
    """What a module offers: what it lists, or else every class and function of ours in it."""
    there = import_module(module)
    listed: list[str] | None = getattr(there, "__all__", None)
    return listed or [n for n, thing in vars(there).items() if n[0] != "_" and is_of_us(thing)]


def is_of_us(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "pullcord"


def public() -> dict[str, Any]:
    """Every public object, by its address."""
    return {f"{m}.{name}": getattr(import_module(m), name) for m in PUBLIC for name in names_of(m)}


def is_ours(kind: Any) -> bool:
    return isinstance(kind, type) and is_of_us(kind)


def classes_in(hint: Any) -> Iterator[type]:
    """Every class of ours that is named in an annotation, at any depth."""
    if is_ours(origin := typing.get_origin(hint) or hint):
        yield origin
    inside = cast("list[Any]", hint) if isinstance(hint, list) else [*get_args(hint)]
    for one in inside:
        yield from classes_in(one)


def hints_of(thing: Any) -> dict[str, Any]:
    return get_type_hints(thing, include_extras=True)


def is_record(kind: Any) -> bool:
    """Whether its fields are what it is for: a struct, a dataclass, a tuple or mapping of names."""
    return (
        issubclass(kind, msgspec.Struct)
        or dataclasses.is_dataclass(kind)
        or typing.is_typeddict(kind)
        or hasattr(kind, "_fields")
    )


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, those that it inherits from ours as well."""
    for base in kind.__mro__:
        if is_ours(base):
            for name, found in vars(base).items():
                function: Any = getattr(found, "fget", None) or getattr(found, "__func__", found)
                if not name.startswith("_") and isinstance(function, types.FunctionType):
                    yield name, function


def named_by(address: str, thing: Any) -> Iterator[tuple[str, type]]:
    """Every class of ours that the annotations of a public thing name, each with its place."""
    if isinstance(thing, types.FunctionType):
        for parameter, hint in hints_of(thing).items():
            yield from ((f"{address}({parameter})", kind) for kind in classes_in(hint))
    elif not isinstance(thing, type):
        yield from ((address, kind) for kind in classes_in(thing))
    elif is_ours(thing):
        if is_record(thing):
            for field, hint in hints_of(thing).items():
                if not field.startswith("_"):
                    yield from ((f"{address}.{field}", kind) for kind in classes_in(hint))
        for name, function in members_of(thing):
            if f"{address}.{name}" not in FOR_EXTENSIONS:
                yield from named_by(f"{address}.{name}", function)


def raised_by(address: str, thing: Any) -> Iterator[tuple[str, str]]:
    """Every error that the docstring of a public call says it raises."""
    text = inspect.getdoc(thing) or ""
    for section in re.findall(r"Raises:\n((?:[ ]{4}.*\n?)+)", text):
        for names in re.findall(r"^ {4}(\w+(?:, \w+)*):", section, re.MULTILINE):
            yield from ((address, name) for name in names.split(", "))
    if isinstance(thing, type):
        for name, function in members_of(thing):
            yield from raised_by(f"{address}.{name}", function)


def missing(known: dict[str, Any]) -> dict[str, str]:
    """Classes without a public name, each with a place that names it."""
    has_a_name = {id(thing) for thing in known.values()}
    found: dict[str, str] = {}
    for address, thing in known.items():
        for place, kind in named_by(address, thing):
            if id(kind) not in has_a_name:
                found.setdefault(f"{kind.__module__}.{kind.__qualname__}", place)
    return found


def test_every_type_that_is_named_has_a_public_name() -> None:
    assert missing(public()) == {}


def test_what_has_none_is_found() -> None:
    known = {address: thing for address, thing in public().items() if "Turn" not in address}
    assert missing(known) == {
        "pullcord.runtime.doors.thread_history.Turn": "pullcord.Context.history(return)"
    }
    events_gone = {a: t for a, t in public().items() if a != "pullcord.events.Paused"}
    assert missing(events_gone) == {"pullcord.core.events.Paused": "pullcord.Event"}


def test_every_error_that_a_call_raises_is_in_the_tree_of_errors() -> None:
    raised = [one for address, thing in public().items() for one in raised_by(address, thing)]
    assert ("pullcord.RunHandle.result", "RunStopped") in raised
    offered = (errors, pullcord.adapters)  # what passes through a framework is an adapter's
    assert not [one for one in raised if not any(hasattr(home, one[1]) for home in offered)]


def test_every_event_is_among_the_events() -> None:
    offered = import_module("pullcord.events")
    assert {kind.__name__ for kind in get_args(events.Event)} <= set(offered.__all__)


def test_they_are_reached_from_the_root() -> None:
    """All but the server, which is loaded only where it is imported."""
    named = "; ".join(module for module in PUBLIC if module != "pullcord.server")
    subprocess.run([sys.executable, "-c", f"import pullcord; {named}"], check=True)


def test_the_page_lists_them() -> None:
    page = ROOT / "docs" / "python.md"
    before, _, rest = page.read_text().partition("<!-- names -->\n")
    current, _, after = rest.partition("<!-- /names -->")
    wanted = "| module | names |\n|---|---|\n" + "".join(
        f"| `{m}` | {', '.join(f'`{n}`' for n in sorted(names_of(m)))} |\n" for m in PUBLIC
    )
    if current != wanted:
        page.write_text(f"{before}<!-- names -->\n{wanted}<!-- /names -->{after}")
    assert current == wanted, "docs/python.md was out of date; it has been written anew"


def test_every_field_of_a_policy_can_be_declared() -> None:
    assert hints_of(tools.Declared) == hints_of(tools.Policy)


NAMED_BY_THEMSELVES = {"Context.step", "Context.tool"}
"""tests/runs/test_what_people_get_wrong_is_explained.py has what Python says of these."""


def test_python_can_name_a_call_that_was_not_awaited() -> None:
    """It says `coroutine 'RunHandle.pause' was never awaited` of an `async def` alone."""
    for kind in (pullcord.Context, pullcord.RunHandle, pullcord.Runtime, ChildRun, tools.Queued):
        for name, function in members_of(kind):
            waits = typing.get_origin(hints_of(function).get("return")) in (Coroutine, Awaitable)
            by_itself = f"{kind.__name__}.{name}" in NAMED_BY_THEMSELVES
            assert waits == by_itself, f"{kind.__name__}.{name}"
