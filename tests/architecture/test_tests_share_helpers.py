"""What tests share is in a helper module: no test file imports from another."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imported_by(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_no_test_file_imports_from_another() -> None:
    for path in [*TESTS.rglob("*.py"), *TESTS.with_name("bench").rglob("*.py")]:
        of_tests = {name for name in imported_by(path) if ".test_" in name}
        assert not of_tests, f"{path.relative_to(TESTS.parent)} imports from {sorted(of_tests)}"
