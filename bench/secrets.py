"""What keeping secrets costs, and how many credentials that nobody registered are found."""

import random
import string
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.figures import Figure, p50
from bench.runs import add, born, steps
from pullcord.core.text.redaction import Redactor
from pullcord.core.text.secrets import Secrets
from pullcord.journal.journal import Journal

PAIRS = 1000
EACH = 200  # look-alikes of each shape
NEGATIVES = 20_000
_HEX = "0123456789abcdef"
_WORD = string.ascii_letters + string.digits
_UPPER = string.ascii_uppercase + string.digits


async def measure(_folder: Path) -> list[Figure]:
    return [*await _appends(), *_an_event(), *_looks()]


async def _appends() -> list[Figure]:
    """Appends with 0, 10 and 100 secrets registered, taken in turn, to stores in memory: a disk
    would hide what there is to see."""
    dice = random.Random(1)
    counts = (0, 10, 100)
    taken: dict[int, list[float]] = {count: [] for count in counts}
    journals = {
        count: Journal.open(":memory:", secrets=_registered(dice, count)) for count in counts
    }
    for journal in journals.values():
        await born(journal, "r1")
    for number, (intent, outcome) in enumerate(steps(PAIRS)):
        for count, journal in journals.items():
            began = time.perf_counter()
            await add(journal, "r1", 2 + 2 * number, intent)
            await add(journal, "r1", 3 + 2 * number, outcome)
            taken[count].append(time.perf_counter() - began)
    for journal in journals.values():
        await journal.aclose()
    bare = p50(taken[0])
    return [
        Figure(
            f"append with {count} secrets ÷ with none",
            p50(taken[count]) / bare,
            target,
            "×",
            f"p50 of {PAIRS:,} pairs; with none {bare * 1e6:.0f} µs, no disk",
        )
        for count, target in ((10, 1.5), (100, 3.0))
    ]


def _an_event() -> list[Figure]:
    """What sealing one ordinary event takes by itself."""
    intent, _ = next(iter(steps(1)))
    found: list[Figure] = []
    for count, target in ((0, 1.0), (10, 15.0)):
        journal = Journal.open(":memory:", secrets=_registered(random.Random(2), count))
        took: list[float] = []
        for _ in range(5000):
            began = time.perf_counter()
            journal.seal.event(intent)
            took.append(time.perf_counter() - began)
        size = len(msgspec.json.encode(intent))
        over = f"p50 of 5,000; {size} bytes"
        found.append(
            Figure(f"sealing an event, {count} secrets", p50(took) * 1e6, target, "µs", over)
        )
    return found


def _registered(dice: random.Random, count: int) -> Secrets:
    return Secrets({f"key_{n}": _some(dice, 40, _WORD) for n in range(count)})


# --- credentials by their looks ---


def _looks() -> list[Figure]:
    redactor = Redactor()
    lines = list(harmless(random.Random(4)))
    began = time.perf_counter()
    wrong = sum(redactor.redact(text) != text for text in lines)
    size = sum(map(len, lines)) / 1e6
    speed = size / (time.perf_counter() - began)
    told = f"{wrong} of {len(lines):,} harmless lines"
    return [
        _recall(redactor, "that look like something", SHAPES, 99),
        _recall(redactor, "that look like nothing", PLAIN, 0),
        Figure("redaction: false alarms", 100 * wrong / len(lines), 0.5, "%", told),
        Figure("redaction: speed", speed, 0.2, "MB/s", f"{size:.1f} MB", True),
    ]


def _recall(redactor: Redactor, which: str, shapes: "Shapes", target: float) -> Figure:
    dice, misses = random.Random(3), dict[str, int]()
    for name, make in shapes.items():
        for _ in range(EACH):
            around, secret = make(dice)
            if secret in redactor.redact(around):
                misses[name] = misses.get(name, 0) + 1
    total = len(shapes) * EACH
    found = total - sum(misses.values())
    worst = ", ".join(f"{name} {count}/{EACH}" for name, count in misses.items()) or "none"
    over = f"{found:,} of {total:,}, {len(shapes)} shapes; missed: {worst}"
    return Figure(f"redaction: recall, {which}", 100 * found / total, target, "%", over, True)


Made: TypeAlias = tuple[str, str]  # a text, and what in it is secret
Shapes: TypeAlias = dict[str, Callable[[random.Random], Made]]


def _some(dice: random.Random, chars: int, alphabet: str) -> str:
    return "".join(dice.choice(alphabet) for _ in range(chars))


def _alone(prefix: str, chars: int, alphabet: str = _WORD, suffix: str = "") -> Callable[..., Made]:
    """A token that can be told by itself, in one of the places where tokens turn up."""

    def make(dice: random.Random) -> Made:
        secret = prefix + _some(dice, chars, alphabet) + suffix
        place = dice.choice(
            [
                "{}",
                "the token is {}, use it",
                "export X={}\n",
                '{{"x": "{}"}}',
                "Error({!r})",
                "a={}&b=1",
            ]
        )
        return place.format(secret), secret

    return make


def _named(dice: random.Random) -> Made:
    """A value that is only told by the name in front of it."""
    secret = _some(dice, dice.randrange(8, 24), _WORD + "!@#$%^*") + dice.choice("0123456789")
    name = dice.choice(
        [
            "password",
            "DB_PASSWORD",
            "api_key",
            "apiKey",
            "client_secret",
            "auth_token",
            "aws_secret_access_key",
        ]
    )
    place = dice.choice(["{}={}", "{}: {}", '"{}": "{}"', "{} = '{}'", "--{}={}"])
    return place.format(name, secret), secret


def _url(dice: random.Random) -> Made:
    secret = _some(dice, 14, _WORD)
    scheme = dice.choice(["postgresql", "mysql", "redis", "amqp", "mongodb+srv", "https"])
    return f"connect to {scheme}://{_some(dice, 5, _WORD)}:{secret}@db.example.com:5432/x", secret


def _header(dice: random.Random) -> Made:
    secret = _some(dice, 40, _WORD + "-_.")
    return dice.choice(
        ["Authorization: Bearer {}", "authorization: token {}", "-H 'Bearer {}'"]
    ).format(secret), secret


def _jwt(dice: random.Random) -> Made:
    secret = ".".join(
        f"{head}{_some(dice, chars, _WORD + '-_')}"
        for head, chars in (("eyJ", 33), ("eyJ", 60), ("", 43))
    )
    return f"token {secret}", secret


def _pem(dice: random.Random) -> Made:
    body = "\n".join(_some(dice, 64, _WORD + "+/") for _ in range(8))
    kind = dice.choice(["RSA ", "EC ", "OPENSSH ", ""]) + "PRIVATE KEY"
    return f"key:\n-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n", body


def _account_key(dice: random.Random) -> Made:
    secret = _some(dice, 86, _WORD + "+/") + "=="
    return f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={secret};", secret


def _webhook(dice: random.Random) -> Made:
    secret = f"T{_some(dice, 8, _UPPER)}/B{_some(dice, 8, _UPPER)}/{_some(dice, 24, _WORD)}"
    return f"post to https://hooks.slack.com/services/{secret}", secret


SHAPES: Shapes = {
    "aws key id": _alone("AKIA", 16, _UPPER),
    "google api key": _alone("AIza", 35, _WORD + "-_"),
    "google oauth": _alone("ya29.", 60, _WORD + "-_"),
    "github token": _alone("ghp_", 36),
    "github fine-grained": _alone("github_pat_", 82, _WORD + "_"),
    "gitlab token": _alone("glpat-", 20, _WORD + "-_"),
    "slack bot token": _alone("xoxb-123456789012-", 24),
    "slack webhook": _webhook,
    "stripe key": _alone("sk_live_", 24),
    "stripe webhook": _alone("whsec_", 32),
    "openai key": _alone("sk-proj-", 48, _WORD + "-_"),
    "anthropic key": _alone("sk-ant-api03-", 90, _WORD + "-_"),
    "hugging face": _alone("hf_", 34),
    "npm token": _alone("npm_", 36),
    "pypi token": _alone("pypi-AgEIcHlwaS5vcmc", 120, _WORD + "-_"),
    "sendgrid": _alone("SG.", 22, _WORD, "." + "a1B2" * 10),
    "twilio": _alone("SK", 32, _HEX),
    "digital ocean": _alone("dop_v1_", 64, _HEX),
    "vault": _alone("hvs.", 90),
    "databricks": _alone("dapi", 32, _HEX),
    "shopify": _alone("shpat_", 32, _HEX),
    "jwt": _jwt,
    "private key": _pem,
    "azure account key": _account_key,
    "bearer header": _header,
    "url with password": _url,
    "named value": _named,
    "session cookie": lambda dice: (
        f"Set-Cookie: sid={(key := _some(dice, 32, _WORD))}; Path=/",
        key,
    ),
}

PLAIN: Shapes = {
    # Secrets all the same: what nobody can tell from other text without having been told.
    "bare hex key": lambda dice: (f"use {(key := _some(dice, 40, _HEX))}", key),
    "bare base64 key": lambda dice: (f"use {(key := _some(dice, 40, _WORD + '+/'))}", key),
    "uuid": lambda dice: (f"key {(key := '-'.join(_some(dice, 4, _HEX) for _ in range(8)))}", key),
    "password in prose": lambda dice: (f"my password is {(key := _some(dice, 12, _WORD))}", key),
    "password of letters": lambda dice: (
        f"password: {(key := _some(dice, 12, string.ascii_lowercase))}",
        key,
    ),
    "cut in two lines": lambda dice: (
        f"ghp_{_some(dice, 16, _WORD)}\n{(key := _some(dice, 20, _WORD))}",
        key,
    ),
}

_PROSE = (
    "The quick brown fox jumps over the lazy dog.",
    "Please reset your password: the token expires in ten minutes.",
    "Enter your password and press return. The secret of good code is deletion.",
    "def token(self, password: str) -> str: return self.tokens[password]",
    'raise ValueError(f"no api_key for {user}")',
    "password = input('Password: ')",
    "password=os.environ['PASSWORD']",
    "if not secret: raise LookupError('secret')",
    "See https://example.com/docs/auth#bearer and http://localhost:8080/path?x=1",
    "Bearer tokens are described in RFC 6750.",
    "commit {hex40} Author: Ana <ana@example.com>",
    "sha256:{hex64}  wheel.whl",
    "run {uuid} finished in {n} ms",
    "data:image/png;base64,{b64}",
    'etag: "{hex32}" cache-control: max-age={n}',
    "order {n} shipped to {word}, parcel {upper}",
    "token: {{secret:stripe_key}}",
    "max_tokens={n}, token_count: {n}",
    "Cookie policy: we use cookies = yes",
)


def harmless(dice: random.Random, count: int = NEGATIVES) -> Iterator[str]:
    """Prose, code, hashes and ids: what is not to be touched."""
    for number in range(count):
        text = _PROSE[number % len(_PROSE)]
        uuid = "-".join(_some(dice, n, _HEX) for n in (8, 4, 4, 4, 12))
        for name, value in {
            "{hex32}": _some(dice, 32, _HEX),
            "{hex40}": _some(dice, 40, _HEX),
            "{hex64}": _some(dice, 64, _HEX),
            "{b64}": _some(dice, 200, _WORD + "+/"),
            "{uuid}": uuid,
            "{n}": str(dice.randrange(10**6)),
            "{word}": _some(dice, 8, string.ascii_lowercase),
            "{upper}": _some(dice, 12, _UPPER),
        }.items():
            text = text.replace(name, value)
        yield text
