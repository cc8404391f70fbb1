"""Nobody needs Node to run the page: what it is built to is committed, and is kept current here."""

import re
import runpy
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent.parent
WEB: Final = ROOT / "web"
BUILT: Final = ROOT / "src/pullcord/web"
# Whatever makes markup or code of text. Each has a way without: text nodes, listeners, modules.
_NEVER: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|createContextualFragment"
    r"|setHTMLUnsafe|parseFromString|srcdoc|document\.write|\beval\s*\(|new\s+Function\b"
    r"|javascript:|cssText|\bstyle="
)


def test_the_committed_files_are_what_the_sources_build_to(tmp_path: Path) -> None:
    for config in ("vite.config.ts", "vite.bar.config.ts"):
        subprocess.run(
            ["npx", "--no-install", "vite", "build", "--config", config, "--outDir", tmp_path],
            cwd=WEB,
            check=True,
            capture_output=True,
            timeout=90,
        )
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in BUILT.iterdir() if path.is_file()}
    assert built.keys() == kept.keys()
    stale = [name for name in built if built[name] != kept[name]]
    assert stale == [], f"build anew (npm run build, in web/): {', '.join(stale)}"


def test_the_types_of_events_are_those_of_the_journal() -> None:
    files = runpy.run_path(str(WEB / "generate_types.py"))["FILES"]
    for name, made in files.items():
        assert made() == (WEB / "src/wire" / name).read_text(), "python web/generate_types.py"


@pytest.mark.parametrize("suffix", ["ts", "tsx", "html"])
def test_no_source_of_the_page_makes_markup_or_code_of_text(suffix: str) -> None:
    sources = [path for path in WEB.glob(f"**/*.{suffix}") if "node_modules" not in path.parts]
    assert sources
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sources
        if not path.name.endswith((".test.ts", ".test.tsx"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if _NEVER.search(line)
    ]
    assert found == []
