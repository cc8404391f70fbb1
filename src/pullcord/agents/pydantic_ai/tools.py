"""Calls of tools that Pydantic AI knows, under the policies that this runtime knows."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
from pydantic_ai import ModelRetry, RunContext, ToolDenied
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_ai.toolsets.function import FunctionToolsetTool
from pydantic_core import to_jsonable_python

from pullcord.agents.pydantic_ai.conversation import Conversation, call_step
from pullcord.agents.pydantic_ai.messages import return_of, stored_return
from pullcord.agents.pydantic_ai.subagents import delegate_of
from pullcord.core.events import Event, RunIn
from pullcord.core.run import Run
from pullcord.core.values import load
from pullcord.errors import InvalidInput, NotDone, RunCancelled, RunFailed, StepError
from pullcord.runtime.calling import ToolCall
from pullcord.runtime.context import Context
from pullcord.runtime.driver import Driver
from pullcord.runtime.identity import Identity
from pullcord.runtime.modelling import is_told
from pullcord.runtime.processes import address_of
from pullcord.runtime.steps import carry_out
from pullcord.runtime.tools import Policy, Tool, policy_of

Perform = Callable[[dict[str, Any]], Awaitable[Any]]
_TOLD: Final = "somebody said something new before this call began."


class Supervised(WrapperToolset[Any]):
    """Every call of every tool of an agent, as a step of its run."""

    def __init__(
        self, wrapped: AbstractToolset[Any], ctx: Context, driver: Driver, talk: Conversation
    ) -> None:
        super().__init__(wrapped)
        self._ctx, self._driver, self._talk = ctx, driver, talk

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        return self._around(await self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        return self._around(await self.wrapped.for_run_step(ctx))

    def visit_and_replace(
        self, visitor: Callable[[AbstractToolset[Any]], AbstractToolset[Any]]
    ) -> AbstractToolset[Any]:
        return self._around(self.wrapped.visit_and_replace(visitor))

    def _around(self, wrapped: AbstractToolset[Any]) -> "Supervised":
        if wrapped is self.wrapped:
            return self
        return Supervised(wrapped, self._ctx, self._driver, self._talk)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        call_id = ctx.tool_call_id or name
        step = call_step(self._talk.number, call_id, approved=ctx.tool_call_approved)
        if step not in self._driver.memory.steps and is_told(self._driver.run):
            raise ToolFailed(f"not_started: {_TOLD}")
        if other := delegate_of(_function_of(tool)):
            return await self._delegated(other, tool_args, call_id)
        call = _Call(name, tool_args, ctx, tool, self.wrapped)
        return await self._supervised(call, Identity(step, name, "", call_id, 0))

    async def _supervised(self, call: "_Call", who: Identity) -> Any:
        driver = self._driver
        run_in, perform = call.place(), call.perform
        tool = _Foreign(call, _policy(call, driver))
        made = ToolCall(
            driver, tool, who, call.plain_args, deps=self._ctx.deps, perform=perform, run_in=run_in
        )

        def unless_told(run: Run) -> list[Event]:
            """Decided with the intent itself: no call begins after somebody said something."""
            if who.id not in run.steps and is_told(run):
                raise NotDone(call.name, outcome="not_started", why=_TOLD)
            return []

        try:
            result = await carry_out(
                driver, msgspec.structs.replace(made.wish(), with_it=unless_told)
            )
        except NotDone as told:
            if told.outcome == "denied":
                return ToolDenied(f"denied: {told.why}")
            raise ToolFailed(f"{told.outcome}: {told.why}") from None
        except StepError as failed:
            raise failed.__cause__ or failed from None
        if run_in == "process":
            return result
        return _unpacked(result, call)

    async def _delegated(self, other: Any, args: dict[str, Any], call_id: str) -> Any:
        """An agent that is called as a tool is a run of its own, under this one."""
        child = await self._ctx.spawn(other, args["prompt"], key=f"{self._talk.number}-{call_id}")
        try:
            return await child.result()
        except RunFailed as failed:
            raise ToolFailed(f"failed: {failed}") from None
        except RunCancelled as cancelled:
            raise ToolFailed(f"interrupted: {cancelled}") from None


class _Call:
    """One call as Pydantic AI makes it, its arguments validated."""

    def __init__(
        self,
        name: str,
        args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
        toolset: AbstractToolset[Any],
    ) -> None:
        self.name, self.args, self.ctx, self.tool = name, args, ctx, tool
        self._toolset = toolset
        self.given: Any = None  # what came out of it in this life, as it was
        self.function: Any = _function_of(tool)
        self.plain_args: dict[str, Any] = to_jsonable_python(args, fallback=repr)

    @property
    def declared(self) -> Tool[..., Any] | None:
        """The tool of ours that it is, if it was declared as one."""
        found: Any = self.function
        return found if isinstance(found, Tool) else None  # pyright: ignore[reportUnknownVariableType]

    @property
    def raw(self) -> Any:
        return self.declared.function if self.declared else self.function

    def place(self) -> RunIn:
        """Where it is carried out: what cannot be shipped to a process runs in a thread, which
        cannot be stopped, and that is recorded before it begins."""
        leaf = _leaf(self.tool)
        if not isinstance(leaf, FunctionToolsetTool):
            return "remote" if _is_remote(leaf) else "loop"
        if self.declared and self.declared.policy.run_in:
            return self.declared.policy.run_in
        if leaf.is_async:
            return "loop"
        takes_run = bool(getattr(_schema_of(leaf), "takes_ctx", False)) and not self.declared
        is_plain = load_or_none(self.plain_args) == self.args
        can_ship = address_of(self.raw) is not None and not takes_run and is_plain
        return "process" if can_ship else "thread"

    async def perform(self, args: dict[str, Any]) -> Any:
        """Have it carried out as Pydantic AI does. What it says to the model is an outcome."""
        given = self.args if args == self.plain_args else args  # somebody has edited them
        try:
            self.given = await self._toolset.call_tool(self.name, given, self.ctx, self.tool)
        except ModelRetry as retry:
            return {"retry": retry.message}
        except ToolFailed as failed:
            return {"failed": failed.message}
        except ApprovalRequired:
            return {"deferred": "approval"}
        except CallDeferred:
            return {"deferred": "call"}
        return {"return": load(stored_return(self.given))}


class _Foreign(Tool[..., Any]):
    """A tool of another library: its arguments are checked by that library."""

    def __init__(self, call: _Call, policy: Policy) -> None:
        self.__pullcord_tool__ = call.raw or call.perform
        self.function = call.raw or call.perform
        self.name, self.policy, self.insists = call.name, policy, False
        self._call = call

    def accept(self, args: dict[str, Any]) -> dict[str, Any]:
        try:
            self._call.tool.args_validator.validate_python(args)
        except ValueError as error:
            raise InvalidInput(f"Tool {self.name!r} cannot be called like that: {error}") from None
        return args


def _policy(call: _Call, driver: Driver) -> Policy:
    """Declared by the tool itself, by its name in the runtime's policies, or not at all. What
    Pydantic AI wants to have approved is approved here."""
    declared = (
        call.declared.policy
        if call.declared
        else policy_of(driver.site.policies.get(call.name, Policy()))
    )
    if call.ctx.tool_call_approved and declared.approve == "never":
        return replace(declared, approve="always")
    return declared


def _unpacked(result: Any, call: _Call) -> Any:
    match result:
        case {"retry": str(why)}:
            raise ModelRetry(why)
        case {"failed": str(why)}:
            raise ToolFailed(why)
        case {"deferred": "approval"}:
            raise ApprovalRequired
        case {"deferred": "call"}:
            raise CallDeferred
        case {"return": value}:
            return call.given if call.given is not None else return_of(value)
        case _:
            return result


def load_or_none(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return None


def _leaf(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    """The tool itself, below whatever combines, renames or prefixes it."""
    while (inner := getattr(tool, "source_tool", None)) is not None:
        tool = inner
    return tool


def _function_of(tool: ToolsetTool[Any]) -> Any:
    leaf = _leaf(tool)
    if not isinstance(leaf, FunctionToolsetTool):
        return None
    return getattr(_schema_of(leaf), "function", None)


def _schema_of(leaf: FunctionToolsetTool[Any]) -> Any:
    toolset = leaf.toolset
    if isinstance(toolset, FunctionToolset):
        known = toolset.tools.get(leaf.original_name or leaf.tool_def.name)
        return known.function_schema if known else None
    return None


def _is_remote(leaf: ToolsetTool[Any]) -> bool:
    """Whether somebody else carries it out, who can only be asked to stop."""
    return "mcp" in type(leaf.toolset).__module__.lower()
