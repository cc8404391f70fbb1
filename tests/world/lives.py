"""What an actor is born as, and what its agents are given to do."""

from typing import Final

import msgspec

LEASE_S: Final = 1.5
KINDS: Final = (
    "in_loop", "in_loop_again", "in_loop_undo", "to_thread", "subprocess", "in_process",
    "in_process_again", "in_process_undo", "in_thread", "exec", "too_slow", "unstorable", "fails",
)  # fmt: skip


class Op(msgspec.Struct, frozen=True):
    """One call: which tool, known by which token, and for how many ticks it acts."""

    tool: str
    token: str
    ticks: int


class Given(msgspec.Struct, frozen=True):
    """What an agent is to do. `child`: it starts another that does these, and waits for it."""

    ops: list[Op]
    child: list[Op] = []


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """Which actor is to be born."""

    name: str
    store: str
    line: str  # the socket on which it is told what to do
    provider: str
    log: str
    role: str = "embedded"  # or server
    killable: bool = True
    plant: str = ""
    lease_s: float = LEASE_S
