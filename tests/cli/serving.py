"""A real server in a process of its own, and the command line on either side of it."""

import json
import subprocess
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pullcord.client.server_runs import reach
from tests import nursery
from tests.cli.terminal import AGENTS, Said, Terminal

SOON_S: Final = 1.5  # to close without a step under way


class Serving:
    """`here` works on the store itself; calling this, and `abroad`, goes through the server."""

    def __init__(self, folder: Path, url: str, here: Terminal, pid: int) -> None:
        self.pid = pid
        self.url = url
        self.here = here
        self.folder = folder
        self.abroad = Abroad(folder, url, self.token("approve"))
        self.env = self.abroad.env

    def token(self, right: str, *more: str) -> str:
        made = self.here("grant", "ci", "--right", right, *more)
        assert made.status == 0, made.err
        return made.out.strip()

    def begin(self, agent: str, *names: str, given: object = None) -> None:
        """Have the server start runs of this agent. It drives them."""
        secret = self.folder / "token"
        secret.write_text(self.env["PULLCORD_TOKEN"])
        asked = Namespace(server=self.url, token_file=str(secret), insecure=False)
        with reach(asked) as cord:
            for name in names:
                cord.begin("run", None, {"agent": agent, "input": given, "run_id": name})

    def __call__(self, *words: str, given: str | None = None) -> Said:
        return self.abroad(*words, given=given)


class Abroad(Terminal):
    """A terminal that knows a server and no store."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        super().__init__(folder)
        away = folder / "away"
        away.mkdir(exist_ok=True)
        self.folder = away
        self.env.pop("PULLCORD_STORE")
        self.env |= {"PULLCORD_SERVER": url, "PULLCORD_TOKEN": token, "HOME": str(away)}


@contextmanager
def serve(folder: Path, *files: str, port: str = "0") -> Generator[Serving]:
    here = Terminal(folder)
    words = ["serve", *(files or [str(AGENTS)]), "--port", port, "--json"]
    process = nursery.start(
        "pullcord", *words, env=here.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout
        told = process.stdout.readline()
        assert told, process.communicate()[1]
        yield Serving(folder, json.loads(told)["url"].partition("/#")[0], here, process.pid)
    finally:
        process.terminate()
        try:
            _, err = process.communicate(timeout=SOON_S)
        except subprocess.TimeoutExpired:  # it gives what is under way its grace: once more
            process.terminate()
            _, err = process.communicate(timeout=30)
            assert "Left at once" in err, err
    assert "ERROR pullcord.server" not in err, err
