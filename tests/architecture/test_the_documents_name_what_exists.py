"""Every class, function, module and file that the map of the house names is there."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import pullcord

ROOT = Path(pullcord.__file__).parent
HOUSE = ROOT.parent.parent
FILES = {path.relative_to(ROOT): path for path in ROOT.rglob("*.py")}
CODE = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"(\w+(?:\.\w+)+)(?:\(.*\))?")
CLASS = re.compile(r"([A-Z]\w*[a-z]\w*)(?:\(.*\))?")
PLACE = re.compile(r"[\w./-]*(?:\.py|/[\w./-]+)")
OF_OTHERS = {"pydantic_ai.Agent.run", "runs.db"}
A_ROUTE = re.compile(r"runs/.*")


@cache
def members() -> dict[str, set[str]]:
    """What each class and each module has, by its name; a module also by its folder and name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path, file in FILES.items():
        tree = ast.parse(file.read_text())
        inside = {name for node in tree.body for name in bound(node)}
        for name in (path.stem, ".".join(path.with_suffix("").parts)):
            found[name] |= inside
        if path.parent.name:
            found[path.parent.name].add(path.stem)
        for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            found[kind.name] |= {name for node in kind.body for name in bound(node)}
            found[kind.name] |= {
                node.attr
                for node in ast.walk(kind)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            }
    return found


def bound(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.AnnAssign():
            return [ast.unparse(node.target)]
        case ast.Assign():
            return [ast.unparse(target) for target in node.targets]
        case _:
            return []


def is_there(code: str, known: dict[str, set[str]]) -> bool:
    if code in OF_OTHERS or A_ROUTE.fullmatch(code):
        return True
    if PLACE.fullmatch(code):
        return any((at / code).exists() for at in (HOUSE, ROOT)) or any(
            str(path).endswith(code) for path in FILES
        )
    if found := DOTTED.fullmatch(code):
        owner, _, name = found[1].rpartition(".")
        owner = {"ctx": "Context"}.get(owner, owner)
        return name in known.get(owner, ()) or found[1] in known
    if found := CLASS.fullmatch(code):
        return found[1] in known
    return True  # a word, a command, a state: not the name of a thing in the code


@pytest.mark.parametrize("page", ["architecture.md", "glossary.md"])
def test_it_is_there(page: str) -> None:
    known = members()
    text = (HOUSE / "docs" / page).read_text()
    named = {code for code in CODE.findall(text) if not code.startswith(("pullcord ", "-"))}
    assert named
    assert not {code for code in named if not is_there(code, known)}


@pytest.mark.parametrize("gone", ["Driver.nowhere", "steps._gone", "core/gone.py", "GoneForGood"])
def test_what_is_not_there_is_found(gone: str) -> None:
    assert not is_there(gone, members())
