"""Promise: on the command line, too, what is registered is written nowhere."""

import os
import subprocess
from pathlib import Path

from tests import nursery

VALUE = "tr0ub4dor-and-3"


def env(names: str) -> dict[str, str]:
    return {**os.environ, "PULLCORD_SECRETS": names, "VAULT": VALUE}


def pullcord(store: Path, *args: str, names: str = "VAULT") -> subprocess.CompletedProcess[str]:
    return nursery.run("pullcord", *args, "--store", str(store), env=env(names))


def test_what_a_person_types_is_sealed_too(tmp_path: Path) -> None:
    store, agent = tmp_path / "runs.db", tmp_path / "agent.py"
    agent.write_text("async def agent(ctx):\n    return await ctx.ask('?')\n")
    run = ["run", f"{agent}:agent", "--run-id", "r1", "--store", str(store), "--json"]
    with nursery.start("pullcord", *run, env=env("VAULT"), stdout=subprocess.PIPE) as driven:
        assert driven.stdout is not None
        while '"asked"' not in driven.stdout.readline():
            assert driven.poll() is None
        assert pullcord(store, "redirect", "r1", f"it is {VALUE}").returncode == 0
        assert pullcord(store, "cancel", "r1", "--reason", f"{VALUE} leaked").returncode == 0
        driven.stdout.read()
    assert "{{secret:VAULT}} leaked" in pullcord(store, "show", "r1", "--records").stdout
    for left in tmp_path.glob("runs.db*"):
        assert left.is_dir() or VALUE.encode() not in left.read_bytes()


def test_a_secret_that_is_not_there_is_said_before_anything_is_written(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("async def agent(ctx):\n    return 1\n")
    store = tmp_path / "runs.db"
    refused = pullcord(store, "run", f"{agent}:agent", names="VAULT,NOWHERE")
    assert refused.returncode == 2
    assert "NOWHERE" in refused.stderr
    assert not store.exists()
