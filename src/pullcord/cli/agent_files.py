"""Agents from a file: which there are, and which one is meant."""

import ast
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from typing import Any

from pullcord.errors import InvalidInput
from pullcord.runtime.agents import AgentConfig, adapted
from pullcord.runtime.steps.failures import described
from pullcord.warden.frames import own_place, own_traceback


def load_agents(target: str, cwd: str | None) -> tuple[dict[str, AgentConfig], str]:
    """Return the agents in a file, and which one is meant.

    Every async function whose first parameter is called `ctx` is one, so that they can spawn
    each other.
    """
    where, _, name = target.rpartition(":")
    if Path(cwd or ".", file := target.removesuffix(":")).is_file():
        raise InvalidInput(_which(file, Path(cwd or ".", file)))
    path = Path(cwd or ".", where).resolve()
    if not where or not path.is_file():
        raise InvalidInput(
            f"{target!r} does not name an agent: it takes a file and a function in it, and "
            f"{path if where else target} is not a file. Nothing was started. For example: "
            "pullcord run report.py:churn"
        )
    agents = _agents_in(path)
    if name not in agents:
        known = ", ".join(agents) or "none"
        raise InvalidInput(
            f"There is no agent {name} in {os.path.relpath(path)}; it has: {known}. Nothing was "
            "started. An agent is an async function whose first parameter is called ctx, or an "
            "agent of a framework."
        )
    return agents, name


def load_file(file: str) -> dict[str, AgentConfig]:
    """Return all agents in a file, by their names.

    Raises:
        InvalidInput: there is no such file, or no agent in it.
    """
    path = Path(file).resolve()
    if not path.is_file():
        raise InvalidInput(
            f"{file!r} is not a file. Nothing was started. For example: pullcord serve report.py"
        )
    if not (agents := _agents_in(path)):
        raise InvalidInput(
            f"There is no agent in {file}. Nothing was started. An agent is an async function "
            "whose first parameter is called ctx, or an agent of a framework."
        )
    return agents


def _which(file: str, path: Path) -> str:
    """What to write instead of a file alone. Nothing of it is carried out to find that out."""
    known = ", ".join(f"{file}:{name}" for name in names_in(path))
    which = f"Name one of them: {known}" if known else f"For example: pullcord run {file}:churn"
    return (
        f"{file!r} is a file, and does not say which agent in it is meant. Nothing was started. "
        f"{which}"
    )


def names_in(path: Path) -> list[str]:
    """What looks like an agent in a file, as far as can be seen by reading it."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError, OSError):
        return []
    return [name for node in body for name in _names(node)]


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.AsyncFunctionDef):
        given = [*node.args.posonlyargs, *node.args.args]
        return [node.name] if given and given[0].arg == "ctx" else []
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    made = getattr(node, "value", None)
    if not isinstance(made, ast.Call) or not _is_agent(made.func):
        return []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_agent(called: ast.expr) -> bool:
    """Agent(...), pullcord.AgentConfig(...), Agent[Deps, str](...), PydanticAgent(...)"""
    called = called.value if isinstance(called, ast.Subscript) else called
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name.endswith(("Agent", "AgentConfig"))


def _agents_in(path: Path) -> dict[str, AgentConfig]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _unloadable(path, error) from error
    return {key: found for key, value in vars(module).items() if (found := _agent(value))}


def _unloadable(path: Path, error: BaseException) -> InvalidInput:
    """What a file has raised, and where, without the frames that are ours."""
    frames = own_traceback(error)
    at = "" if isinstance(error, SyntaxError) else f" ({own_place(error)})"
    return InvalidInput(
        f"{os.path.relpath(path)} cannot be loaded: {described(error)}{at}. Nothing was started. "
        + ("Correct it, and try again." if frames.count("File") < 2 else f"It came by:\n{frames}")
    )


def _agent(value: Any) -> AgentConfig | None:
    if isinstance(value, AgentConfig):
        return value
    if inspect.iscoroutinefunction(value):
        first = next(iter(inspect.signature(value).parameters), "")
        return AgentConfig(value) if first == "ctx" else None
    return AgentConfig(value) if adapted(value) else None
