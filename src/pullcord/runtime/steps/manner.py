"""The manner in which a step runs, as its tool or the step itself declares it."""

from typing import Literal

import msgspec

from pullcord.core.events import Effect, RunIn


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """The manner of a step, as far as stopping it is concerned."""

    effect: Effect = "once"
    run_in: RunIn = ""
    timeout_s: float | None = None
    grace_s: float = 2.0  # how long it may take to react to each rung of the ladder
    on_pause: Literal["finish", "cancel", "freeze", "hold"] = "finish"
    hold_s: float = 0.0  # with `hold`: how long it may go on unseen before a pause cuts it
    on_redirect: Literal["finish", "cancel"] = "finish"
    has_probe: bool = False  # its tool can tell the outcome of a call that was cut
