"""What guards cost: text through a screen in pieces, and one chunk of a stream as it comes."""

import random
import string
import time
from collections.abc import Iterable
from pathlib import Path

from bench.figures import Figure, p99
from pullcord.core.text.screening import Guard, Guards, Pattern, Phrase

CHARS = 2_000_000
CHUNKS = 20_000
PIECE = 4096
ROUNDS = 3
_LATIN = "the quick brown fox jumps over a lazy dog, and then it says: (well) 1 2 3\n"
_MIXED = "Größe, naïve café — привет мир, 漢字かな, Ελλάδα… zwölf Boxkämpfer\n"


async def measure(folder: Path) -> list[Figure]:
    random.seed(7)
    figures: list[Figure] = []
    for count in (1, 10):
        guards = Guards(_some(count))
        for name, text in (("ASCII", _text(_LATIN)), ("mixed", _text(_LATIN + _MIXED))):
            what = f"{count} guard{'s' if count > 1 else ''}, {name} text"
            speed = max(_through(guards, text) for _ in range(ROUNDS))
            over = f"{len(text.encode()) / 1e6:.1f} MB in pieces of {PIECE:,} characters, best of 3"
            figures.append(Figure(f"screened: {what}", speed, 5.0, "MB/s", over, True))
            times = _chunks(guards, text)
            over = f"p99 of {len(times):,} chunks of 4 to 40; all {sum(times) * 1000:,.0f} ms"
            figures.append(Figure(f"one chunk: {what}", p99(times) * 1000, 1.0, "ms CPU", over))
    return figures


def _some(count: int) -> list[Guard]:
    """Phrases; of ten guards, two are patterns."""
    letters = string.ascii_letters + string.digits + "-"
    secrets = ("".join(random.choices(letters, k=40)) for _ in range(count))
    guards: list[Guard] = [Phrase(secret, name=f"phrase {n}") for n, secret in enumerate(secrets)]
    if count > 2:
        guards[-2:] = [
            Pattern(r"sk-[A-Za-z0-9]{20,}", max_chars=64),
            Pattern(r"AKIA[0-9A-Z]{16}", max_chars=20),
        ]
    return guards


def _text(alphabet: str) -> str:
    words = alphabet.split(" ")
    made = " ".join(random.choices(words, k=CHARS // 4))
    return made[:CHARS]


def _cut(text: str, sizes: Iterable[int]) -> list[str]:
    pieces: list[str] = []
    at = 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    return [piece for piece in pieces if piece]


def _through(guards: Guards, text: str) -> float:
    pieces = _cut(text, [PIECE] * (len(text) // PIECE + 1))
    screen = guards.screen()
    began = time.process_time()
    shown = [screen.feed(piece) for piece in pieces]
    shown.append(screen.end())
    took = time.process_time() - began
    assert "".join(shown) == text
    return len(text.encode()) / took / 1e6


def _chunks(guards: Guards, text: str) -> list[float]:
    pieces = _cut(text, (random.randint(4, 40) for _ in range(CHUNKS)))
    screen = guards.screen()
    times: list[float] = []
    for piece in pieces:
        began = time.thread_time_ns()
        screen.feed(piece)
        times.append((time.thread_time_ns() - began) / 1e9)
    return times
