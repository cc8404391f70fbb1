"""The answer to a control. On its own, because whoever only asks needs nothing else of the core."""

from typing import Literal, TypeAlias

import msgspec

from pullcord.core.states import RunState

Verdict: TypeAlias = Literal["applied", "already", "too_late", "rejected"]
Reason: TypeAlias = Literal[
    "", "ended", "cancelling", "stale", "not_paused", "unknown_question", "unknown_choice",
    "unknown_item", "unknown_step", "key_reused", "not_an_approval", "other_call", "expired",
    "nothing_to_undo", "stopping", "unknown_limit", "kill_switch", "forgotten", "living", "held",
    "needed", "attention", "undoing",
]  # fmt: skip


class Ack(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a control, given only when it is durable, and the same for everyone.

    `applied`: record `seq` is the control; it is ordered with everything else in the run.
    `already`: it held before; record `seq` made it so.
    `too_late`: record `seq` won; `message` says what happened instead.
    `rejected`: not possible for `reason`; nothing changed; `message` says what to do.
    """

    verdict: Verdict
    seq: int
    state: RunState
    reason: Reason = ""
    message: str = ""

    @property
    def holds(self) -> bool:
        """What was asked for is true now."""
        return self.verdict in ("applied", "already")
