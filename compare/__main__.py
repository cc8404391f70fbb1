"""Run every situation in every framework and write docs/compare.md. Standard library only."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from compare import environments, table
from compare.environments import ROOT, Peer
from compare.situations import BY_NAME, SITUATIONS, Situation, Values

PAGE = ROOT / "docs" / "compare.md"


@contextmanager
def provider() -> Generator[str]:
    """The fake provider in a process of its own; it ends when its standard input is closed."""
    command = [sys.executable, "-m", "compare.provider"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def run_one(peer: Peer, situation: Situation, python: Path, url: str) -> Values:
    """One situation in a process group of its own, with a hard limit. Never raises for a peer."""
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        label = f"{peer.name}-{situation.name}"
        process = subprocess.Popen(
            [str(python), "-m", "compare.one", peer.name, situation.name, url, label, folder],
            cwd=folder,
            env=environments.surroundings(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=situation.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return {"error": f"not done within the limit of {situation.limit_s:.0f} s"}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    complaint = (err.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
    return {"error": complaint[:200].replace("|", "/")}


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m compare", description=__doc__)
    names = [peer.name for peer in environments.present()]
    options.add_argument("--peer", action="append", choices=names)
    options.add_argument("--situation", action="append", choices=list(BY_NAME))
    chosen = options.parse_args()
    peers = [p for p in environments.present() if not chosen.peer or p.name in chosen.peer]
    situations = [s for s in SITUATIONS if not chosen.situation or s.name in chosen.situation]

    pythons = {peer.name: environments.python_of(peer) for peer in peers}
    results: table.Results = {peer.name: {} for peer in peers}
    with provider() as url:
        for peer in peers:
            began = time.monotonic()
            for situation in situations:
                values = run_one(peer, situation, pythons[peer.name], url)
                results[peer.name][situation.name] = values
                said = {"peer": peer.name, "situation": situation.name, **values}
                print(json.dumps(said, ensure_ascii=False), file=sys.stderr, flush=True)
            print(f"{peer.title}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if chosen.peer or chosen.situation:
        print(table.rows(peers, results))
    else:
        versions = {peer.name: environments.versions(peer, pythons[peer.name]) for peer in peers}
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(table.page(peers, versions, results))
        print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)
    failed = [v for by_name in results.values() for v in by_name.values() if "error" in v]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
