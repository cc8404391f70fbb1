"""A process that is killed in the midst of it has written no secret; the next one goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.secrets import doors
from tests.secrets.eyes import HIDDEN, vault
from tests.secrets.vault import LOOSE, files_of, found_in
from tests.secrets.victim import PLACES, courier

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("dies", PLACES)
async def test_killed_and_taken_up_again(tmp_path: Path, dies: str) -> None:
    store, path = tmp_path / "store.db", str(tmp_path / "received")
    killed = subprocess.run(  # noqa: ASYNC221 (nothing else goes on)
        [sys.executable, "-m", "tests.secrets.victim", str(store), path, dies],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert [file.name for file in files_of(store) if file.name.endswith("-wal")]
    assert found_in(*files_of(store), killed.stdout, killed.stderr) == []

    async with vault(store, agents={"courier": courier(path)}) as runtime:
        run = await runtime.get("r1")
        if dies == "working":
            assert (await run.cancel(by="ana")).holds
            await run.receipt()
        else:
            assert await run.result() == [HIDDEN, HIDDEN, HIDDEN]
        assert found_in(await run.snapshot(), await runtime.journal.read("r1")) == []
    assert found_in(*files_of(store)) == []
    received = doors.received(path)
    assert set(received) == {"process"} | ({"probed", "probe"} if dies == "calling" else set())
    assert all(value == [LOOSE] for value in received.values())
