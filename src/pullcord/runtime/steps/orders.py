"""Derives what a control means for a call in flight.

The event loop asks with the run's records. The control thread asks with the controls that it has
heard, also while that loop is blocked. Both ask `order_for`. The second of two equal orders has no
effect.
"""

from typing import Literal, TypeAlias

import msgspec

from pullcord.core.events import (
    CancelRequested,
    Control,
    Hurried,
    PauseRequested,
    Redirected,
    Resumed,
)
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.runtime.processes.warden_client import Process
from pullcord.runtime.steps.manner import Manner

Order: TypeAlias = Literal["go on", "hold", "freeze", "rest", "stop", "redirect", "hurry"]
"""`hold`: go on unseen for `hold_s`, then stop. `rest`: stop, unless the call already stands still.
`redirect`: stop, because an instruction overtakes the call. `hurry`: stop, next rung at once."""
STOPS: tuple[Order, ...] = ("stop", "redirect", "hurry")


class ControlsAsked(msgspec.Struct, frozen=True):
    """The controls that people have asked for since a call of the run began."""

    stop: Literal["", "pause", "pause now", "cancel", "cancel now"] = ""
    is_told: bool = False  # a person gave an instruction

    def and_then(self, control: Control) -> "ControlsAsked":
        """Return what people ask for once they have asked for this control too."""
        is_cancelled = self.stop.startswith("cancel")
        match control:
            case CancelRequested(now=now):
                return ControlsAsked("cancel now" if now else "cancel", self.is_told)
            case Hurried() if self.stop:
                return ControlsAsked("cancel now" if is_cancelled else "pause now", self.is_told)
            case PauseRequested(now=now) if not is_cancelled:
                return ControlsAsked("pause now" if now else "pause", self.is_told)
            case Resumed() if not is_cancelled:
                return ControlsAsked("", self.is_told)
            case Redirected():
                return ControlsAsked(self.stop, is_told=True)
            case _:
                return self


def asked_of(run: Run, *, since: int) -> ControlsAsked:
    """Return what the run's records ask of a call that began with record `since`."""
    is_told = max(run.instructions, default=0) > since
    match run.state:
        case RunState.CANCELLING if run.cancel:
            return ControlsAsked("cancel now" if run.cancel.hurried_seq else "cancel", is_told)
        case RunState.PAUSING if run.pause:
            return ControlsAsked("pause now" if run.pause.hurried_seq else "pause", is_told)
        case _:
            return ControlsAsked("", is_told)


def order_for(asked: ControlsAsked, manner: Manner) -> Order:
    """Return what a call with this manner has to do."""
    match asked.stop:
        case "cancel now":
            return "hurry"
        case "cancel":
            return "stop"
        case _ if asked.is_told and manner.on_redirect == "cancel":
            return "redirect"
        case "pause now" if manner.effect != "once":
            return "stop"  # resume begins it again
        case "pause" | "pause now":
            return _ON_PAUSE[manner.on_pause]
        case _:
            return "go on"


_ON_PAUSE: dict[str, Order] = {
    "finish": "go on",
    "cancel": "rest",
    "freeze": "freeze",
    "hold": "hold",
}


class Reach:
    """Turns controls into orders for one process, in the control thread, and tells the warden."""

    def __init__(self, manner: Manner, process: Process) -> None:
        self._manner, self._process = manner, process
        self._asked = ControlsAsked()
        self.order: Order = "go on"  # the last order it gave

    def hear(self, control: Control) -> None:
        if (asked := self._asked.and_then(control)) == self._asked:
            return  # it does not concern this process
        self._asked, self.order = asked, order_for(asked, self._manner)
        match self.order:
            case "stop" | "redirect" | "rest":
                self._process.stop(self._manner.grace_s)
            case "hurry":
                self._process.stop(self._manner.grace_s)
                self._process.hurry()
            case "freeze":
                self._process.freeze()
            case "go on" if self._manner.on_pause == "freeze":
                self._process.thaw()
            case _:
                pass
