"""top: all runs of a store or a server on one screen. What draws it is loaded only here."""

import asyncio
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pullcord.cli.local_runs import local_runs, whoami
from pullcord.cli.parser import store_path
from pullcord.client.secret_names import from_environment
from pullcord.core.text.secrets import Secrets
from pullcord.errors import InvalidInput
from pullcord.journal.journal import Journal
from pullcord.journal.store_location import is_url, shown_location
from pullcord.lazy_import import lazy_import
from pullcord.terminal.keymap import Keymap

if TYPE_CHECKING:
    from pullcord.client import server_runs
    from pullcord.tui import app as top
    from pullcord.tui import local_source
    from pullcord.tui import server_source as served
else:
    local_source = lazy_import("pullcord.tui.local_source")
    server_runs = lazy_import("pullcord.client.server_runs")
    served = lazy_import("pullcord.tui.server_source")
    top = lazy_import("pullcord.tui.app")


def carry_out(asked: Any) -> int:
    _refuse_without_a_screen()
    if asked.server:
        said = asyncio.run(_watch_server(asked))
    else:
        with local_runs(asked):  # says so if there is no such store, and makes none
            pass
        said = asyncio.run(_watch_store(asked, _name(store_path(asked.store))))
    print(said or "Nothing was stopped.")
    return 0


def _refuse_without_a_screen() -> None:
    if find_spec("textual") is None:
        raise InvalidInput(
            "pullcord top needs textual, which is not installed. Nothing was changed. Install it: "
            "pip install 'pullcord[tui]'. Until then: pullcord ps, pullcord watch RUN"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInput(
            "pullcord top is a full screen and needs a terminal. Nothing was changed. "
            "For a script: pullcord ps --json"
        )


def _name(store: str) -> str:
    return shown_location(store) if is_url(store) else os.path.relpath(store)


async def _watch_store(asked: Any, name: str) -> str | None:
    secrets = Secrets(from_environment())
    async with Journal.open(store_path(asked.store), secrets=secrets) as journal:
        me = whoami(asked.by)
        return await _shown(asked, local_source.LocalSource(journal, me=me, name=name), me)


async def _watch_server(asked: Any) -> str | None:
    with server_runs.reach(asked) as there:
        me = there.me()  # says so if nobody answers, or we may not look
        source = served.ServerSource(there.client)
        try:
            return await _shown(asked, source, me.by)
        finally:
            source.close()


async def _shown(asked: Any, source: Any, me: str) -> str | None:
    screen = top.Top(source, me, bound=Keymap(asked.keys), light=_is_light(asked.theme))
    return await screen.run_async()


def _is_light(theme: str) -> bool:
    """As asked for; or as the terminal says of its own background, if it does."""
    if theme != "auto":
        return theme == "light"
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
