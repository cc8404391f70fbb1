"""Where a run is driven: what a driver needs of the runtime around it, and how patient that is."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pullcord.core.text.secrets import Secrets
from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.killswitch.flags import Whose
from pullcord.runtime.alarms import Alarms
from pullcord.runtime.control_thread import ControlThread
from pullcord.runtime.licence import Licence
from pullcord.runtime.policy import Policies
from pullcord.runtime.policy_names import PolicyNames
from pullcord.runtime.processes.started_work import StartedWork
from pullcord.runtime.processes.warden_client import Processes
from pullcord.runtime.switch_watch import SwitchWatch
from pullcord.runtime.watching.observer import Observer


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How patient a runtime is. Seconds."""

    park_after_s: float = 60.0  # how long a run at rest is kept in memory
    lease_s: float = 30.0  # how long a silent process keeps its runs, and may act for them
    lapse_kill_s: float = 0.0  # after a lapse, until frozen tools are killed; 0: never
    stop_grace_s: float = 2.0  # how long a step may take to heed a cancel before the next rung
    hook_s: float = 10.0  # how long a hook may take to be told something
    hook_retry_s: float = 1.0  # how long to wait before it is told again; twice as long each time
    release_s: float = 10.0  # how long each `ctx.defer` may take to release what it holds
    shutdown_grace_s: float = 5.0  # how long steps may go on when the runtime closes
    hold_s: float = 10.0  # how long a pause lets a model finish its answer, unseen, before a cut
    quiet_s: float = 0.02  # how long nothing must happen before a run is called waiting
    retry_storage_s: float = 0.5
    breath_s: float = 0.005  # how long housekeeping rests before it looks again
    blocked_after_s: float = 0.5  # how long code may hold the event loop unnamed; 0: for ever
    watch_starts: bool = True  # see what steps start (`start_hooks`); else only steps are cut
    killable: bool = False  # the kill switch may end this process, if nothing less stops it
    fence: str = "auto"  # what holds process tools, or the best there is: see `warden.fences`


class Services(Protocol):
    """What a driver needs of the runtime around it."""

    journal: Journal
    clock: Clock
    alarms: Alarms
    timing: Timing
    owner: str
    processes: Processes
    policies: Policies
    policy_names: PolicyNames
    secrets: Secrets
    observer: Observer | None

    @property
    def switch(self) -> SwitchWatch: ...
    @property
    def licence(self) -> Licence: ...
    @property
    def control(self) -> ControlThread: ...
    @property
    def agents(self) -> Mapping[str, object]: ...
    def set_timer(self, due_ms: int) -> None: ...
    def waits_for(self, task: "asyncio.Task[Any]", /) -> None: ...
    def mind(
        self, whose: list[Whose], what: str, goes_on: Callable[[], bool] | StartedWork, /
    ) -> None: ...
