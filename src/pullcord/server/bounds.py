"""How much anybody may ask of the server at once. Each bound has its own answer."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bytes, seconds and counts."""

    body: int = 1024 * 1024
    head: int = 16 * 1024
    depth: int = 64  # of JSON
    head_s: float = 10.0  # until the head of a request is there
    body_s: float = 10.0  # without a byte of the body
    whole_s: float = 60.0  # until all of the body is there
    stall_s: float = 30.0  # a reader that takes nothing for so long is let go
    beat_s: float = 15.0  # a silent stream says that it lives
    ring: int = 256 * 1024  # of a run's latest events, kept for all its readers together
    chunk: int = 64 * 1024  # handed to a reader at a time
    readers: int = 4000
    readers_of_a_run: int = 2500
    connections: int = 6000
    page: int = 100  # runs in one answer
    records: int = 1000  # in one answer
