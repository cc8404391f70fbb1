"""top: all runs of a store or a server on one screen. What draws it is loaded only here."""

import asyncio
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pullcord.cli.parser import store_path
from pullcord.cli.secret_names import from_environment
from pullcord.cli.store import desk, whoami
from pullcord.core.keys import Keymap
from pullcord.core.secrets import Secrets
from pullcord.errors import InvalidInput
from pullcord.journal.journal import Journal
from pullcord.journal.place import is_url, shown
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli import remote
    from pullcord.cli import top_server as served
    from pullcord.tui import app as top
    from pullcord.tui import local
else:
    local = lazy_import("pullcord.tui.local")
    remote = lazy_import("pullcord.cli.remote")
    served = lazy_import("pullcord.cli.top_server")
    top = lazy_import("pullcord.tui.app")


def carry_out(asked: Any) -> int:
    _refuse_without_a_screen()
    if asked.server:
        said = asyncio.run(_watch_server(asked))
    else:
        with desk(asked):  # says so if there is no such store, and makes none
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
    return shown(store) if is_url(store) else os.path.relpath(store)


async def _watch_store(asked: Any, name: str) -> str | None:
    secrets = Secrets(from_environment())
    async with Journal.open(store_path(asked.store), secrets=secrets) as journal:
        me = whoami(asked.by)
        return await _shown(asked, local.Local(journal, me=me, name=name), me)


async def _watch_server(asked: Any) -> str | None:
    with remote.reach(asked) as there:
        me = there.me()  # says so if nobody answers, or we may not look
        source = served.Served(there.client)
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
