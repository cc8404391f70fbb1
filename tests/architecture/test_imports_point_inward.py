"""The arrows of docs/architecture.md, as a test: a layer imports only what is listed for it."""

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pullcord
from tests.architecture.modules import (
    MODULES,
    ROOT,
    imports_of,
    layer_of,
    loaded_lazily,
    name_of,
    parsed,
)

MAY_IMPORT = {
    "errors": set[str](),
    "lazy_import": set[str](),
    "core": {"core", "errors"},
    "process": set[str](),
    "regular_file": set[str](),
    "killswitch": {"process", "regular_file", "killswitch"},
    "takeover": {"lazy_import", "process", "killswitch"},
    "journal": {
        "core",
        "errors",
        "lazy_import",
        "process",
        "regular_file",
        "killswitch",
        "takeover",
        "journal",
    },
    "warden": {"core", "errors", "lazy_import", "process", "killswitch", "takeover", "warden"},
    "runtime": {
        "core",
        "errors",
        "lazy_import",
        "process",
        "killswitch",
        "takeover",
        "journal",
        "warden",
        "telemetry",
        "runtime",
    },
    "adapters": {"core", "errors", "journal", "runtime", "adapters"},
    "agents": {"adapters", "errors", "events", "limits", "tools", "agents"},
    "terminal": {"core", "errors", "journal", "terminal"},
    "client": {"core", "errors", "lazy_import", "journal", "client"},
    "cli": {
        "core",
        "errors",
        "lazy_import",
        "process",
        "regular_file",
        "killswitch",
        "takeover",
        "journal",
        "warden",
        "runtime",
        "server",
        "terminal",
        "client",
        "tui",
        "demo",
        "cli",
    },
    "server": {"core", "errors", "regular_file", "killswitch", "journal", "runtime", "server"},
    "tui": {
        "core",
        "errors",
        "killswitch",
        "journal",
        "terminal",
        "client",
        "tui",
    },
    "__main__": {"cli"},
    "engines": {"runtime"},
    "events": {"core", "journal"},
    "limits": {"core"},
    "options": {"core", "journal", "runtime"},
    "runs": {"core", "journal", "runtime"},
    "tools": {"core", "runtime"},
    "guard": {"core", "errors"},
    "hooks": {"core", "runtime"},
    "telemetry": {"core", "telemetry"},
    "testing": {"core", "engines", "errors", "events", "process", "journal", "runtime", "testing"},
    "demo": {
        "agents",
        "core",
        "errors",
        "lazy_import",
        "journal",
        "limits",
        "runtime",
        "testing",
        "demo",
    },
}


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
    graph = {name_of(module): imports_of(parsed(module)) for module in MODULES}
    TopologicalSorter(graph).prepare()  # or it names a cycle


LOADS_OTHERS = {
    "lazy_import.py",
    "runtime/starting_limits.py",
    "runtime/driving/undoing.py",
    "testing/crash_server.py",
    "warden/finding.py",
}
"""Where `import_module` loads what somebody else has named: a condition, an undo, a tool."""


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(ROOT)))
def test_what_is_loaded_lazily_is_typed(module: Path) -> None:
    """`import_module` gives `Any`: it is for modules that are not ours. `lazy_import` stands in the
    `else` of the same import for type checkers, under the same name."""
    tree = parsed(module)
    called = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = {ast.unparse(node.func).rpartition(".")[2] for node in called}
    assert "import_module" not in named or str(module.relative_to(ROOT)) in LOADS_OTHERS
    twins: set[tuple[str, str]] = set()
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            typed = {pair for one in node.body for pair in _bound(one)}
            lazy = {
                (ast.unparse(one.targets[0]), loaded_lazily(one.value))
                for one in node.orelse
                if isinstance(one, ast.Assign)
            }
            assert lazy <= typed
            twins |= lazy
    assert len(twins) == sum(ast.unparse(node.func) == "lazy_import" for node in called)


def _bound(statement: ast.stmt) -> list[tuple[str, str]]:
    """The names that an import binds, each with its module."""
    if isinstance(statement, ast.ImportFrom):
        home = f"{statement.module}."
        return [(alias.asname or alias.name, home + alias.name) for alias in statement.names]
    if isinstance(statement, ast.Import):
        return [(alias.asname or alias.name, alias.name) for alias in statement.names]
    return []


def test_the_warden_stands_on_nothing() -> None:
    """Only what is forked from it, for a tool, may know more than the standard library."""
    for module in (ROOT / "warden").glob("*.py"):
        text = module.read_text()
        is_of_a_tool = module.name in ("worker.py",)
        assert is_of_a_tool or not any(word in text for word in ("asyncio\n", "msgspec", "apsw"))
        layers = {name.split(".")[1] for name in imports_of(parsed(module))}
        assert is_of_a_tool or layers <= {
            "warden",
            "killswitch",
            "lazy_import",
            "process",
            "takeover",
        }


def test_the_kill_switch_stands_on_the_standard_library_alone() -> None:
    """It has to work when nothing else does."""
    for module in (ROOT / "takeover.py", *ROOT.glob("killswitch/*.py")):
        for node in ast.walk(parsed(module)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top, _, rest = name.partition(".")
                ours = rest.startswith(("killswitch", "lazy_import", "process", "regular_file"))
                assert top in sys.stdlib_module_names or (top == "pullcord" and ours), name
                assert top not in ("asyncio", "sqlite3")


def test_only_telemetry_knows_opentelemetry() -> None:
    """And nothing imports it by name: it is loaded where a program has loaded OpenTelemetry."""
    for module in MODULES:
        text, layer = module.read_text(), layer_of(module)
        assert layer == "telemetry" or "import opentelemetry" not in text
        assert layer == "telemetry" or "from opentelemetry" not in text
        layers = {name.split(".")[1] for name in imports_of(parsed(module))}
        assert layer in ("telemetry", "runtime") or "telemetry" not in layers


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
    for name in ("runtime/control_thread.py", "journal/watch.py", "journal/sqlite/wake_pipe.py"):
        assert "import asyncio" not in (ROOT / name).read_text()


def test_the_public_names_are_about_twenty_and_all_there() -> None:
    assert len(pullcord.__all__) <= 27
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


# --- rooms: a folder in a layer has one subject, and does not hang on what hangs on it ---

ROOMS = sorted(path.parent for path in MODULES if path.name == "__init__.py")
INNER = [room for room in ROOMS if len(room.relative_to(ROOT).parts) == 2]


def said_of(room: Path) -> str:
    first, _, _ = (ast.get_docstring(parsed(room / "__init__.py")) or "").partition("\n")
    return first.replace("`", "")


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_says_what_belongs_there(room: Path) -> None:
    page = (ROOT.parent.parent / "docs" / "architecture.md").read_text()
    where, said = room.relative_to(ROOT), said_of(room)
    assert said
    assert room not in INNER or where.parts[0] == "agents" or f"| `{where}/` | {said} |" in page


def test_no_two_rooms_hang_on_each_other() -> None:
    """Not even by way of modules between them: seen as one thing each, they have no cycle."""
    rooms = {name_of(room / "__init__.py") for room in INNER}

    def as_seen(module: str) -> str:
        return next((room for room in rooms if module.startswith(f"{room}.")), module)

    graph: dict[str, set[str]] = {}
    for module in MODULES:
        mine = as_seen(name_of(module))
        others = {as_seen(name) for name in imports_of(parsed(module))}
        graph.setdefault(mine, set()).update(others - {mine})
    TopologicalSorter(graph).prepare()  # or it names a cycle
