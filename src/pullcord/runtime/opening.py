"""`pullcord.open`: a store, and the agents that this process knows."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import cast

from pullcord.core.text.screening import Guard
from pullcord.core.text.secrets import Registered, Secrets
from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.runtime.agents import AgentConfig, Foreign, Function
from pullcord.runtime.engine import Engine
from pullcord.runtime.hooks.hook import Notify, OnStop, hooks_of
from pullcord.runtime.inside_tool import InsideTool, is_elsewhere
from pullcord.runtime.policy import Policies
from pullcord.runtime.runtime import Runtime
from pullcord.runtime.services import Timing


def open_runtime(
    path: str | os.PathLike[str],
    *,
    agents: Mapping[str, "AgentConfig | Function | Foreign"] | None = None,
    clock: Clock | None = None,
    timing: Timing | None = None,
    only: str | None = None,
    tools: Policies | None = None,
    notify: Notify | Collection[Notify] | None = None,
    on_stop: OnStop | Collection[OnStop] | None = None,
    guards: Sequence[Guard] = (),
    secrets: Registered | None = None,
    redact: bool | Iterable[str] = False,
    engine: Engine | None = None,
) -> Runtime:
    """Return a runtime over the store at `path`. `async with` opens it: before, there is no file
    and no thread. A store that is not there is made; `":memory:"` keeps nothing.

    With `agents`, runs of those agents are driven here, at once: new ones, ones that were given
    back, and ones whose process has died; with `only`, nothing but that run and its children.
    `tools` has policies by name for tools that do not declare their own. `notify` is told
    (a `Notice`) when an approval is asked for, `on_stop` (a `Moved`) whenever a run of this store
    moves into work or out of it: functions, called in a thread of their own, or `Webhook`s; see
    `pullcord.hooks`. `guards` watch over what every run says, before
    anybody sees it; an `AgentConfig` may have more of its own.

    `secrets` (values by name, or what gives them; see `core/text/secrets.py`) are written nowhere:
    `{{secret:NAME}}` stands in their place, also for models, and a call with that in its arguments
    is made with the value. `redact` also hides what looks like a credential: best effort.

    `engine` brings the runs of these agents to a process that drives them, if this process is not
    to take up all that it finds: see `pullcord.engines`.

    In the process of a tool nothing is opened: a runtime that is used there raises `StartedInTool`.

    Entering it raises `StoreRefused` if the path cannot serve as a store.

    Raises:
        InvalidInput: something that was given cannot be used, like a secret that cannot be told
            from other text.
    """
    if is_elsewhere():
        return cast("Runtime", InsideTool())
    timing = timing or Timing()
    hooks = hooks_of(notify, on_stop, within_s=timing.hook_s)
    kept = Secrets(secrets, redact=redact)
    return Runtime(
        partial(Journal.open, path, clock=clock, secrets=kept),
        agents=agents,
        clock=clock,
        timing=timing,
        only=only,
        tools=tools,
        hooks=hooks,
        guards=guards,
        engine=engine,
    )
