"""What a run's records say in words is said in `core.show.words` and `core.show.story`, and
nowhere else.

A surface lays it out. A second copy of a sentence drifts: there were four, and they had.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import pytest

from pullcord.core.events import TAGS, Effect, Rung, RunIn, Verdict
from pullcord.core.show import story, words

ROOT: Final = Path(__file__).parent.parent.parent
SURFACES: Final = ("cli", "tui", "telemetry", "server")
_STRING: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`|>([^<>{}=;]{3,})<', re.S)
COMMON: Final = {"goes on from"}  # the page has it before the link to a run
BEFORE_A_RUN: Final = {"page/start.tsx"}  # a form asks how a run is to end: that tells of none
_AROUND: Final = " ·:,.;()"
NOT_WORDS: Final = {  # a table by event types that names none of them in words
    "telemetry/attributes.py",  # which are events of a span, which counts as which stop
    "tui/run_report.py",  # in which state a record leaves the run, for the picture
    "commands/tour.py",  # which button the tour has pressed
    "commands/doctor.py",  # where a machine can run tools
}


def _phrases() -> set[str]:
    """Everything of two words or more that is said of a record, a rung, a bill or a tally."""
    tables = (words.EFFECT, words.STOPS, words.RUNG, words.UNDO, words.THEN)
    said = {phrase for table in tables for phrase in table.values()}
    said |= {heading.word for heading in words.HEADINGS}
    for module in (story, words):
        assert module.__file__
        said |= set(_literals(ast.parse(Path(module.__file__).read_text())))
    said = {phrase.strip(" :,(") for phrase in said}
    is_code = {"dict[str, Any]", "dict[str, object]"}
    return {one for one in said - is_code - COMMON if one.count(" ") >= 1 and len(one) > 9}


def _literals(tree: ast.AST) -> Iterator[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings | bare:
            assert isinstance(node, ast.Constant)
            yield str(node.value)


PYTHON: Final = sorted(
    path for room in SURFACES for path in (ROOT / "src/pullcord" / room).rglob("*.py")
)
SCRIPT: Final = sorted(
    path
    for path in (ROOT / "web/src").rglob("*.ts*")
    if ".test." not in path.name and path.name != "events.ts"
)


def _name(path: Path) -> str:
    return "/".join(path.parts[-2:])


@pytest.mark.parametrize("path", PYTHON, ids=_name)
def test_no_terminal_and_no_server_says_it_in_its_own_copy(path: Path) -> None:
    said = set(_literals(ast.parse(path.read_text())))
    assert _copies(said) == {}


@pytest.mark.parametrize("path", SCRIPT, ids=_name)
def test_no_page_says_it_in_its_own_copy(path: Path) -> None:
    found = _STRING.findall(path.read_text()) if _name(path) not in BEFORE_A_RUN else ()
    assert _copies({" ".join(part.split()) for parts in found for part in parts if part}) == {}


def _copies(said: set[str]) -> dict[str, list[str]]:
    """What is said in words of ours: as a whole, or with a phrase in it that is hardly chance."""
    phrases = _phrases()
    found = {
        text: [
            one for one in phrases if one == text.strip(_AROUND) or (len(one) > 24 and one in text)
        ]
        for text in said
    }
    return {text: copied for text, copied in found.items() if copied}


@pytest.mark.parametrize("path", PYTHON, ids=_name)
def test_no_surface_has_a_table_of_words_by_event_effect_or_rung(path: Path) -> None:
    kinds = {kind.__name__ for kind in TAGS}
    tags = {*TAGS.values()} - {"asked", "failed", "paused", "stopped", "cancelled", "completed"}
    values = {one for kind in (Effect, RunIn, Rung, Verdict) for one in get_args(kind) if one}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Dict) or _name(path) in NOT_WORDS:
            continue
        keys = {key.id for key in node.keys if isinstance(key, ast.Name)} & kinds
        keys |= {str(k.value) for k in node.keys if isinstance(k, ast.Constant)} & (tags | values)
        assert len(keys) < 2, f"{path.name}:{node.lineno} has words for {sorted(keys)}"


def test_the_phrases_are_found_where_they_are_copied() -> None:
    """A detector that was never seen to detect proves nothing."""
    assert _copies({"the step's processes: its processes were killed"})
    [(line,)] = [set(part) - {""} for part in _STRING.findall("<p>has no undo</p>")]
    assert _copies({line})
