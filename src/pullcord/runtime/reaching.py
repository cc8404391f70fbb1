"""What a control means for a process tool, from a thread that knows nothing of the event loop."""

from pullcord.core.events import CancelRequested, Control, Hurried, PauseRequested, Resumed
from pullcord.runtime.manner import Manner
from pullcord.runtime.processes import Process


class Reach:
    """Hears the controls of a run in order and gives the warden the orders they call for. The
    driver gives the same ones when it comes to it; given twice they do nothing more."""

    def __init__(self, manner: Manner, process: Process) -> None:
        self._manner, self._process = manner, process
        self.is_cancelled = False  # a cancel was heard, and the warden told to stop it

    def hear(self, control: Control) -> None:
        match control:
            case CancelRequested(now=now):
                self.is_cancelled = True
                self._process.stop(self._manner.grace_s)
                if now:
                    self._process.hurry()
            case Hurried() if self.is_cancelled:
                self._process.hurry()
            case PauseRequested() if self._manner.on_pause == "freeze":
                self._process.freeze()
            case Resumed() if self._manner.on_pause == "freeze":
                self._process.thaw()
            case _:
                pass
