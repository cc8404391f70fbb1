"""Thirty secrets of thirty shapes, made up from a seed, and eyes that find any form of them."""

import base64
import json
import random
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from pullcord.core.text.secret_forms import forms_of

_dice: Final = random.Random(19)
_WORD: Final = string.ascii_letters + string.digits


def _some(chars: int, alphabet: str = _WORD) -> str:
    return "".join(_dice.choice(alphabet) for _ in range(chars))


def _bytes(count: int) -> bytes:
    return _dice.randbytes(count)


def _b64(count: int) -> str:
    return base64.b64encode(_bytes(count)).decode()


def _pem() -> str:
    body = [_some(64, _WORD + "+/") for _ in range(12)]
    kind = "PRIVATE KEY"
    return "\n".join([f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----", ""])


def _account() -> str:
    return json.dumps({"type": "fake", "key": _pem(), "id": _some(20)}, indent=2)


SECRETS: Final[dict[str, str]] = {
    "least": _some(8),
    "cloud_id": "AKIA" + _some(16, string.ascii_uppercase + string.digits),
    "cloud_key": _some(38, _WORD) + "+/",
    "hub_token": "ghp_" + _some(36),
    "lab_token": "glpat-" + _some(20),
    "chat_token": f"xoxb-{_some(12, string.digits)}-{_some(24)}",
    "pay_key": "sk_live_" + _some(24),
    "pay_key_too": "sk_live_" + _some(24),
    "model_key": "sk-ant-" + _some(40, _WORD + "-_"),
    "map_key": "AIza" + _some(35, _WORD + "-_"),
    "jwt": ".".join(base64.urlsafe_b64encode(_bytes(n)).decode().strip("=") for n in (27, 60, 32)),
    "pem": _pem(),
    "uuid": "-".join(_some(n, "0123456789abcdef") for n in (8, 4, 4, 4, 12)),
    "hex_short": _some(32, "0123456789abcdef"),
    "hex_long": _some(64, "0123456789abcdef"),
    "base64": _b64(33),
    "base64_padded": _b64(32),
    "base64_url": base64.urlsafe_b64encode(_bytes(34)).decode(),
    "basic": f"{_some(6)}:{_some(14, _WORD + '!?*')}",
    "database": f"postgresql://{_some(5)}:{_some(12)}@127.0.0.1:5432/{_some(6)}?sslmode=off",
    "quotes": f"{_some(5)}\"{_some(4)}'{_some(3)}`\\{_some(4)}",
    "spaces": " ".join(_some(5) for _ in range(5)),
    "unicode": f"pässwörd-{_some(6)}-ñ€→",
    "emoji": f"{_some(4)}😀{_some(4)}🔑{_some(3)}",
    "control": f"{_some(6)}\n\t{_some(6)}\r\n{_some(6)}\x1b[0m{_some(3)}",
    "digits": "4" + _some(15, string.digits),
    "account": _account(),
    "markup": f'<{_some(5)}>&{_some(5)};"{_some(5)}',
    "query": f"{_some(6)}&b={_some(6)}+c%20{_some(4)}=/?#{_some(3)}",
    "long": _some(4096, _WORD + "$!{}()"),
}
assert len(SECRETS) == 30

ALL: Final = list(SECRETS.values())
LOOSE: Final = " | ".join(ALL)  # all of them in one text

_NEEDLES: Final = [
    (f"{name}|{form}", needle)
    for name, value in SECRETS.items()
    for form, text in forms_of(value).items()
    for needle in {text.encode(), msgspec.json.encode(text)[1:-1]}
]


def found_in(*things: object) -> list[str]:
    """Which secrets, in which forms, can be read in these: texts, bytes, files, or what they say of
    themselves."""
    found: set[str] = set()
    for thing in things:
        match thing:
            case bytes():
                data = thing
            case Path():
                data = thing.read_bytes()
            case str():
                data = thing.encode(errors="replace")
            case _:
                data = repr(thing).encode(errors="replace")
        found |= {name for name, needle in _NEEDLES if needle in data}
    return sorted(found)


def files_of(store: Path) -> Iterable[Path]:
    """Everything that a store has on disk: the database, its write-ahead log, its shared
    memory, and what lies beside them."""
    beside = store.parent.glob(f"{store.name}*")
    files = [file for found in beside for file in (found, *found.rglob("*")) if file.is_file()]
    assert store in files
    return files
