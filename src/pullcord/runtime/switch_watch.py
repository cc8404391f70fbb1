"""The kill switch as one runtime sees it: asked before every start, and heard of by a thread.

The thread needs neither the event loop nor the database. It shuts the sockets of model calls,
has the loop hold the runs, and answers whoever has pulled the switch: from that answer on,
nothing starts here, and what could not be stopped is named.
"""

import logging
import os
import select
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from pullcord.killswitch.asking import Asked
from pullcord.killswitch.flags import Flag, Flags, Raised, Whose
from pullcord.killswitch.presence import Present, announce, leave

_log: Final = logging.getLogger("pullcord.runtime")
_LOOK_S: Final = 0.1  # how often it looks for the flag while something is driven
_GRACE_S: Final = 0.9  # how long what is under way may take to stop before it is named
_LINGER_S: Final = 1.0  # how often it looks whether what outlives the runtime has ended
_HANDOVER_S: Final = 0.02  # for a call that was let through to have begun


class RunsToHold(Protocol):
    """What the thread needs of the runtime. Called in that thread."""

    def cut_sockets(self) -> None:
        """Shut what the model calls of held runs talk through."""
        ...

    def hold(self) -> None:
        """Have the loop hold the runs, or let them be resumed."""
        ...

    def going_on(self) -> list[tuple[str, str]]:
        """What goes on although it is held, and why."""
        ...

    @property
    def is_anything_left(self) -> bool:
        """Whether something goes on that could not be stopped, and may outlive the runtime."""
        ...


class SwitchWatch:
    """One runtime's view. `folder`: where it announces itself; empty: nobody else can know it."""

    def __init__(self, flags: Flags, who: Present, folder: str, held: RunsToHold) -> None:
        self._flags, self._who, self._folder, self._held = flags, who, folder, held
        self._raised = Raised()
        self._starting = threading.Lock()
        self._driven = 0
        self._asked = Asked("", within_s=_GRACE_S)
        self._wake = self._file = -1
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def refusal(self, *whose: Whose) -> str:
        """Why nothing may start. Looks, every time; the last look before a call is this one."""
        with self._starting:
            return self._flags.refusal(*whose)

    def covers(self, *whose: Whose) -> Flag | None:
        """The flag that holds these, as far as the thread has seen. Asked for hundreds of runs,
        many times a second: it is told from memory."""
        return self._raised.over(*whose)

    @property
    def raised(self) -> tuple[Flag, ...]:
        return self._raised.flags

    @contextmanager
    def driving(self) -> Generator[None]:
        """A run is driven here, while inside."""
        self._driven += 1
        self.look()
        try:
            yield
        finally:
            self._driven -= 1

    def look(self) -> None:
        """Have the thread look now."""
        if self._wake >= 0:
            with suppress(OSError):
                os.eventfd_write(self._wake, 1)

    # --- its life ---

    def open(self) -> None:
        """Be found by whoever pulls the switch, from here on."""
        if not self._folder:
            return
        self._asked = Asked(self._who.address, within_s=_GRACE_S)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._raised = self._flags.look()
        self._thread = threading.Thread(target=self._watch, name="pullcord-switch", daemon=True)
        self._thread.start()
        try:
            self._file = announce(self._folder, self._who)
        except OSError as error:
            why = "the kill switch still holds its runs, but nobody can see this process"
            _log.warning("%s could not be announced (%s): %s", self._who.file, error, why)

    def close(self) -> None:
        """Be found no longer; but as long as something goes on that could not be stopped, the
        thread stays and answers for it."""
        self._is_closed = True
        self.look()
        if self._thread and not self._held.is_anything_left:
            self._thread.join()

    # --- in its own thread ---

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._asked.fileno() >= 0:
            poll.register(self._asked.fileno(), select.POLLIN)
        while not self._is_closed or self._held.is_anything_left:
            poll.poll(self._patience_ms())
            with suppress(OSError):
                os.eventfd_read(self._wake)
            self._asked.hear()
            try:
                self._see()
                if self._asked.is_asked:
                    self._asked.answer(self._held.going_on())
            except Exception:  # whoever pulls it must be answered next time
                _log.exception("The kill switch was looked at in vain; it is looked at again.")
        leave(self._folder, self._who)
        if self._file >= 0:
            os.close(self._file)
        self._asked.close()
        wake, self._wake = self._wake, -1
        os.close(wake)

    def _patience_ms(self) -> float | None:
        if self._asked.is_asked:
            return 10
        if self._is_closed:
            return _LINGER_S * 1000
        return _LOOK_S * 1000 if self._driven or self._raised else None

    def _see(self) -> None:
        now = self._flags.look()
        if now.flags == self._raised.flags:
            return
        with self._starting:  # whoever was let through before this has been let through
            self._raised = now
        time.sleep(_HANDOVER_S)
        self._held.cut_sockets()
        self._held.hold()
