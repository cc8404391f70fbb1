"""The cord that stops an AI agent: pause, redirect, resume or cancel it without losing state.

Names are loaded when they are first used: a command that only pauses a run needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullcord import adapters as adapters
    from pullcord import engines as engines
    from pullcord import errors as errors
    from pullcord import events as events
    from pullcord import guard as guard
    from pullcord import hooks as hooks
    from pullcord import limits as limits
    from pullcord import options as options
    from pullcord import runs as runs
    from pullcord import tools as tools
    from pullcord.core.acks import Ack
    from pullcord.core.calls import Call, ToolContext
    from pullcord.core.events import Event, Record
    from pullcord.core.receipts import Receipt
    from pullcord.core.run import Run
    from pullcord.core.states import RunState
    from pullcord.errors import (
        Interrupted,
        NotDone,
        PullcordError,
        RunCancelled,
        RunFailed,
        RunStopped,
        StepError,
    )
    from pullcord.runtime.agents import AgentConfig
    from pullcord.runtime.context import Context, PlanStep
    from pullcord.runtime.handle import RunHandle
    from pullcord.runtime.opening import open_runtime as open
    from pullcord.runtime.policy import Retry, always, shell, tool
    from pullcord.runtime.processes.started_work import shared
    from pullcord.runtime.runtime import Runtime
    from pullcord.runtime.services import Timing

__version__ = "0.2.0.dev0"

_HOME = {
    "Ack": "core.acks",
    "AgentConfig": "runtime.agents",
    "Call": "core.calls",
    "Context": "runtime.context",
    "Event": "core.events",
    "Timing": "runtime.services",
    "Interrupted": "errors",
    "NotDone": "errors",
    "PlanStep": "runtime.context",
    "PullcordError": "errors",
    "Receipt": "core.receipts",
    "Record": "core.events",
    "Retry": "runtime.policy",
    "Run": "core.run",
    "RunCancelled": "errors",
    "RunFailed": "errors",
    "RunHandle": "runtime.handle",
    "RunState": "core.states",
    "RunStopped": "errors",
    "Runtime": "runtime.runtime",
    "StepError": "errors",
    "ToolContext": "core.calls",
    "always": "runtime.policy",
    "open": "runtime.opening",
    "shared": "runtime.processes.started_work",
    "shell": "runtime.policy",
    "tool": "runtime.policy",
}

_RENAMED = {"Agent": "AgentConfig", "Habits": "Timing"}
_MODULES = (
    "adapters",
    "engines",
    "errors",
    "events",
    "guard",
    "hooks",
    "limits",
    "options",
    "runs",
    "tools",
)

__all__ = [
    "Ack",
    "AgentConfig",
    "Call",
    "Context",
    "Event",
    "Interrupted",
    "NotDone",
    "PlanStep",
    "PullcordError",
    "Receipt",
    "Record",
    "Retry",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunHandle",
    "RunState",
    "RunStopped",
    "Runtime",
    "StepError",
    "Timing",
    "ToolContext",
    "always",
    "open",
    "shared",
    "shell",
    "tool",
]


def __dir__() -> list[str]:
    """The public names: what a shell completes."""
    return [*__all__, *_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pullcord.{name}")
    if name in _RENAMED:
        raise AttributeError(f"pullcord.{name} is called pullcord.{_RENAMED[name]} now")
    if name not in _HOME:
        raise AttributeError(f"module 'pullcord' has no attribute {name!r}")
    module = import_module(f"pullcord.{_HOME[name]}")
    value = getattr(module, "open_runtime" if name == "open" else name)
    globals()[name] = value
    return value
