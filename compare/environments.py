"""One virtual environment per framework, made from its pinned requirements and kept."""

import hashlib
import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
CACHE: Final = ROOT / ".compare"
HERE: Final = Path(__file__).parent

# No framework should show a banner or call home.
QUIET: Final = {
    "PYDANTIC_AI_NO_BANNER": "1",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}
_VERSIONS = (
    "import importlib.metadata as m, json, sys; "
    "print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
)


@dataclass(frozen=True)
class Peer:
    """A framework: its module in `compare.peers`, its heading, the packages worth naming."""

    name: str
    title: str
    packages: tuple[str, ...]


PEERS: Final = (
    Peer("pullcord", "Pullcord", ("pullcord",)),
    Peer("pydantic_ai", "Pydantic AI", ("pydantic-ai-slim", "openai")),
    Peer(
        "langgraph",
        "LangGraph",
        (
            "langgraph",
            "langchain",
            "langchain-openai",
            "langgraph-checkpoint-sqlite",
            "openai",
        ),
    ),
    Peer("openai_agents", "OpenAI Agents SDK", ("openai-agents", "openai")),
)


def present() -> list[Peer]:
    """The peers whose script is there."""
    return [peer for peer in PEERS if (HERE / "peers" / f"{peer.name}.py").exists()]


def python_of(peer: Peer) -> Path:
    """The peer's interpreter; its environment is made first if it is missing or out of date.

    A peer without a requirements file (ours) runs in the environment this runs in.
    """
    wanted = HERE / "requirements" / f"{peer.name}.txt"
    if not wanted.exists():
        return Path(sys.executable)
    folder = CACHE / peer.name
    python, stamp = folder / "bin" / "python", folder / "made-from"
    mark = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != mark:
        print(f"making {folder.relative_to(ROOT)} …", file=sys.stderr)
        venv.create(folder, clear=True, symlinks=True, with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-qq"]
        subprocess.run([*pip, "install", "--no-deps", "-r", str(wanted)], check=True)
        stamp.write_text(mark)
    return python


def surroundings() -> dict[str, str]:
    """The environment variables of a peer's process: no proxies, no keys, no banners."""
    kept = {"PATH", "HOME", "LANG", "TMPDIR"}
    inherited = {name: value for name, value in os.environ.items() if name in kept}
    return {**inherited, **QUIET, "PYTHONPATH": str(ROOT)}


def versions(peer: Peer, python: Path) -> dict[str, str]:
    """What is installed, as the environment itself says."""
    command = [str(python), "-c", _VERSIONS, *peer.packages]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out)
