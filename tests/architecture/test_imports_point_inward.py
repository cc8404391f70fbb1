"""The arrows of docs/architecture.md, as a test: a layer imports only what is listed for it."""

import ast
import sys
from pathlib import Path

import pytest

import pullcord

MAY_IMPORT = {
    "errors": set[str](),
    "core": {"core", "errors"},
    "process": set[str](),
    "regular_file": set[str](),
    "killswitch": {"process", "regular_file", "killswitch"},
    "takeover": {"process"},
    "journal": {"core", "errors", "process", "regular_file", "killswitch", "takeover", "journal"},
    "warden": {"core", "errors", "process", "killswitch", "takeover", "warden"},
    "runtime": {
        "core",
        "errors",
        "process",
        "killswitch",
        "takeover",
        "journal",
        "warden",
        "runtime",
    },
    "agents": {"core", "errors", "journal", "runtime", "agents"},
    "cli": {
        "core",
        "errors",
        "process",
        "regular_file",
        "killswitch",
        "takeover",
        "journal",
        "warden",
        "runtime",
        "server",
        "tui",
        "cli",
    },
    "server": {"core", "errors", "regular_file", "killswitch", "journal", "runtime", "server"},
    "tui": {"core", "errors", "journal", "tui"},
    "__main__": {"cli"},
    "limits": {"core"},
    "guard": {"core", "errors"},
    "hooks": {"core", "runtime"},
    "telemetry": {"core", "telemetry"},
    "testing": {"core", "errors", "process", "journal", "runtime", "testing"},
    "demo": {"agents", "core", "errors", "journal", "limits", "runtime", "testing", "demo"},
}
ROOT = Path(pullcord.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def layer_of(module: Path) -> str:
    return module.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> set[str]:
    """Every pullcord module imported, in function bodies too."""
    return {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pullcord.")
        if node.module
    }


def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(ROOT)))
def test_imports_point_inward(module: Path) -> None:
    layers = {name.split(".")[1] for name in imports_of(parsed(module))}
    assert layers <= MAY_IMPORT[layer_of(module)]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(ROOT)))
def test_no_import_hides_in_a_function(module: Path) -> None:
    for function in ast.walk(parsed(module)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            hidden = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not hidden, f"{function.name} imports in line {hidden[0].lineno}"


def test_there_is_no_cycle() -> None:
    graph = {
        ".".join(("pullcord", *module.relative_to(ROOT).with_suffix("").parts)): imports_of(
            parsed(module)
        )
        for module in MODULES
    }
    settled: set[str] = set()
    while ready := [name for name in graph.keys() - settled if graph[name] <= settled]:
        settled |= set(ready)
        settled |= {name for name in graph if name.endswith(".__init__")}
    assert not graph.keys() - settled


def test_the_warden_stands_on_nothing() -> None:
    """Only what is forked from it, for a tool, may know more than the standard library."""
    for module in (ROOT / "warden").glob("*.py"):
        text = module.read_text()
        is_of_a_tool = module.name in ("worker.py",)
        assert is_of_a_tool or not any(word in text for word in ("asyncio\n", "msgspec", "apsw"))
        layers = {name.split(".")[1] for name in imports_of(parsed(module))}
        assert is_of_a_tool or layers <= {"warden", "killswitch", "process", "takeover"}


def test_the_kill_switch_stands_on_the_standard_library_alone() -> None:
    """It has to work when nothing else does."""
    for module in (ROOT / "takeover.py", *ROOT.glob("killswitch/*.py")):
        for node in ast.walk(parsed(module)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top, _, rest = name.partition(".")
                ours = rest.startswith(("killswitch", "process", "regular_file"))
                assert top in sys.stdlib_module_names or (top == "pullcord" and ours), name
                assert top not in ("asyncio", "sqlite3")


def test_only_telemetry_knows_opentelemetry() -> None:
    """And nothing imports it by name: it is loaded where a program has loaded OpenTelemetry."""
    for module in MODULES:
        text, layer = module.read_text(), layer_of(module)
        assert layer == "telemetry" or "import opentelemetry" not in text
        assert layer == "telemetry" or "from opentelemetry" not in text
        layers = {name.split(".")[1] for name in imports_of(parsed(module))}
        assert layer == "telemetry" or "telemetry" not in layers


def test_the_core_is_pure() -> None:
    forbidden = {"asyncio", "time", "os", "random", "threading", "apsw", "datetime", "socket"}
    for module in (ROOT / "core").rglob("*.py"):
        for node in ast.walk(parsed(module)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.split(".")[0] for name in names}, module.name


def test_no_module_and_no_function_is_too_long_to_see_whole() -> None:
    page = (ROOT.parent.parent / "docs" / "architecture.md").read_text()
    for module in MODULES:
        is_long = len(module.read_text().splitlines()) > 500
        assert not is_long or f"`{module.name}`" in page, f"{module.name}: say why it is one thing"
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 70, f"{module.name}: {node.name}"


def test_only_the_control_side_is_free_of_asyncio() -> None:
    """What must work with the event loop blocked may not know of one."""
    for name in ("runtime/control.py", "journal/watch.py", "journal/wake.py"):
        assert "import asyncio" not in (ROOT / name).read_text()


def test_the_public_names_are_about_twenty_and_all_there() -> None:
    assert len(pullcord.__all__) <= 26
    assert pullcord.__all__ == sorted(pullcord.__all__, key=lambda name: (name.islower(), name))
    for name in pullcord.__all__:
        assert getattr(pullcord, name).__doc__ or name in ("Command", "Event")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_walks_the_frames_of_running_code(module: Path) -> None:
    """CPython has crashed over it (decision 0042), and a watchman must not."""
    named = {
        node.attr
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert not named & {"_current_frames", "_getframe", "f_back", "f_locals"}
