"""The modules of the package, parsed, and what each imports."""

import ast
from functools import cache
from pathlib import Path

import pullcord

ROOT = Path(pullcord.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def layer_of(module: Path) -> str:
    return module.relative_to(ROOT).parts[0].removesuffix(".py")


def name_of(module: Path) -> str:
    inside = module.relative_to(ROOT).with_suffix("").parts
    return ".".join(("pullcord", *inside)).removesuffix(".__init__")


NAMES = {name_of(module) for module in MODULES}


def imports_of(tree: ast.AST) -> set[str]:
    """Every pullcord module imported: in function bodies, for type checkers and lazily, too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pullcord":
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside & NAMES or {node.module or ""}
        elif lazy := loaded_lazily(node):
            found.add(lazy)
    return {name for name in found if name.startswith("pullcord.")}


def loaded_lazily(node: ast.AST) -> str:
    """The module that a call of `lazy_import` or `import_module` names, if it names one."""
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    said = node.args[0]
    if called in ("lazy_import", "import_module") and isinstance(said, ast.Constant):
        return str(said.value)
    return ""


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))
