"""Where a value comes from: a flag, the environment, the nearest pullcord.toml, the one at home.

Flags beat the environment, the environment beats files, the nearest file beats the one at home.
Whether a store or a server is meant is decided by the first of these that names either.
"""

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pullcord.core.loopback import is_loopback
from pullcord.errors import InvalidInput
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli import settings_file as files
    from pullcord.journal.postgres import address
    from pullcord.terminal import keymap
else:
    address = lazy_import("pullcord.journal.postgres.address")
    files = lazy_import("pullcord.cli.settings_file")
    keymap = lazy_import("pullcord.terminal.keymap")

FILE: Final = "pullcord.toml"
_DEFAULTS: Final = {"store": "pullcord.db", "port": 8421}


class Value(NamedTuple):
    """A setting, and who has said so."""

    value: Any
    origin: str
    is_of_the_folder: bool = False  # it came with files that somebody else may have written


Settings = dict[str, Value]


def home_file() -> str:
    return os.path.join(os.path.expanduser("~"), ".config", "pullcord", FILE)


def nearest_file() -> str | None:
    """The nearest pullcord.toml, from the current folder upward."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # somebody has removed it
        return None
    while True:
        if os.path.isfile(path := os.path.join(folder, FILE)):
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def settings(asked: Any) -> Settings:
    """Everything that can be set, as it counts for this command.

    Raises:
        InvalidInput: a file cannot be read, or says something that cannot be meant.
    """
    home, near = home_file(), nearest_file()
    levels = [_flags(asked), _environment()]
    if near and os.path.realpath(near) != os.path.realpath(home):
        levels.append(_file(near, is_of_the_folder=True))
    if os.path.isfile(home):
        levels.append(_file(home, is_of_the_folder=False))
    found: Settings = {}
    for level in levels:
        if not hasattr(asked, "server"):  # it needs the store itself
            level.pop("server", None)
        if "server" in found or "store" in found:
            level = {k: v for k, v in level.items() if k not in ("server", "store")}
        if "server" in level and "store" in level:
            del level["store"]
        if "limits" in level and "limits" in found:
            nearer, farther = found["limits"], level["limits"]
            both = f"{nearer.origin}, {farther.origin}"
            found["limits"] = Value(farther.value | nearer.value, both)
        found = level | found
    if "server" not in found:
        found.setdefault("store", Value(_DEFAULTS["store"], "the default"))
    found.setdefault("port", Value(_DEFAULTS["port"], "the default"))
    if bound := _bound(levels):
        found["keys"] = bound
    return found


def settle(asked: Any) -> None:
    """Put into `asked` what it leaves open.

    Raises:
        InvalidInput: see `settings`.
    """
    found = settings(asked)
    server = found.get("server")
    asked.server = server.value if server else None
    if server and server.is_of_the_folder:
        _check_folder_server(server)
    store = found.get("store")
    if store and store.is_of_the_folder and "://" in str(store.value):
        _check_folder_store(store)
    asked.keys = found["keys"].value if "keys" in found else {}
    if hasattr(asked, "store"):
        asked.store = found["store"].value if "store" in found else None
    if hasattr(asked, "by"):
        asked.signed = asked.by  # what was said on the command line itself
        asked.by = found["by"].value if "by" in found else None
    if hasattr(asked, "port") and asked.verb == "serve":
        asked.port = found["port"].value
    if asked.verb in ("forget", "serve"):
        asked.retain = found["retain"].value if "retain" in found else None
    asked.webhooks = found["webhook"].value if "webhook" in found else []
    asked.lease_s = float(found["lease_s"].value) if "lease_s" in found else None
    if asked.verb == "run":
        named = {word.partition("=")[0].replace("-", "_") for word in asked.limit}
        caps: dict[str, float] = found["limits"].value if "limits" in found else {}
        asked.limit[:0] = [f"{name}={caps[name]}" for name in caps if name not in named]
        asked.on_exhausted = found["on_exhausted"].value if "on_exhausted" in found else None


def _flags(asked: Any) -> Settings:
    if getattr(asked, "store", None) and getattr(asked, "server", None):
        raise InvalidInput(
            "--store and --server are two places. Nothing was done. Name the one that is meant."
        )
    found: Settings = {}
    for key in ("store", "server", "by", "port", "on_exhausted"):
        if (said := getattr(asked, key, None)) not in (None, ""):
            found[key] = Value(said, f"--{key.replace('_', '-')}")
    return found


def _environment() -> Settings:
    names = {"store": "PULLCORD_STORE", "server": "PULLCORD_SERVER", "by": "PULLCORD_USER"}
    return {
        key: Value(os.environ[name], name) for key, name in names.items() if os.environ.get(name)
    }


def _check_folder_server(server: Value) -> None:
    """A file that comes with a folder does not decide where somebody's token goes."""
    host = str(server.value).partition("://")[2].partition("/")[0]
    if is_loopback(host.rpartition(":")[0] or host if host.count(":") == 1 else host):
        return
    raise InvalidInput(
        f"{server.origin} names the server {str(server.value)[:100]}. A file that comes with a "
        "folder does not decide where your token goes, so nothing was sent. If that server is "
        f"meant: --server, PULLCORD_SERVER, or server = ... in {home_file()}"
    )


def _check_folder_store(store: Value) -> None:
    """The same for a database: whoever opens it shows it a password, and its runs."""
    found = address.parsed(str(store.value))
    if found.is_here:
        return
    raise InvalidInput(
        f"{store.origin} names the store {found.name}. A file that comes with a folder does not "
        "decide who is shown your password, so nothing was sent. If that database is meant: "
        f"--store, PULLCORD_STORE, or store = ... in {home_file()}"
    )


# --- the file, loaded only where there is one ---------------------------------------------------


def _file(path: str, *, is_of_the_folder: bool) -> Settings:
    return {
        key: Value(said, path, is_of_the_folder) for key, said in files.read_settings(path).items()
    }


def _bound(levels: list[Settings]) -> Value | None:
    """The keys that a person has bound, nearest first; see `pullcord.terminal.keymap`."""
    bound, origins = dict[str, str](), list[str]()
    for said in [level["keys"] for level in reversed(levels) if "keys" in level]:
        if found := keymap.clash(bound, said.value, is_mine=not said.is_of_the_folder):
            raise files.wrong(said.origin, found[1], "keys", found[0])
        bound |= said.value
        origins.insert(0, said.origin)
    return Value(bound, ", ".join(origins)) if origins else None
