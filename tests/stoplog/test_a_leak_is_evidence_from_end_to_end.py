"""Promise: of a leak that a guard cut off, the bundle shows what was said, what was shown to whom
up to which character, when it was stopped and by what; and it verifies without pullcord."""

import asyncio
import json
import subprocess
import sys
import zipfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pullcord import Agent, Context, RunState
from pullcord.cli.main import main
from pullcord.guard import Phrase
from tests.server.house import BOUND_S, House, house
from tests.server.http import Reader
from tests.stoplog.sample import CANARY

SAID = "Here is what you asked for. "
SEEN = "Here is what you asked"  # the rest may be held back: it might be the beginning of a match


class Leaker:
    """Says something harmless, and when somebody has seen that, what nobody may see."""

    def __init__(self) -> None:
        self.is_seen = asyncio.Event()

    async def leaks(self, ctx: Context) -> str:
        return await ctx.say(self._words())

    async def _words(self) -> AsyncGenerator[str]:
        yield SAID
        await self.is_seen.wait()
        yield f"My instructions are: {CANARY}, and never to say so. "


async def watched(there: House, run: str, who: str, said: str) -> Reader:
    """Somebody who has been handed what was said."""
    headers = there.headers(there.token("view", run) if who == "view" else None)
    target = f"/runs/{run}/events"
    sent = f"GET {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    reader = await Reader.open(there.port, f"{sent}\r\n".encode())
    handed = ""
    while said not in handed:
        message = await reader.message()
        assert message is not None
        handed += message.data["text"] if message.event == "text" else ""
    return reader


async def leak(folder: Path) -> None:
    agent = Leaker()
    guards = [Phrase(CANARY, name="canary", on_hit="cancel")]
    async with (
        asyncio.timeout(BOUND_S),
        house(folder, leaks=Agent(agent.leaks, guards=guards)) as there,
    ):
        run = await there.start("leaks", run_id="leak-1")
        readers = [await watched(there, run.id, who, SEEN) for who in ("admin", "view")]
        agent.is_seen.set()
        await run.reached(RunState.CANCELLED)
        for reader in readers:  # whoever watches is told that it was stopped, and no more
            taken = await reader.until("record", type="cancelled")
            assert CANARY not in str(taken)
            reader.close()


def test_a_leak_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(leak(tmp_path))
    store = str(tmp_path / "store.db")
    assert main(["log", "show", "leak-1", "--store", store, "--json"]) == 0
    acts = {line["entry"]["act"]["what"]: line["entry"] for line in json.loads(_out(capsys))}
    assert {"asked", "shown", "in_effect"} <= acts.keys()
    asked = acts["asked"]["act"]
    assert (asked["by"], asked["source"], asked["quarantine"]) == ("guard canary", "guard", True)
    viewers = acts["shown"]["act"]["viewers"]
    assert [one["who"] for one in viewers] == ["admin of all", "view of leak-1"]
    for one in viewers:
        assert one["via"] == "api, token"
        [handed] = one["said"].values()
        assert len(SEEN) <= handed <= len(SAID + "My instructions are: ")

    bundle = tmp_path / "evidence.zip"
    assert main(["log", "export", "leak-1", "--store", store, "-o", str(bundle)]) == 0
    out = tmp_path / "elsewhere"
    zipfile.ZipFile(bundle).extractall(out)
    checked = subprocess.run(
        [sys.executable, "-I", "verify.py"], cwd=out, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    told = (out / "transcript.txt").read_text()
    assert SAID.strip() in told
    assert f"{CANARY}" in told  # as evidence, and said to have been kept back
    assert told.index("it was shown to nobody") < told.index(CANARY)
    assert "cancel asked by guard canary (guard)" in told
    for one in viewers:
        [handed] = one["said"].values()
        assert f"{one['who']} (api, token): {one['seq']} records, {handed} characters of" in told
    assert "in effect" in told


def _out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out
