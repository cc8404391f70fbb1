"""Identifies an agent's actions, so that they are known again when the agent is entered again.

A step's identity is its scope, its name, its `key` or else the digest of its arguments, and how
many equal steps came before. It is fixed when the step is *called*. Neither the order in which
steps finish nor a new step in between changes it.

An id ends in a hash. Since `LONG_IDS` that has 130 bits, so nobody finds two calls with one id. A
run keeps the ids that it began with, and a fork those of its source (docs/decisions/0048).
"""

import re
import secrets
from base64 import b32encode
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from pullcord.core.text.secrets import Secrets
from pullcord.core.values import dump

LONG_IDS: Final = 1  # `Created.ids` of a new run; older runs have none
_NOT_ID: Final = re.compile(r"[^0-9A-Za-z]+")
_HASH_CHARS: Final = 26  # of five bits each
_SLUG_CHARS: Final = 24
_EARLY_HASH_CHARS: Final = 10  # of four bits each
_EARLY_SLUG_CHARS: Final = 40
_EARLY_DIGEST_CHARS: Final = 16


class Identity(NamedTuple):
    """The identity of a step: `id` in short. The other fields find a step that has changed."""

    id: str
    name: str
    scope: str
    digest: str
    place: int


class Scope:
    """Names steps in the order of their calls. Concurrent repeats get a scope each."""

    def __init__(
        self, path: str = "", secrets: Secrets | None = None, *, ids: int = LONG_IDS
    ) -> None:
        self.path, self.ids = path, ids
        self._secrets = secrets or Secrets()  # removed from names and arguments
        self._seen: Counter[tuple[str, ...]] = Counter()

    def branch(self, name: str) -> "Scope":
        name = self._secrets.seal(name)
        nth = self._nth("branch", name)
        plain = name.replace("%", "%25").replace("/", "%2F").replace("#", "%23")
        path = f"{self.path}/{plain}" if nth == 1 else f"{self.path}/{plain}#{nth}"
        return Scope(path, self._secrets, ids=self.ids)

    def step(self, name: str, args: Sequence[object], key: str | None) -> Identity:
        name, seal = self._secrets.seal(name), self._secrets.seal_json
        if key is not None:
            digest = self._secrets.seal(key)
        else:
            digest = sha256(seal(dump(list(args)))).hexdigest()
            digest = digest if self.ids else digest[:_EARLY_DIGEST_CHARS]
        place = self._nth("step", name)
        nth = self._nth("step", name, digest)
        made = named(self.ids, name, self.path, "step", name, digest, nth)
        return Identity(made, name, self.path, digest, place)

    def other(self, kind: str, name: str = "") -> str:
        """Return an id for something that only its kind and order identify."""
        name = self._secrets.seal(name)
        nth = self._nth(kind, name)
        return named(self.ids, name or kind, self.path, kind, name, nth)

    def _nth(self, *what: str) -> int:
        self._seen[what] += 1
        return self._seen[what]


def named(ids: int, readable: str, *parts: object, early_chars: int = _EARLY_HASH_CHARS) -> str:
    """Return an id of a readable part and a hash, in the form of runs with these `ids`.

    It has at most 64 characters, including a prefix and a suffix.
    """
    digest = sha256(dump(list(parts)))
    room = _SLUG_CHARS if ids else _EARLY_SLUG_CHARS
    hashed = digest.hexdigest()[:early_chars]
    if ids:
        hashed = b32encode(digest.digest()).decode().lower()[:_HASH_CHARS]
    slug = _NOT_ID.sub("-", readable).strip("-")[:room].strip("-")
    return f"{slug}-{hashed}" if slug else hashed


def new_run_id() -> str:
    """Return a new, unique id that is easy to say and to type."""
    letters = "23456789abcdefghjkmnpqrstuvwxyz"
    return "".join(secrets.choice(letters) for _ in range(10))
