"""No surface decides what to hide: whatever people see is read through
`journal/views/for_people.py`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pullcord

ROOT = Path(pullcord.__file__).parent
SURFACES = ("cli", "tui", "server", "telemetry", "demo")
READS_FOR_PEOPLE = {
    "pullcord.core.show.withhold": {"as_viewed", "withheld"},
    "pullcord.core.show.panel": {"panel"},
    "pullcord.core.receipts": {"receipt"},
    "pullcord.journal.views.inbox": {"inbox_of", "family_inbox"},
    "pullcord.journal.stored_runs.run_records": {"records_of", "stream"},
}
EVIDENCE = {"cli/log/transcript.py"}  # of whoever investigates: it holds what was quarantined


def decided_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in READS_FOR_PEOPLE:
            names = {alias.name for alias in node.names} & READS_FOR_PEOPLE[node.module]
            yield from (f"imports {node.module}.{name}" for name in sorted(names))
        if isinstance(node, ast.Attribute) and node.attr == "is_quarantined":
            yield f"asks whether a run is quarantined, in line {node.lineno}"
        if isinstance(node, ast.Attribute) and node.attr == "quarantine":
            of = node.value.attr if isinstance(node.value, ast.Attribute) else ""
            if of == "cancel":
                yield f"asks whether a run is quarantined, in line {node.lineno}"


@pytest.mark.parametrize("surface", SURFACES)
def test_a_surface_decides_nothing_of_what_may_be_seen(surface: str) -> None:
    found = {
        f"{name} {what}"
        for path in (ROOT / surface).rglob("*.py")
        if (name := str(path.relative_to(ROOT))) not in EVIDENCE
        for what in decided_in(path)
    }
    assert not found
