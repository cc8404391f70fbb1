"""Agents from a file: which there are, and which one is meant."""

import importlib.util
import inspect
import os
import sys
from pathlib import Path
from typing import Any

from pullcord.errors import InvalidInput
from pullcord.runtime.agents import Agent, adapted


def load_agents(target: str, cwd: str | None) -> tuple[dict[str, Agent], str]:
    """Return the agents in a file, and which one is meant.

    Every async function whose first parameter is called `ctx` is one, so that they can spawn
    each other.
    """
    where, _, name = target.rpartition(":")
    path = Path(cwd or ".", where).resolve()
    if not where or not name or not path.is_file():
        raise InvalidInput(
            f"{target!r} does not name an agent: it takes a file and a function in it, and "
            f"{path} is not a file. Nothing was started. For example: pullcord run report.py:churn"
        )
    agents = _agents_in(path)
    if name not in agents:
        known = ", ".join(agents) or "none"
        raise InvalidInput(
            f"There is no agent {name} in {os.path.relpath(path)}; it has: {known}. Nothing was "
            "started. An agent is an async function whose first parameter is called ctx, or a "
            "pydantic_ai.Agent."
        )
    return agents, name


def load_file(file: str) -> dict[str, Agent]:
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
            "whose first parameter is called ctx, or a pydantic_ai.Agent."
        )
    return agents


def _agents_in(path: Path) -> dict[str, Agent]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return {key: found for key, value in vars(module).items() if (found := _agent(value))}


def _agent(value: Any) -> Agent | None:
    if isinstance(value, Agent):
        return value
    if inspect.iscoroutinefunction(value):
        first = next(iter(inspect.signature(value).parameters), "")
        return Agent(value) if first == "ctx" else None
    return Agent(value) if adapted(value) else None
