"""A webhook: where to, and the signature by which its receiver knows whose word it is.

Signed as the Standard Webhooks specification says: HMAC-SHA256 over id, time and body. Knows
nothing of sockets; see `http_post`.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pullcord.core.loopback import is_loopback
from pullcord.core.notices import Moved, Notice
from pullcord.errors import InvalidInput

_PREFIX: Final = "whsec_"
_KEY_MIN_BYTES: Final = 24
_TEXT_CHARS: Final = 1000
_URL_CHARS: Final = 2000
_DIGEST_CHARS: Final = 12


@dataclass(frozen=True)
class Webhook:
    """A URL that is told, by POST, what a hook is told.

    `secret` signs every request: at least 24 characters, or `whsec_` and base64. With two of them
    each request has two signatures, so that a receiver can change from one to the other. The URL
    is https, or of this machine. Redirects are not followed.

    Raises:
        InvalidInput: names what is wrong, and never the secret.
    """

    url: str
    secret: str | Sequence[str] = field(repr=False)
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        _check_url(self.url)
        if not 0 < self.timeout_s <= 60:
            raise _wrong(self.url, "its timeout_s has to be more than 0 and at most 60")
        given = (self.secret,) if isinstance(self.secret, str) else tuple(self.secret)
        if not 1 <= len(given) <= 2:
            raise _wrong(self.url, "it needs one secret, or two while they are changed")
        object.__setattr__(self, "secret", given)
        for secret in given:
            _key(self.url, secret)

    @property
    def name(self) -> str:
        """How logs call it, and by what its place is kept: without what may be a token in it,
        and that may be anything behind the host. There is no user in a URL that was let in."""
        url = urlsplit(self.url)
        rest = sha256(f"{url.path}?{url.query}".encode()).hexdigest()
        return f"{url.scheme}://{url.netloc}#{rest[:_DIGEST_CHARS]}"

    def __repr__(self) -> str:
        return f"Webhook({self.name!r}, timeout_s={self.timeout_s!r})"

    def headers(self, id: str, at_s: int, body: bytes) -> dict[str, str]:
        """What proves that it comes from here, and which delivery it is."""
        signed = f"{id}.{at_s}.".encode() + body
        made = [_signature(_key(self.url, secret), signed) for secret in self.secret]
        return {
            "webhook-id": id,
            "webhook-timestamp": str(at_s),
            "webhook-signature": " ".join(f"v1,{one}" for one in made),
        }


def former_name(webhook: Webhook) -> str:
    """By what its place was kept when a path was not yet taken for a secret: to be looked up, and
    never to be shown."""
    url = urlsplit(webhook.url)
    more = f"?{sha256(url.query.encode()).hexdigest()[:8]}" if url.query else ""
    return f"{url.scheme}://{url.netloc}{url.path}{more}"


def body_of(notice: Moved | Notice) -> bytes:
    """The notice as it is sent: bounded, and without the arguments of a call."""
    kind = "run.moved" if isinstance(notice, Moved) else "run.asked"
    said = {
        field: value[:_TEXT_CHARS] if isinstance(value, str) else value
        for field, value in msgspec.structs.asdict(notice).items()
        if field != "args"
    }
    if isinstance(notice, Moved):
        said["limits"] = [leaf[:_TEXT_CHARS] for leaf in notice.limits[:20]]
    return msgspec.json.encode({"type": kind, "data": said})


def _signature(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def _key(url: str, secret: str) -> bytes:
    key = secret.encode(errors="surrogateescape")
    if secret.startswith(_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raise _wrong(url, "what follows whsec_ in its secret is not base64") from None
    if len(key) < _KEY_MIN_BYTES:
        raise _wrong(url, f"its secret has fewer than {_KEY_MIN_BYTES} bytes")
    return key


def _check_url(given: str) -> None:
    try:
        url = urlsplit(given)
        _ = url.port
    except ValueError:  # its words may be a part of a password
        raise _wrong("", "its URL cannot be read: look at its host and its port") from None
    is_plain = given.isascii() and given.isprintable() and " " not in given
    if not is_plain or len(given) > _URL_CHARS or not url.hostname:
        raise _wrong("", "its URL is not one: only ASCII, with a host, at most 2,000 characters")
    if url.username is not None or url.password is not None or url.fragment:
        raise _wrong(given, "its URL has a user, a password or a fragment in it")
    if url.scheme != "https" and not (url.scheme == "http" and is_loopback(url.hostname or "")):
        raise _wrong(given, "its URL is neither https nor of this machine")


def _wrong(url: str, why: str) -> InvalidInput:
    where = urlsplit(url).hostname if url else None
    of = f"A webhook to {where}" if where else "A webhook"
    return InvalidInput(f"{of} cannot be used: {why}. Nothing was opened.")
