"""The address of the chosen server, and the credential that only this server gets."""

import os
from typing import NamedTuple

from pullcord.core.loopback import is_loopback
from pullcord.errors import InvalidInput


class ServerAddress(NamedTuple):
    """The address of a server, as the user gave it."""

    url: str
    is_tls: bool
    host: str
    port: int
    name: str  # the host name in a request
    path: str


def address(url: str, *, insecure: bool) -> ServerAddress:
    """Return the address of a server.

    Raises:
        InvalidInput: it cannot be an address, or a token would cross the network unencrypted.
    """
    scheme, has_scheme, rest = url.partition("://")
    name, _, path = rest.partition("/")
    if "@" in name:
        raise InvalidInput(
            "A server's address has no name or password in it: others can read a command line. "
            "Nothing was sent. The token comes from PULLCORD_TOKEN or --token-file."
        )
    if "#" in rest or "?" in rest:
        shown = f"{scheme}://{name}".split("#")[0].split("?")[0]
        raise InvalidInput(
            "That is a link for a browser. Nothing was sent. The server itself is: "
            f"--server {shown[:200]}"
        )
    host, port = _host_and_port(name, 443 if scheme == "https" else 80)
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= 2000
    if not has_scheme or scheme not in ("http", "https") or not host or not port or not is_plain:
        raise InvalidInput(
            f"{url[:100]!r} is not the address of a server: it looks like "
            "https://agents.example.com or http://127.0.0.1:8421. Nothing was sent."
        )
    if scheme == "http" and not insecure and not is_loopback(host):
        raise InvalidInput(
            f"http:// to {host} would show your token to the network. Nothing was sent. Use "
            "https://, or a tunnel to this machine; --insecure sends it all the same."
        )
    return ServerAddress(
        url.rstrip("/"), scheme == "https", host, port, name, f"/{path}".rstrip("/")
    )


def _host_and_port(name: str, usual: int) -> tuple[str, int]:
    host, has_port, said = name, "", ""
    if name.count(":") == 1 or "]:" in name:
        host, has_port, said = name.rpartition(":")
    if has_port and not (said.isdigit() and 0 < int(said) < 65536):
        return "", 0
    return host.strip("[]"), int(said) if has_port else usual


def token(file: str | None) -> str:
    """Return the credential, from a file or the environment.

    Raises:
        InvalidInput: there is none, or it cannot be one. The error does not show it.
    """
    where = "PULLCORD_TOKEN"
    said = os.environ.get(where, "")
    if file:
        where = file
        try:
            with open(file, encoding="utf-8") as opened:
                said = opened.read(8192)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            raise InvalidInput(
                f"Cannot read the token in {file}: {why}. Nothing was sent."
            ) from None
    said = said.strip()
    if not said:
        raise InvalidInput(
            "A server wants to know who asks. Nothing was sent. Set PULLCORD_TOKEN, or name a file "
            "with --token-file. Whoever runs the server makes one: pullcord grant NAME "
            "--right control"
        )
    if not said.isascii() or not said.isprintable() or " " in said or len(said) > 4096:
        raise InvalidInput(f"What is in {where} is not a token. Nothing was sent.")
    return said
