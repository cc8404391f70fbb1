"""An adapter of ours has nothing that the adapter of another package could not have."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import pullcord

ROOT = Path(pullcord.__file__).parent
ADAPTERS = sorted((ROOT / "agents").rglob("*.py"))
PUBLIC = (
    "pullcord",
    "pullcord.adapters",
    "pullcord.errors",
    "pullcord.events",
    "pullcord.limits",
    "pullcord.runs",
    "pullcord.tools",
)
HIDDEN = ("live", "_live", "site", "memory", "journal")
"""How the inside of a run is reached: not by an adapter."""


@pytest.mark.parametrize("module", ADAPTERS, ids=lambda m: str(m.relative_to(ROOT)))
def test_it_imports_public_names_alone(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pullcord":
            assert node.module
            if not node.module.startswith("pullcord.agents."):
                assert node.module in PUBLIC
                offered = (
                    import_module(node.module).__all__ if node.module != "pullcord.errors" else ()
                )
                names = {alias.name for alias in node.names}
                assert names <= set(offered) or not offered
        elif isinstance(node, ast.Attribute):
            assert node.attr not in HIDDEN, f"line {node.lineno} reaches for {node.attr}"


def test_the_port_is_about_thirty_names() -> None:
    assert len(pullcord.adapters.__all__) <= 32
