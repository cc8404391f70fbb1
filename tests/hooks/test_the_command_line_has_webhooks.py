"""`[[webhook]]` in a pullcord.toml: whoever drives runs from the command line tells it."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tests import nursery
from tests.hooks.receiver import OTHER, SECRET, Receiver
from tests.runs.observed_runs import BOUND_S

AGENT = """
async def agent(ctx):
    return "done"
"""


async def pullcord(folder: Path, *words: str, **env: str) -> tuple[int, str]:
    with nursery.start(
        *("pullcord", *words),
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        said, _ = await asyncio.to_thread(process.communicate)
    return process.returncode, said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


def names(folder: Path, line: str) -> None:
    (folder / "pullcord.toml").write_text(f"[[webhook]]\n{line}\n")


async def test_a_run_from_the_command_line_tells_its_webhooks(folder: Path) -> None:
    async with asyncio.timeout(BOUND_S), Receiver() as receiver:
        names(folder, f'url = "{receiver.url}"\nsecret_env = ["HOOK_NEW", "HOOK_OLD"]')
        env = {"HOOK_NEW": OTHER, "HOOK_OLD": SECRET}
        status, _ = await pullcord(folder, "run", "agent.py:agent", "--run-id", "r1", **env)
        assert status == 0
    assert [g.data["after"] for g in receiver.got] == ["queued", "running", "completed"]
    assert all(g.is_signed_with(SECRET) and g.is_signed_with(OTHER) for g in receiver.got)


HERE = 'url = "http://127.0.0.1:1/"'
WRONG = {
    "a secret in it": (f'{HERE}\nsecret = "x"\nsecret_env = "HOOK"', "secret"),
    "no secret": (HERE, "a url and a secret_env"),
    "something else": (f'{HERE}\nsecret_env = "HOOK"\nretries = 3', "retries"),
    "an unset variable": (f'{HERE}\nsecret_env = "NOT_SET"', "NOT_SET"),
    "no TLS": ('url = "http://example.org/"\nsecret_env = "HOOK"', "https"),
    "no number": (f'{HERE}\nsecret_env = "HOOK"\ntimeout_s = "x"', "number"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_webhook_that_cannot_be_meant_is_refused_before_anything(
    case: str, folder: Path
) -> None:
    line, says = WRONG[case]
    names(folder, line)
    status, said = await pullcord(folder, "run", "agent.py:agent", HOOK=SECRET)
    assert status == 2
    assert says in said
    assert "Nothing was" in said
    assert SECRET not in said
    assert not (folder / "pullcord.db").exists()


async def test_a_control_verb_needs_no_secret_and_tells_nobody(folder: Path) -> None:
    async with asyncio.timeout(BOUND_S), Receiver() as receiver:
        names(folder, f'url = "{receiver.url}"\nsecret_env = "HOOK"')
        await pullcord(folder, "run", "agent.py:agent", "--run-id", "r1", HOOK=SECRET)
        before = len(receiver.got)
        status, said = await pullcord(folder, "show", "r1")
        assert (status, "r1" in said) == (0, True)
        await pullcord(folder, "cancel", "r1")
    assert len(receiver.got) == before
