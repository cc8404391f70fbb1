"""A PostgreSQL server of the tests' own: one per session (and xdist worker), fsync on, reached by a
socket in a folder of its own, ended by its process's number."""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg

BOUND_S: Final = 60
GUARDED: Final = "guarded"
_BINS: Final = os.environ.get("PULLCORD_POSTGRES", "")


def _bin(name: str) -> str:
    folders = [Path(_BINS)] if _BINS else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = [folder / name for folder in folders if (folder / name).exists()]
    assert found, f"{name} is missing: make setup installs it (Debian: postgresql)"
    return str(found[-1])


def _as_somebody() -> dict[str, Any]:
    """It refuses to run as root."""
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def until(holds: Callable[[], object]) -> None:
    """Look again and again, within a bound: other processes bring it about."""
    end = time.monotonic() + BOUND_S
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.005)


class Server:
    """A cluster in a folder that belongs to who runs it. It can be killed and brought back."""

    def __init__(self, folder: Path) -> None:
        self._data, self.socket = folder / "data", folder
        self._log = folder / "log"
        self._who = _as_somebody()
        self._process: subprocess.Popen[Any] | None = None
        self._schemas = 0
        if self._who:
            os.chown(folder, self._who["user"], self._who["group"])
        how = ["-A", "trust", "-U", "pullcord", "-E", "UTF8", "--locale=C", "--no-sync"]
        making = [_bin("initdb"), "-D", str(self._data), *how]
        with self._log.open("ab") as log:
            subprocess.check_call(making, stdout=log, stderr=log, **self._who)
        rules = self._data / "pg_hba.conf"  # one user has to know its password
        rules.write_text(f"local all {GUARDED} scram-sha-256\n" + rules.read_text())

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def url(self, schema: str = "", *, user: str = "pullcord", password: str = "") -> str:
        """Of a schema of its own, unless it is named."""
        if not schema:
            self._schemas += 1
            schema = f"s{os.getpid()}_{self._schemas}"
        secret = f":{quote(password, safe='')}" if password else ""
        host = quote(str(self.socket), safe="")
        return f"postgresql://{user}{secret}@{host}:5432/postgres?schema={schema}"

    def start(self) -> None:
        """Returns when it answers. What a killed one has left may keep it from starting for a
        moment: then it is started again."""
        end = time.monotonic() + BOUND_S
        while not self._start():
            assert time.monotonic() < end, self._log.read_text()[-2000:]

    def _start(self) -> bool:
        settings = {
            "unix_socket_directories": str(self.socket),
            "listen_addresses": "",
            "max_connections": "60",
            "shared_buffers": "16MB",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            process: subprocess.Popen[Any] = subprocess.Popen(
                [_bin("postgres"), "-D", str(self._data), *words],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal is not meant for it
                **self._who,
            )
        while process.poll() is None:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                time.sleep(0.005)  # nobody tells when it is ready
            else:
                self._process = process
                return True
        return False

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """For a test that looks or meddles beside the store."""
        return psycopg.connect(
            host=str(self.socket), port=5432, user="pullcord", dbname="postgres", autocommit=True
        )

    def ask(self, statement: str, *given: Any) -> list[tuple[Any, ...]]:
        with self.connect() as db:
            cursor = db.execute(statement.encode(), given or None)
            return cursor.fetchall() if cursor.description else []

    def has_user(self, name: str, *how: str) -> None:
        """There is such a user, with these options."""
        if not self.ask("SELECT 1 FROM pg_roles WHERE rolname = %s", name):
            self.ask(f"CREATE ROLE {name} LOGIN")
        self.ask(f"ALTER ROLE {name} {' '.join(how) or 'LOGIN'}")

    def kill(self) -> None:
        """The server and everybody who works for it, in the middle of what they do."""
        mine = self._workers()
        self._end(signal.SIGKILL)
        for pid in mine & self._workers_left(mine):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def freezes(self) -> None:
        """It is there, takes connections, and says nothing."""
        for pid in (self.pid, *self._workers()):
            os.kill(pid, signal.SIGSTOP)

    def is_back(self) -> None:
        """After whatever was done to it."""
        if not self.is_up:
            self.start()
            return
        for pid in (self.pid, *self._workers()):
            os.kill(pid, signal.SIGCONT)

    def kill_postmaster(self) -> None:
        """Only the first of its processes: the others notice, at some time."""
        self._end(signal.SIGKILL)

    def _workers(self) -> set[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return {int(pid) for pid in children.read_text().split()}

    def _workers_left(self, known: set[int]) -> set[int]:
        """Those whose command line still is a server's: a number may be another's by now."""
        left: set[int] = set()
        for pid in known:
            with suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"postgres:"):
                    left.add(pid)
        return left

    def terminates(self, kind: str = "%") -> int:
        """End the connections of stores whose last statement was like this; return how many."""
        ended = self.ask(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
            "WHERE application_name = 'pullcord' AND query LIKE %s",
            kind,
        )
        return ended[0][0]

    def stop(self) -> None:
        self._end(signal.SIGINT)  # "fast": every connection is ended

    def _end(self, how: signal.Signals) -> None:
        if self._process:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
            self._process.wait(BOUND_S)
            self._process = None

    @property
    def is_up(self) -> bool:
        return self._process is not None


@cache
def a_server() -> Server:
    """The one of this session. It ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="pcpg-"))
    server = Server(folder)
    server.start()

    def end() -> None:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return server


@contextmanager
def serving() -> Generator[Server]:
    """One for a test that ends it. Not in pytest's own folder, which only its user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="pcpg-"))
    try:
        server = Server(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
