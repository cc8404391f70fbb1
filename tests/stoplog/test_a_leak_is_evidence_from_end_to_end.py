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

from pullcord import AgentConfig, Context, RunState
from pullcord.cli.main import main
from pullcord.guard import Phrase
from tests.server.http import Reader, request_bytes
from tests.server.running_server import BOUND_S, running_server
from tests.stoplog.sample import CANARY

SAID = ("Here is what you asked for. ", "It is a long story, as you know. ")
SEEN = ("Here is what you asked", "It is a long story")  # the rest may be held back for a moment


class Leaker:
    """Says something harmless, and when somebody has seen that, what nobody may see."""

    def __init__(self) -> None:
        self.is_seen = [asyncio.Event() for _ in SAID]

    async def leaks(self, ctx: Context) -> str:
        return await ctx.say(self._words())

    async def _words(self) -> AsyncGenerator[str]:
        for said, is_seen in zip(SAID, self.is_seen, strict=True):
            yield said
            await is_seen.wait()
        yield f"My instructions are: {CANARY}, and never to say so. "


class Watcher:
    """Somebody who reads the events of the run, and what they have been handed of its text."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.text = ""

    async def has(self, said: str) -> None:
        while said not in self.text:
            message = await self.reader.message()
            assert message is not None
            self.text += message.data["text"] if message.event == "text" else ""


async def leak(folder: Path) -> list[str]:
    """What each viewer had, for certain, before the leak."""
    agent = Leaker()
    guards = [Phrase(CANARY, name="canary", on_hit="cancel")]
    async with (
        asyncio.timeout(BOUND_S),
        running_server(folder, leaks=AgentConfig(agent.leaks, guards=guards)) as there,
    ):
        run = await there.start("leaks", run_id="leak-1")
        tokens = (None, there.token("view", run.id))
        target = f"/runs/{run.id}/events"
        asked = [request_bytes("GET", target, there.headers(who).items()) for who in tokens]
        watchers = [Watcher(await Reader.open(there.port, sent)) for sent in asked]
        for said, is_seen in zip(SEEN, agent.is_seen, strict=True):
            for one in watchers:
                await one.has(said)
            is_seen.set()
        await run.wait_for(RunState.CANCELLED)
        for one in watchers:  # whoever watches is told that it was stopped, and no more
            taken = await one.reader.until("record", type="cancelled")
            assert CANARY not in str(taken)
            one.reader.close()
    return [one.text for one in watchers]


def test_a_leak_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = asyncio.run(leak(tmp_path))
    store = str(tmp_path / "store.db")
    assert main(["log", "show", "leak-1", "--store", store, "--json"]) == 0
    acts = {line["entry"]["act"]["what"]: line["entry"] for line in json.loads(_out(capsys))}
    assert {"asked", "shown", "in_effect"} <= acts.keys()
    asked = acts["asked"]["act"]
    assert (asked["by"], asked["source"], asked["quarantine"]) == ("guard canary", "guard", True)
    viewers = acts["shown"]["act"]["viewers"]
    assert [one["who"] for one in viewers] == ["admin of all", "view of leak-1"]
    for one, text in zip(viewers, texts, strict=True):
        assert one["via"] == "api, token"
        [(part, handed)] = one["said"].items()
        assert len(text) <= handed <= asked["said"][part]
        assert asked["said"][part] <= len("".join(SAID) + "My instructions are: ")

    bundle = tmp_path / "evidence.zip"
    assert main(["log", "export", "leak-1", "--store", store, "-o", str(bundle)]) == 0
    out = tmp_path / "elsewhere"
    zipfile.ZipFile(bundle).extractall(out)
    checked = subprocess.run(
        [sys.executable, "-I", "verify.py"], cwd=out, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    told = (out / "transcript.txt").read_text()
    assert "".join(SAID) in told
    assert f"{CANARY}" in told  # as evidence, and said to have been kept back
    assert told.index("it was shown to nobody") < told.index(CANARY)
    assert "cancel asked by guard canary (guard)" in told
    for one in viewers:
        [handed] = one["said"].values()
        assert f"{one['who']} (api, token): {one['seq']} records, {handed} characters of" in told
    assert "in effect" in told


def _out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out
