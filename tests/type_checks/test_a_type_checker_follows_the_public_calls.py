"""What a type checker says of programs: the types that they get, and their mistakes."""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs.py"
ROOT = Path(__file__).parent.parent.parent
SAYS = re.compile(r"  # (is .+|report\w+(?: report\w+)*)$")
REVEALED = re.compile(r'^Type of ".*" is "(.*)"$', re.DOTALL)


def expected() -> dict[int, set[str]]:
    lines = enumerate(PROGRAMS.read_text().splitlines(), start=1)
    return {
        number: {found[1]} if found[1].startswith("is ") else set(found[1].split())
        for number, line in lines
        if (found := SAYS.search(line))
    }


def said(folder: Path) -> dict[int, set[str]]:
    """What the checker says of each line. One process, because it takes seconds to start."""
    shutil.copy(PROGRAMS, folder)
    how = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(how))
    asked = ["--outputjson", "--pythonpath", sys.executable, "--project", str(folder)]
    command = [sys.executable, "-m", "basedpyright", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: defaultdict[int, set[str]] = defaultdict(set)
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        revealed = REVEALED.match(one["message"])
        what = f"is {revealed[1]}" if revealed else one.get("rule", one["message"])
        found[one["range"]["start"]["line"] + 1].add(what)
    return dict(found)


def test_it_says_what_stands_beside_each_line(tmp_path: Path) -> None:
    assert said(tmp_path) == expected()
