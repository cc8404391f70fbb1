"""Whatever lies where a file of ours belongs, every act that stops something answers, and soon.

Whoever may write to the folder of the store may put a pipe, a device, a socket, a link, a folder
or an endless file there. None of that may keep a stop waiting.
"""

import asyncio
import http.client
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

import pullcord.killswitch.flags as flags_module
from pullcord.cli.main import main
from pullcord.core.commands import Resume
from pullcord.core.events import Created
from pullcord.core.values import NULL
from pullcord.errors import KillSwitchEngaged
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Ledger
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.killswitch.flags import Flags, Scope, new_note
from pullcord.killswitch.pulled import Pulled
from pullcord.server.credentials import Keeper
from tests.conftest import FULL
from tests.switch.oddities import ODDITIES, put
from tests.switch.store_with_processes import ROOT, StoreWithProcesses, store_with_processes

BOUND_S: Final = 60.0  # (a hang lasts for ever; a loaded machine does not)
ELSEWHERE: Final = "p1m000000000000-1-1-abcdef"  # of a machine that is not ours
FILES: Final = (
    "runs.db.kill-switch",
    "runs.db.kill-switches",
    "runs.db.kill-switches/agent.a",
    f"runs.db-side/{ELSEWHERE}.runtime",
    "runs.db-side/turn",
    "runs.db-side/probe",
    "runs.db-side/1-ab.wake",
    "runs.db.grants",
    "runs.db.grants.lock",
    "runs.db.grants.new",
    "runs.db.anchor",
    "runs.db-side",
    "runs.db-wal",
    "runs.db-shm",
    "pullcord.toml",
)
FLAGS: Final = FILES[:3]
WORST: Final = ("a pipe", "a link to a pipe", "a folder", "a huge file")
fork = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that nobody drives, and a stop in its log."""
    folder = tmp_path_factory.mktemp("made")

    async def begin() -> None:
        async with Journal.open(folder / "runs.db") as journal:
            for name in ("r1", "r2"):
                born = Created(agent="a", thread=name, input=NULL)
                await journal.append(Append(run_id=name, events=[born], expected_seq=0))

    asyncio.run(begin())
    Keeper(folder / "runs.db.grants", name="ana", cookie="c").give(
        kind="token", name="bo", right="view", lasts_s=600
    )
    return folder


@pytest.mark.campaign
@pytest.mark.parametrize("oddity", ODDITIES if FULL else WORST)
@pytest.mark.parametrize("file", FILES)
def test_whatever_lies_there_every_command_answers(
    tmp_path: Path, made: Path, file: str, oddity: str
) -> None:
    folder = tmp_path / "here"
    shutil.copytree(made, folder)
    put(folder / file, oddity)
    for act in ACTS:
        child = fork.Process(target=_do, args=(act, folder))
        child.start()
        child.join(BOUND_S)
        if child.is_alive():
            child.kill()
            child.join()
            pytest.fail(f"{act} hangs over {oddity} at {file}")
        assert child.exitcode in (0, 1, 2, 3, 5), f"{act}: {child.exitcode}"
        if file in FLAGS and (file, oddity) != ("runs.db.kill-switches", "a folder"):
            assert Flags(str(folder / "runs.db")).is_any_raised()


def _verb(*words: str) -> Callable[[Path], int]:
    return lambda folder: main([*words, "--store", str(folder / "runs.db")])


def _let_in(folder: Path) -> int:
    """What a server does for its first browser, and for each request."""
    keeper = Keeper(folder / "runs.db.grants", name="ana", cookie="c")
    keeper.find("nobody", ("token",))
    return int(keeper.session(keeper.launch()) is None)


ACTS: Final[dict[str, Callable[[Path], int]]] = {
    "status": _verb("kill-switch", "status"),
    "verify": _verb("log", "verify"),
    "pause": _verb("pause", "r1"),
    "cancel": _verb("cancel", "r2"),
    "engage": _verb("kill-switch", "engage"),
    "status again": _verb("kill-switch", "status"),
    "let in": _let_in,
}


def _do(act: str, folder: Path) -> None:
    os.chdir(folder)
    os.environ.pop("PULLCORD_STORE", None)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        os._exit(ACTS[act](folder))
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    except Exception as error:
        os._exit(2 if _is_told(error) else 99)
    finally:
        os._exit(98)


def _is_told(error: Exception) -> bool:
    return type(error).__module__ == "pullcord.errors"


# --- the warden, transactions, a server ---


@pytest.fixture
def home(tmp_path: Path) -> Iterator[StoreWithProcesses]:
    with store_with_processes(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("file", ["kill-switch", "kill-switches"])
def test_a_pipe_for_a_flag_ends_the_tools_of_a_runtime_that_stands_still(
    home: StoreWithProcesses, file: str
) -> None:
    process = home.opens("tools=2")
    home.has_begun(works=2)
    process.send_signal(signal.SIGSTOP)
    os.mkfifo(f"{home.store}.{file}")
    home.until(lambda: not home.living())


def test_a_pipe_for_a_flag_keeps_no_warden_from_ending_the_tools_of_a_dead_runtime(
    home: StoreWithProcesses,
) -> None:
    process = home.opens("tools=2")
    home.has_begun(works=2)
    os.mkfifo(f"{home.store}.kill-switch")
    process.kill()
    home.until(lambda: not home.living())


def test_neither_the_warden_nor_a_transaction_reads_a_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    flags = Flags(str(tmp_path / "runs.db"))
    ledger = Ledger(store.clock, flags=flags)
    born = Append(run_id="r1", events=[Created(agent="a", thread="t", input=NULL)], expected_seq=0)
    store.write(lambda tx: ledger.write(tx, [born]))
    scopes = [Scope(), Scope("agent", "a"), Scope("thread", "t" * 300)]
    for scope in scopes:
        flags.raise_it(scope, new_note(by="ana", reason="", via="test"))
    raised = flags.look()

    def never(*_: object, **__: object) -> bytes:
        raise AssertionError("a flag was read")

    monkeypatch.setattr(flags_module, "first_bytes", never)
    with pytest.raises(AssertionError):
        flags.raised()
    pulled = Pulled(0, [], [], 0, {"by": "ana", "via": "test", "reason": ""})
    with pytest.raises(KillSwitchEngaged, match="the kill switch is engaged"):
        store.write(lambda tx: ledger.write(tx, [replace(born, run_id="r2")]))
    assert store.write(lambda tx: ledger.command(tx, "r1", Resume(by="bo"))).reason == "kill_switch"
    assert store.write(lambda tx: ledger.acquire(tx, "r1", owner="o", ttl_s=9)) is None
    for flag in raised.flags:
        store.write(lambda tx, f=flag: ledger.engaged(tx, f, raised))
    store.write(lambda tx: ledger.answered(tx, Scope(), pulled, raised))
    store.write(lambda tx: ledger.hold(tx, "r1", raised.flags[0]))
    store.write(lambda tx: ledger.released(tx, Scope(), raised, by="ana", reason="", via="test"))
    assert flags.is_any_raised()
    assert flags.refusal(("b", "t" * 300)) == "the kill switch is engaged"
    store.close()


def test_a_file_that_is_exchanged_while_it_is_looked_at_is_never_waited_for(tmp_path: Path) -> None:
    path, done = tmp_path / "runs.db.kill-switch", threading.Event()
    flags = Flags(str(tmp_path / "runs.db"))
    path.write_text("by: ana\n")
    os.mkfifo(tmp_path / "pipe")

    def exchange() -> None:
        (tmp_path / "file").write_text("by: bo\n")
        while not done.is_set():
            for name in ("pipe", "file"):
                os.link(tmp_path / name, tmp_path / "next")
                os.replace(tmp_path / "next", path)

    other = threading.Thread(target=exchange, daemon=True)
    other.start()
    seen = {flags.raised()[0].by.split(",")[0] for _ in range(2000)}
    done.set()
    other.join()
    assert seen <= {"ana", "bo", "whoever made its file"}


def test_a_server_starts_over_a_pipe_for_its_grants_and_lets_nobody_in_by_it(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "runs.db.grants")
    with subprocess.Popen(
        [sys.executable, "-m", "pullcord", "serve", "--port", "0", "--store", "runs.db"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "HOME": str(tmp_path)},
    ) as server:  # fmt: skip
        assert server.stdout
        said = next(line for line in server.stdout if "#launch=" in line)
        address = re.search(r"http://(127\.0\.0\.1:\d+)/", said)
        assert address
        asked = http.client.HTTPConnection(address[1], timeout=BOUND_S)
        asked.request("GET", "/runs", headers={"Authorization": "Bearer x"})
        answer = asked.getresponse()
        assert (answer.status, b"it is a pipe" in answer.read()) == (503, True)
        asked.close()
        server.terminate()
