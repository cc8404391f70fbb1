"""Calls of tools that Pydantic AI knows, under the policies that this runtime knows."""

import inspect
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from pydantic_ai import ModelRetry, RunContext, ToolDenied
from pydantic_ai import messages as m
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_ai.toolsets.function import FunctionToolset, FunctionToolsetTool
from pydantic_core import PydanticSerializationError, to_jsonable_python

from pullcord.adapters import (
    AgentRun,
    Conversation,
    Natively,
    ResultLost,
    RunIn,
    ToolRequest,
    as_declared,
    can_be_shipped,
    dump,
    load,
)
from pullcord.adapters import ToolFailed as ProcessFailed
from pullcord.agents.pydantic_ai.dialect import call_parts, spawn_key
from pullcord.agents.pydantic_ai.messages import return_of, shipped_return, stored_return
from pullcord.agents.pydantic_ai.outcomes import raised_by, timed_out_in
from pullcord.agents.pydantic_ai.shipped_context import carried, run_context
from pullcord.agents.pydantic_ai.subagents import delegate_of
from pullcord.errors import NotDone, RunCancelled, RunFailed, RunStopped, StepError, Unstorable
from pullcord.tools import Policy, Tool


class Supervised(WrapperToolset[Any]):
    """Every call of every tool of an agent, as a step of its run."""

    def __init__(
        self,
        wrapped: AbstractToolset[Any],
        run: AgentRun,
        talk: Conversation[m.ModelMessage],
    ) -> None:
        super().__init__(wrapped)
        self._run, self._talk = run, talk

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
        return Supervised(wrapped, self._run, self._talk)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await super().get_tools(ctx)
        names = [name for name, tool in tools.items() if not delegate_of(_function_of(tool))]
        self._run.has_tools(names)
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        call_id = ctx.tool_call_id or name
        if other := delegate_of(_function_of(tool)):
            return await self._delegated(other, tool_args, call_id)
        step = self._run.step_id(
            "", *call_parts(self._talk.key, call_id, approved=ctx.tool_call_approved)
        )
        return await self._supervised(
            _Call(name, tool_args, ctx, tool, self.wrapped, self._run), step
        )

    async def _supervised(self, call: "_Call", step: str) -> Any:
        try:
            result = await self._run.call_tool(call.request(step))
        except NotDone as told:
            if told.outcome == "denied":
                return ToolDenied(f"denied: {told.why}")
            raise ToolFailed(f"{told.outcome}: {told.why}") from None
        except StepError as failed:
            if call.times_out_for_the_model and timed_out_in(failed):
                raise ModelRetry(f"Timed out after {call.timeout_s} seconds.") from None
            raise raised_by(failed) from None
        return call.given if call.is_given else call.typed(return_of(result))

    async def _delegated(self, other: Any, args: dict[str, Any], call_id: str) -> Any:
        """An agent that is called as a tool is a run of its own, under this one."""
        key, ctx = spawn_key(self._talk.key, call_id), self._run.ctx
        try:
            if not ctx.has_spawned(other, key=key):
                self._run.refuse_if_told(call_id)
            child = await ctx.spawn(other, args["prompt"], key=key)
            return await child.result()
        except NotDone as told:
            raise ToolFailed(f"{told.outcome}: {told.why}") from None
        except RunStopped as stopped:
            raise ToolFailed(f"stopped: it has used up {', '.join(stopped.leaves)}") from None
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
        run: AgentRun,
    ) -> None:
        self.name, self.args, self.ctx, self.tool = name, args, ctx, tool
        self._toolset = toolset
        self._leaf = _leaf(tool)
        self._secrets = run.secrets
        self.given: Any = None  # what came out of it in this life, as it was
        self.is_given = False
        self.function: Any = _function_of(tool)
        self.plain_args: dict[str, Any] = to_jsonable_python(args, fallback=repr)
        self._makes_deps = run.can_make_deps
        self.policy = self._policy(run)

    def request(self, step: str) -> ToolRequest:
        """The call as the runtime is asked for it."""
        return ToolRequest(
            step=step,
            call_id=self.ctx.tool_call_id or self.name,
            name=self.name,
            args=self.plain_args,
            policy=self.policy,
            run_in=self.run_in,
            perform=self.perform,
            accept=self.validated,
            function=self.raw,
            declared=self.declared,
            carries=(carried(self.ctx), run_context) if _takes_run(self._leaf) else None,
        )

    @property
    def declared(self) -> Tool[..., Any] | None:
        """The tool of ours that it is, if it was declared as one."""
        found: Any = self.function
        return found if isinstance(found, Tool) else None  # pyright: ignore[reportUnknownVariableType]

    @property
    def raw(self) -> Any:
        return self.declared.function if self.declared else self.function

    @property
    def times_out_for_the_model(self) -> bool:
        """Whether its time is limited by Pydantic AI, whose models are told to try again."""
        theirs = _timeout_of(self._leaf)
        return theirs is not None and theirs == self.timeout_s

    @property
    def timeout_s(self) -> float | None:
        return self.policy.timeout_s

    def _policy(self, run: AgentRun) -> Policy:
        """Declared by the tool itself, by its name in the runtime's policies, or not at all. What
        Pydantic AI wants to have approved is approved here; so is its time limited."""
        policy = self.declared.policy if self.declared else run.policy(self.name)
        if self.ctx.tool_call_approved and policy.approve == "never":
            policy = replace(policy, approve="always")
        limits = [s for s in (policy.timeout_s, _timeout_of(self._leaf)) if s is not None]
        return replace(policy, timeout_s=min(limits)) if limits else policy

    @cached_property
    def run_in(self) -> RunIn:
        """Where it is carried out: what cannot be shipped to a process runs in a thread, which
        cannot be stopped, and that is recorded before it begins."""
        leaf = self._leaf
        if not isinstance(leaf, FunctionToolsetTool):
            return "remote" if _is_remote(leaf) else "loop"
        if leaf.is_async:
            is_asked_for = self.policy.run_in == "process" and self._can_be_shipped()
            return "process" if is_asked_for else "loop"
        wants_thread = self.policy.run_in == "thread"
        return "thread" if wants_thread or not self._can_be_shipped() else "process"

    def _can_be_shipped(self) -> bool:
        """Whether another process can find the function, and makes the same of the arguments."""
        if not can_be_shipped(self.raw) or (_takes_run(self._leaf) and not self._may_lose_run()):
            return False
        kinds = [parameter.kind for parameter in inspect.signature(self.raw).parameters.values()]
        if inspect.Parameter.VAR_KEYWORD in kinds:
            return False
        return _is_same(as_declared(self.raw, self.plain_args), self.args)

    def _may_lose_run(self) -> bool:
        """Whether its `RunContext` may be made again elsewhere: that was asked for, and another
        process can make its `deps`."""
        makes = self._makes_deps
        can_be_made = self.ctx.deps is None or (makes is not None and can_be_shipped(makes))
        return self.policy.run_in == "process" and can_be_made

    async def perform(self, args: dict[str, Any], natively: Natively) -> Any:
        """Have it carried out as Pydantic AI does, through all its toolsets; only the function
        itself is called our way, if it was declared as ours or has a process of its own."""

        async def call(given: dict[str, Any], ctx: RunContext[Any]) -> Any:
            try:
                value = await natively(to_jsonable_python(given, fallback=repr))
            except ProcessFailed as failed:
                raise raised_by(StepError(self.name, error=failed.error), failed) from None
            if type(value).__module__ == m.__name__:
                return value
            return self.typed(shipped_return(load(dump(value)), natively.kind))

        is_ours = self.declared is not None or self.run_in == "process"
        tool = _with_call(self.tool, call if is_ours else None)
        accepted = await self._accepted(args)
        try:
            given = await self._toolset.call_tool(self.name, accepted, self.ctx, tool)
            stored = stored_return(given)
        except (PydanticSerializationError, Unstorable) as error:
            why = f"it happened, but its result cannot be stored: {error}"
            raise ResultLost(why) from None
        # With a secret in it, its model is told what every later life is told: what is stored.
        self.given, self.is_given = given, not self._secrets.may_be_in(bytes(dump(stored)))
        return stored

    async def _accepted(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the tool wants them. Those that somebody has edited are validated like
        those of the model."""
        if args == self.plain_args:
            return self.args
        given = self.validated(args)
        if self.tool.args_validator_func is not None:
            said = self.tool.args_validator_func(self.ctx, **given)
            if inspect.isawaitable(said):
                await said
        return given

    def validated(self, args: dict[str, Any]) -> dict[str, Any]:
        context = self.ctx.validation_context
        return self.tool.args_validator.validate_python(args, context=context)

    def typed(self, value: Any) -> Any:
        """What came back as JSON, as the type that the function declares to return."""
        if self.raw is None:
            return value
        made = as_declared(self.raw, {"return": value})["return"]
        return made if _is_same(to_jsonable_python(made, fallback=repr), value) else value


def _is_same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # then nobody can say
        return False


def _leaf(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    """The tool itself, below whatever combines, renames or prefixes it."""
    while (inner := getattr(tool, "source_tool", None)) is not None:
        tool = inner
    return tool


def _with_call(
    tool: ToolsetTool[Any],
    call: Callable[[dict[str, Any], RunContext[Any]], Awaitable[Any]] | None,
) -> ToolsetTool[Any]:
    """The same tool, called in this way, its time limited by nobody but the runtime."""
    changes: dict[str, Any] = {"tool_def": replace(tool.tool_def, timeout=math.inf)}
    if (inner := getattr(tool, "source_tool", None)) is not None:
        changes["source_tool"] = _with_call(inner, call)
    elif not isinstance(tool, FunctionToolsetTool):
        return tool
    elif call is not None:
        changes["call_func"] = call
    return replace(tool, **changes)


def _function_of(tool: ToolsetTool[Any]) -> Any:
    return getattr(_schema_of(_leaf(tool)), "function", None)


def _takes_run(leaf: ToolsetTool[Any]) -> bool:
    return bool(getattr(_schema_of(leaf), "takes_ctx", False))


def _schema_of(leaf: ToolsetTool[Any]) -> Any:
    """What Pydantic AI knows about a function: it is bound to what calls it."""
    if not isinstance(leaf, FunctionToolsetTool):
        return None
    called: Any = leaf.call_func
    return getattr(called, "__self__", None)


def _timeout_of(leaf: ToolsetTool[Any]) -> float | None:
    if not isinstance(leaf, FunctionToolsetTool):
        return None
    home = _home(leaf.toolset)
    by_default = home.timeout if isinstance(home, FunctionToolset) else None
    return leaf.tool_def.timeout if leaf.tool_def.timeout is not None else by_default


def _home(toolset: Any) -> Any:
    """The toolset itself, below whatever wraps it."""
    while isinstance(toolset, WrapperToolset):
        toolset = toolset.wrapped  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return toolset  # pyright: ignore[reportUnknownVariableType]


def _is_remote(leaf: ToolsetTool[Any]) -> bool:
    """Whether somebody else carries it out, who can only be asked to stop."""
    return "mcp" in type(_home(leaf.toolset)).__module__.lower()
