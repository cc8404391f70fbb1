"""A pullcord.toml, read and checked. What is wrong in it is said with its line."""

import os
import tomllib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from pullcord.cli.arguments import seconds_of
from pullcord.core.limits import CAPS, parsed
from pullcord.errors import InvalidInput, StoreRefused
from pullcord.journal.store_location import is_url
from pullcord.lazy_import import lazy_import
from pullcord.regular_file import whole
from pullcord.terminal.keymap import check_key

if TYPE_CHECKING:
    from pullcord.journal.postgres import address
else:
    address = lazy_import("pullcord.journal.postgres.address")

_KEYS: Final = {
    "store": str,
    "server": str,
    "limits": dict,
    "on_exhausted": str,
    "by": str,
    "port": int,
    "lease_s": float,
    "retain": str,
    "keys": dict,
    "webhook": list,
}
_FILE_MAX_BYTES: Final = 1024 * 1024
_SECRET: Final = ("token", "secret", "password", "key", "credential")
_ENDINGS: Final = ("stop", "wrap_up", "pause_and_ask")
_LEASE_S: Final = (1.0, 3600.0)


def read_settings(path: str) -> dict[str, Any]:
    """What the file says.

    Raises:
        InvalidInput: it cannot be read, or says something that cannot be meant.
    """
    try:
        said = tomllib.loads(whole(path, _FILE_MAX_BYTES, follow=True).decode())
    except (OSError, ValueError) as error:
        raise wrong(path, f"it cannot be read ({error})") from None
    for key, value in said.items():
        _check(path, key, value)
    if "store" in said and is_url(said["store"]):
        _check_url(path, said["store"])
    elif "store" in said:
        said["store"] = os.path.join(os.path.dirname(path), os.path.expanduser(said["store"]))
    return said


def _check_url(path: str, url: str) -> None:
    try:
        has_secret = address.parsed(url).has_secret
    except StoreRefused as error:
        raise wrong(path, f"store: {error}", "store") from None
    if has_secret:
        raise wrong(
            path,
            "the URL of the store has a password in it, and secrets do not belong into this file. "
            "It comes from ~/.pgpass or PGPASSWORD",
            "store",
        )


def wrong(path: str, why: str, *names: str) -> InvalidInput:
    """The error for what stands in the file under these names."""
    line = _line_of(path, names) if names else 0
    where = f"{path}:{line}" if line else path
    return InvalidInput(f"{where}: {why}. Nothing was done. Correct the file, or take it away.")


def _line_of(path: str, names: tuple[str, ...]) -> int:
    """The line where a value is said, as far as a look at the text can tell; else 0."""
    try:
        lines = whole(path, _FILE_MAX_BYTES, follow=True).decode(errors="replace").splitlines()
    except OSError:
        return 0  # it was there a moment ago
    table = ""
    for number, line in enumerate(lines, start=1):
        said = line.split("#")[0].strip()
        if said.startswith("["):
            table = said.strip("[] ")
        elif "=" in said:
            name = ".".join(filter(None, (table, said.partition("=")[0].strip())))
            if name.replace('"', "").replace("'", "").replace(" ", "") == ".".join(names):
                return number
    return 0


def _check(path: str, key: str, value: Any) -> None:
    if key not in _KEYS:
        if any(word in key.lower() for word in _SECRET):
            raise wrong(
                path,
                f"{key[:40]!r} looks like a secret, and secrets do not belong into this file. A "
                "token comes from PULLCORD_TOKEN or --token-file",
                key,
            )
        raise wrong(path, f"there is no {key[:40]!r}; there are {', '.join(_KEYS)}", key)
    if key == "lease_s" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, _KEYS[key]) or isinstance(value, bool) or value == "":
        number = "a number"
        kinds = {str: "text", int: number, float: number, dict: "a table", list: "a list of tables"}
        raise wrong(path, f"{key} is {kinds[_KEYS[key]]}", key)
    if key == "on_exhausted" and value not in _ENDINGS:
        raise wrong(path, f"on_exhausted is one of {', '.join(_ENDINGS)}", key)
    if key == "lease_s" and not _LEASE_S[0] <= cast("float", value) <= _LEASE_S[1]:
        raise wrong(path, "lease_s is a number of seconds from 1 to 3600", key)
    if isinstance(value, int) and not 0 <= value <= 65535:
        raise wrong(path, "port is a number from 0 to 65535", key)
    if key == "retain":
        try:
            seconds_of(cast("str", value))
        except InvalidInput as error:
            raise wrong(path, f"retain: {error}", key) from None
    if key == "limits":
        _check_each(path, key, value, _check_limit)
    if key == "keys":
        _check_each(path, key, value, check_key)
    if key == "webhook":
        _check_webhooks(path, cast("list[Any]", value))


def _check_each(path: str, table: str, value: Any, check: Callable[[str, Any], object]) -> None:
    for name, said in cast("dict[str, Any]", value).items():
        try:
            check(name, said)
        except InvalidInput as error:
            raise wrong(path, str(error), table, name) from None


def _check_webhooks(path: str, hooks: list[Any]) -> None:
    """What can be said without loading anything: the rest is checked by whoever uses them."""
    known = ("url", "secret_env", "timeout_s")
    for hook in hooks:
        said = cast("dict[str, Any]", hook) if isinstance(hook, dict) else {}
        if not isinstance(said.get("url"), str) or not said.get("secret_env"):
            raise wrong(path, "a [[webhook]] has a url and a secret_env")
        if "secret" in said:
            raise wrong(path, "a secret does not belong into it. Name a variable: secret_env")
        if more := [name for name in said if name not in known]:
            raise wrong(path, f"a [[webhook]] has no {more[0][:40]!r}; it has {', '.join(known)}")


def _check_limit(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise InvalidInput(f"limits.{name[:40]} is a number")
    try:
        parsed([f"{name}={value}"])
    except InvalidInput:
        if name.replace("-", "_") in CAPS:
            raise InvalidInput(f"limits.{name} is a whole number") from None
        known = ", ".join(CAPS)
        raise InvalidInput(f"there is no limits.{name[:40]}; there are {known}") from None
