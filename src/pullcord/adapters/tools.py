"""Calls tools of another framework under the policies of the runtime."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pullcord.core.calls import ToolContext
from pullcord.core.events import Event, RunIn
from pullcord.core.run import Run
from pullcord.errors import InvalidInput, NotDone
from pullcord.runtime.doors.model_request import is_told
from pullcord.runtime.doors.step import carry_out_step
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.policy import Policy, Tool
from pullcord.runtime.steps.identity import Identity
from pullcord.runtime.tools.tool_call import Natively, ToolCall, place_of

_OVERTAKEN: Final = "somebody said something new before this call began."
_SKIPPED: Final = "nobody knows whether it happened, and somebody chose to go on without it."


@dataclass(frozen=True, kw_only=True)
class ToolRequest:
    """A call as the framework makes it.

    - `step`: its id, which is `AgentRun.step_id` of the request's key and the call's id. A later
      run finds its fate by the same parts.
    - `call_id`: the framework's name for it.
    - `policy`: the policy of its name (`AgentRun.policy`), with the framework's own demands.
    - `args`: JSON, like the result of `perform` and of the call. So later lives see the same.
    - `function`: the user's function. With `run_in="process"` it can be shipped.
    - `perform`: has the framework carry the call out with these arguments. It calls the function
      through the `Natively` that it receives, which runs it where `run_in` or `declared` says.
    - `accept`: raises ValueError for edited arguments that the tool cannot take.
    - `declared`: the `pullcord.tool`, if it is one.
    - `carries`: the values that travel to a process in place of a `ToolContext`, and the function
      that makes the tool's context of them there, with `deps` made anew.
    """

    step: str
    call_id: str
    name: str
    args: dict[str, Any]
    policy: Policy
    perform: Callable[[dict[str, Any], Natively], Awaitable[Any]]
    accept: Callable[[dict[str, Any]], object]
    run_in: RunIn = "loop"
    function: Callable[..., Any] | None = None
    declared: Tool[..., Any] | None = None
    carries: tuple[dict[str, Any], Callable[..., Any]] | None = None


async def call_tool(live: LiveRun, request: ToolRequest, deps: Any) -> Any:
    """Return the tool's result: see `AgentRun.call_tool`."""
    step, name, seal = request.step, request.name, live.services.secrets.seal
    if step not in live.memory.steps and is_told(live.run):
        raise overtaken(name)
    who = live.memory.told_apart(Identity(step, seal(name), "", seal(request.call_id), 0))
    meant = _Foreign(request)
    live.services.policy_names.called(request.declared or meant)

    def is_overtaken(run: Run) -> bool:
        return who.id not in run.steps and is_told(run)

    call = ToolCall(
        live,
        meant,
        who,
        request.args,
        deps=deps,
        perform=request.perform,
        run_in=place_of(request.declared) if request.declared else request.run_in,
        is_overtaken=is_overtaken,
    )

    def unless_told(run: Run) -> list[Event]:
        """Refuse the intent itself: no call begins after a person said something new."""
        if is_overtaken(run):
            raise overtaken(name)
        return []

    result = await carry_out_step(live, msgspec.structs.replace(call.wish(), with_it=unless_told))
    if _was_skipped(live, who.id):
        raise NotDone(name, outcome="unknown", why=_SKIPPED)
    return result


def _was_skipped(live: LiveRun, step: str) -> bool:
    """Return whether a person chose to go on without it, in this run or one before it."""
    known, past = live.run.steps.get(step), live.memory.steps.get(step)
    return known.settled == "skip" if known is not None else past is not None and past.skipped


def overtaken(name: str) -> NotDone:
    """Return the error of a call that a new instruction overtakes."""
    return NotDone(name, outcome="not_started", why=_OVERTAKEN)


class _Foreign(Tool[..., Any]):
    """A tool of another library, which checks the arguments itself."""

    def __init__(self, request: ToolRequest) -> None:
        self.function = self.__pullcord_tool__ = request.function or request.perform
        self.name, self.policy, self.insists = request.name, request.policy, False
        self._request = request

    def shipped_context(self, context: ToolContext) -> tuple[dict[str, Any] | None, Any]:
        return self._request.carries or super().shipped_context(context)

    def accept(self, args: dict[str, Any]) -> dict[str, Any]:
        try:
            self._request.accept(args)
        except ValueError as error:
            raise InvalidInput(f"Tool {self.name!r} cannot be called like that: {error}") from None
        return args
