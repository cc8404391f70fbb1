"""One tool's tree as the warden sees it: started at the gate, frozen, and stopped by a ladder
whose rungs have their times. What could not be killed is named."""

import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, TypeAlias

from pullcord.killswitch.flags import Whose
from pullcord.warden.fences import Fence
from pullcord.warden.holder import GO
from pullcord.warden.kernel import is_alive, send
from pullcord.warden.wire import Message

Rung: TypeAlias = Literal["", "terminated", "killed", "abandoned"]
_KILL_S: Final = 2.0  # how long the kernel may take to bury what was killed
_LOOK_S: Final = 0.002  # how often is looked whether it has

Report: TypeAlias = Callable[[Message], None]


class Tree:
    """Made when a call is asked for; over when nothing of it is left, or it is given up."""

    def __init__(
        self,
        call: str,
        fence: Fence,
        line: socket.socket,
        report: Report,
        strays: Callable[[], set[int]],
    ) -> None:
        """`strays`: who is left of trees whose holder was killed."""
        self.call, self.fence, self.line = call, fence, line
        self.whose: list[Whose] = []
        self.run, self.epoch = "", 0  # whom it is for, and by which licence
        self._strays = strays
        self.holder = 0
        self.rung: Rung = ""
        self.is_over = False
        self._report = report
        self._began = False
        self._is_started = False  # the holder has forked the tool: there is somebody to signal
        self._is_holder_gone = False
        self._why = ""
        self._told: set[int] = set()  # who was sent a SIGTERM
        self._status: int | None = None
        self._left = 0
        self._is_killing = False
        self._why = ""  # who has it killed, if it is not its run
        self._is_frozen = False
        self._wants_frozen = False
        self._is_suspended = False  # whoever it is for may not act now
        self._is_at_gate = False  # it is ready to start, and may not yet
        self._order = 0
        self._heard = b""
        self._due: float | None = None
        self._give_up_at = 0.0
        self._asked_at = 0.0
        self._ms: dict[str, float] = {}  # rung → when it was reached, after the stop was asked for
        line.setblocking(False)

    @property
    def due(self) -> float | None:
        """When `tick` wants to be called."""
        return self._due

    @property
    def is_silent(self) -> bool:
        """Nothing more is to be heard from its holder."""
        return self._is_holder_gone

    # --- orders ---

    def stop(self, grace_s: float) -> None:
        """SIGTERM to all of it; SIGKILL when the time is over."""
        if self.rung or self.is_over:
            return
        if self._is_suspended:  # it cannot be let run to hear a SIGTERM
            self.hurry()
            return
        self._asked_at = time.monotonic()
        if not self._began:
            self._end(why="stopped before it began")
            return
        self._reach("terminated")
        if self._is_started:
            self._terminate()
        self._due = self._asked_at + max(grace_s, 0.0)

    def _terminate(self) -> None:
        untold = self._members() - self._told
        send(untold, signal.SIGTERM)
        self.thaw()
        send(untold, signal.SIGCONT)  # what stands still hears nothing
        self._told |= untold

    def hurry(self, why: str = "") -> None:
        """The second press: SIGKILL now. `why`: what is to be said about it."""
        if not self.is_over and not self._is_killing:
            self._why = why
            self._asked_at = self._asked_at or time.monotonic()
            if not self._began:
                self._end(why=why or "stopped before it began")
            else:
                self._reach("killed")
                self._kill()

    def freeze(self, number: int = 0) -> None:
        """Let nothing of it run. Said when it holds, with the number of the order."""
        self._wants_frozen = True
        self._is_frozen = False
        self._order = number or self._order
        if not self.rung:
            self._hold_still()

    def thaw(self) -> None:
        self._wants_frozen = False
        if not self._is_suspended:
            self._let_run()

    def suspend(self) -> None:
        """Whoever it is for may not act now: nothing of it runs, nor starts, until `resume`."""
        if not self._is_suspended:
            self._is_suspended = True
            self._is_frozen = False
            self._hold_still()

    def resume(self) -> None:
        if not self._is_suspended:
            return
        self._is_suspended = False
        if self._is_at_gate:
            self._go()
        if not self._wants_frozen:
            self._let_run()

    def _hold_still(self) -> None:
        if self._is_started and not self._is_killing and not self.is_over:
            with suppress(OSError):
                self.fence.freeze(self.holder)
            self._due = time.monotonic() if not self.rung else self._due

    def _let_run(self) -> None:
        self._is_frozen = False
        if self._is_started and not self._is_killing:
            with suppress(OSError):
                self.fence.thaw(self.holder)
            if not self.rung:
                self._due = None

    # --- what the holder says ---

    def hear(self, *, refuse: str) -> None:
        """Read the holder's line. `refuse`: why nothing may start now, if so."""
        try:
            heard = self.line.recv(4096)
        except BlockingIOError:
            return None
        except OSError:
            heard = b""
        if not heard:
            return self._holder_is_gone()
        *lines, self._heard = (self._heard + heard).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"), refuse)
        return None

    def _take(self, said: str, refuse: str) -> None:
        word, _, rest = said.partition(" ")
        if word == "ready" and not self.is_over:
            self.holder = int(rest)
            if refuse:
                return self._end(why=refuse)
            if self._is_suspended:
                self._is_at_gate = True
            else:
                self._go()
        elif word == "started":
            self._is_started = True
            if self._is_suspended:
                self._hold_still()
            elif self.rung == "terminated":
                self._terminate()
            elif self._wants_frozen:
                self.freeze()
        elif word == "exit":
            status, left = rest.split()
            self._status = int(status)
            if left == "0":
                return self._end()
            if self.rung == "terminated" and not self._is_killing:
                self._terminate()  # whom it has forked meanwhile; the rest has its grace
            elif not self._is_killing:
                self._left = len(self._members())
                self._kill()
        elif word == "failed":
            self._end(why=rest)
        return None

    def _go(self) -> None:
        self._is_at_gate, self._began = False, True
        with suppress(OSError):
            self.line.send(GO)
        self._report({"call": self.call, "is": "began", "pid": self.holder})

    def _holder_is_gone(self) -> None:
        """It ended by itself, or something has killed it. What it held is killed."""
        if self.is_over or self._is_holder_gone:
            return
        self._is_holder_gone = True
        if not self._began:
            self._end(why="its holder could not be started")
        else:
            self._kill()

    # --- time ---

    def tick(self, now: float) -> None:
        self._due = None
        if self.is_over:
            return None
        if self._is_killing:
            return self._bury(now)
        if self.rung == "terminated":
            self._reach("killed")
            if self._status is not None:
                self._left = len(self._members())
            return self._kill()
        if (self._wants_frozen or self._is_suspended) and not self._is_frozen:
            if self.fence.is_frozen(self.holder):
                self._is_frozen = True
                if self._wants_frozen:
                    self._report({"call": self.call, "is": "frozen", "n": self._order})
            else:
                self._hold_still()
                self._due = now + _LOOK_S
        return None

    def _kill(self) -> None:
        now = time.monotonic()
        if not self._is_killing:
            self._is_killing = True
            self._give_up_at = now + _KILL_S
        self._strike()
        self._due = now + _LOOK_S / 4

    def _strike(self) -> None:
        if not self._is_started and not self._is_holder_gone:
            send([self.holder], signal.SIGKILL)  # before it forks, or just after
        with suppress(OSError):
            self.fence.kill(self.holder)
        if self._is_holder_gone or not is_alive(self.holder):
            send(self._strays(), signal.SIGKILL)

    def _bury(self, now: float) -> None:
        left = self._members()
        if not left and self._is_holder_gone:
            lost = self._status is None and not self.rung
            self._end(why="its holder was killed" if lost else "")
        elif now >= self._give_up_at:
            self._reach("abandoned")
            self._end(survivors=sorted(left))
        else:
            self._strike()
            self._due = now + _LOOK_S

    def _members(self) -> set[int]:
        found = self.fence.members(self.holder) if self.holder else set[int]()
        if self._is_holder_gone:  # whom it had adopted is the warden's child now, or soon
            found |= {self.holder} if is_alive(self.holder) else self._strays()
        return found

    # --- the end ---

    def _reach(self, rung: Rung) -> None:
        self.rung = rung
        self._ms[rung] = round((time.monotonic() - self._asked_at) * 1000, 1)

    def _end(self, *, why: str = "", survivors: list[int] | None = None) -> None:
        self.is_over = True
        self._due = None
        self.line.close()
        if self.holder and is_alive(self.holder):
            send([self.holder], signal.SIGKILL)
        self._report(
            {
                "call": self.call,
                "is": "ended",
                "began": self._began,
                "status": self._status,
                "rung": self.rung,
                "left": self._left,
                "survivors": survivors or [],
                "ladder_ms": self._ms,
                "why": why or self._why,
            }
        )
