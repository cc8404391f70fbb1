"""`pullcord.open`: a store, and the agents that this process knows."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import cast

from pullcord.core.screening import Guard
from pullcord.core.secrets import Registered, Secrets
from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.runtime.agents import Agent, Foreign, Function
from pullcord.runtime.elsewhere import Elsewhere, is_elsewhere
from pullcord.runtime.hooks import Notify, OnStop, hooks_of
from pullcord.runtime.runtime import Runtime
from pullcord.runtime.site import Habits
from pullcord.runtime.tools import Policies


def open_runtime(
    path: str | os.PathLike[str],
    *,
    agents: Mapping[str, "Agent | Function | Foreign"] | None = None,
    clock: Clock | None = None,
    habits: Habits | None = None,
    only: str | None = None,
    tools: Policies | None = None,
    notify: Notify | Collection[Notify] | None = None,
    on_stop: OnStop | Collection[OnStop] | None = None,
    guards: Sequence[Guard] = (),
    secrets: Registered | None = None,
    redact: bool | Iterable[str] = False,
) -> Runtime:
    """Return a runtime over the store at `path`. `async with` opens it: before, there is no file
    and no thread. A store that is not there is made; `":memory:"` keeps nothing.

    With `agents`, runs of those agents are driven here, at once: new ones, ones that were given
    back, and ones whose process has died; with `only`, nothing but that run and its children.
    `tools` has policies by name for tools that do not declare their own. `notify` is told
    (a `Notice`) when an approval is asked for, `on_stop` (a `Moved`) whenever a run of this store
    moves into work or out of it: functions, called in a thread of their own, or `Webhook`s; see
    `pullcord.hooks`. `guards` watch over what every run says, before
    anybody sees it; an `Agent` may have more of its own.

    `secrets` (values by name, or what gives them; see `core/secrets.py`) are written nowhere:
    `{{secret:NAME}}` stands in their place, also for models, and a call with that in its arguments
    is made with the value. `redact` also hides what looks like a credential: best effort.

    In the process of a tool nothing is opened: a runtime that is used there raises `StartedInTool`.

    Entering it raises `StoreRefused` if the path cannot serve as a store.

    Raises:
        InvalidInput: something that was given cannot be used, like a secret that cannot be told
            from other text.
    """
    if is_elsewhere():
        return cast("Runtime", Elsewhere())
    habits = habits or Habits()
    hooks = hooks_of(notify, on_stop, within_s=habits.hook_s)
    kept = Secrets(secrets, redact=redact)
    return Runtime(
        partial(Journal.open, path, clock=clock, secrets=kept),
        agents=agents,
        clock=clock,
        habits=habits,
        only=only,
        tools=tools,
        hooks=hooks,
        guards=guards,
    )
