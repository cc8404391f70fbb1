"""What the fake provider is told to say, independent of the dialect it says it in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Ending: TypeAlias = Literal["complete", "cut", "clean_cut", "reset", "error"]


@dataclass(frozen=True, kw_only=True)
class Text:
    """Words for the reader."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Thinking:
    """Reasoning. `signature` is Anthropic's signature or the encrypted content of Responses."""

    text: str
    signature: str | None = "sig-0001"


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A wish to call a tool. `args` as a string goes out as it is, however broken.

    Without an `id` the provider makes up one that it never used before.
    """

    name: str
    args: Mapping[str, object] | str = field(default_factory=dict[str, object])
    id: str | None = None

    @property
    def arguments(self) -> str:
        """The arguments as they appear on the wire."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args)


Part: TypeAlias = Text | Thinking | ToolCall


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One scripted answer. A *chunk* is one piece of a part's content; framing does not count.

    Ends: `complete`; `cut` (the connection closes inside the body); `clean_cut` (the body ends
    properly, the dialect's end is missing); `reset` (RST); `error` (the dialect's error event in
    the stream). All but `complete` happen after `cut_after` chunks, or after the last one;
    `cut_after=-1` is before any header.
    """

    parts: Sequence[Part] = (Text(text="done"),)
    chunk_chars: int = 8
    chunks: int | None = None  # this many pieces per part, instead of `chunk_chars`
    cut_utf8: bool = False  # split each chunk's bytes inside a character, where there is a wide one
    cut_pause_s: float = 0.02  # between the two halves, so that they are read apart

    delay_s: float = 0.0  # before the headers
    chunk_delay_s: float = 0.0  # before each chunk but the first
    stall_before_headers: bool = False  # hold until the peer closes or `provider.release()`
    stall_after: int | None = None  # hold after this many chunks; 0: headers only
    stall_inside: bool = False  # … and hold half-way through the bytes of the chunk that follows

    ending: Ending = "complete"
    cut_after: int | None = None
    duplicate_indices: bool = False  # every block or call claims to be number 0
    usage: tuple[int, int] | None = (11, 7)  # input, output tokens; None: not told
    finish: str | None = None  # the dialect's finish word, when not the natural one

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | bytes | None = None  # sent as it is, instead of the parts


def say(text: str, **more: object) -> Reply:
    """A reply of plain text."""
    return Reply(parts=(Text(text=text),), **more)  # pyright: ignore[reportArgumentType]


def call(name: str, args: Mapping[str, object] | str | None = None, **more: object) -> Reply:
    """A reply that is one tool call."""
    part = ToolCall(name=name, args={} if args is None else args)
    return Reply(parts=(part,), **more)  # pyright: ignore[reportArgumentType]


def rate_limited(retry_after_s: float = 1) -> Reply:
    """429 with `retry-after`, in the dialect's error format."""
    return Reply(status=429, headers={"retry-after": f"{retry_after_s:g}"})


def server_error(status: int = 500) -> Reply:
    """A 5xx in the dialect's error format."""
    return Reply(status=status)


def html_page() -> Reply:
    """What a captive portal or a broken proxy says: 200, and not a model's answer at all."""
    return Reply(
        headers={"content-type": "text/html"},
        body="<!doctype html><html><body><h1>Welcome to the guest network</h1></body></html>",
    )


def pieces(text: str, reply: Reply) -> list[str]:
    """Cut one part's content into chunks as the reply asks. Empty content is one empty chunk."""
    size = reply.chunk_chars
    if reply.chunks is not None:
        size = -(-len(text) // reply.chunks)
    size = max(1, size)
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]
