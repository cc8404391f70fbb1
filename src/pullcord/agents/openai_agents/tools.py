"""Makes every call of a function tool a step of the run."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from agents import FunctionTool
from agents.exceptions import ModelBehaviorError
from agents.function_schema import FuncSchema, function_schema
from agents.tool import (
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    maybe_invoke_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext

from pullcord.adapters import (
    AgentRun,
    Conversation,
    Natively,
    RunIn,
    ToolFailed,
    ToolRequest,
    as_declared,
    can_be_shipped,
    dump,
    load,
)
from pullcord.agents.openai_agents.dialect import Item, call_parts
from pullcord.errors import Interrupted, NotDone, StepError, Unstorable
from pullcord.tools import Policy

_AS_WRITTEN: Final = "arguments as the model wrote them"
_STRUCTURED = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)


def supervised(tool: FunctionTool, run: AgentRun, talk: Conversation[Item]) -> FunctionTool:
    """Return a copy of the tool whose calls pass the doors of a run.

    Only the runtime limits its time and asks for its approval.
    """

    async def invoke(ctx: ToolContext[Any], raw: str) -> Any:
        schema = _schema_of(tool)
        try:
            args = json.loads(raw or "{}")
            _arguments(schema, args)
        except ValueError as wrong:
            if schema is not None:
                return await _refused(tool, ctx, wrong)
            args = {_AS_WRITTEN: raw}  # the tool may read them all the same: it is a call
        call = _Call(tool, schema, ctx, args, run)
        try:
            return await run.call_tool(await call.request(talk.key))
        except NotDone as told:
            return f"{told.outcome}: {told.why}"
        except StepError as failed:
            return await _told(tool, ctx, failed)
        except Interrupted:
            return ""  # the SDK would report an error; the next door raises this again

    return replace(
        tool,
        on_invoke_tool=invoke,
        needs_approval=False,
        timeout_seconds=None,
        description=run.secrets.seal(tool.description),
        params_json_schema=run.secrets.seal_value(tool.params_json_schema),
    )


class _Call:
    """One call of a tool by the runner."""

    def __init__(
        self,
        tool: FunctionTool,
        schema: FuncSchema | None,
        ctx: ToolContext[Any],
        args: dict[str, Any],
        run: AgentRun,
    ) -> None:
        self._tool, self._schema, self._ctx, self._run = tool, schema, ctx, run
        self._args = args
        self._function: Any = getattr(tool, "__wrapped__", None)
        self._policy = run.policy(tool.name)
        self._run_in: RunIn = self._place()

    async def request(self, key: str) -> ToolRequest:
        """Return the call as a request to the runtime. `key`: that of the answer with the call."""
        call_id = self._ctx.tool_call_id
        return ToolRequest(
            step=self._run.step_id("", *call_parts(key, call_id)),
            call_id=call_id,
            name=self._tool.name,
            args=self._args,
            policy=await self._limited(),
            perform=self._perform,
            accept=self._accept,
            run_in=self._run_in,
            function=self._function,
        )

    async def _limited(self) -> Policy:
        """Return the policy of its name, with the approval and the timeout of the tool itself."""
        needs, policy = self._tool.needs_approval, self._policy
        if callable(needs):
            needs = await needs(self._ctx, self._args, self._ctx.tool_call_id)
        if needs and policy.approve == "never":
            policy = replace(policy, approve="always")
        times = [s for s in (policy.timeout_s, self._tool.timeout_seconds) if s is not None]
        return replace(policy, timeout_s=min(times)) if times else policy

    def _place(self) -> RunIn:
        """Return where the call runs.

        A sync function runs in a process, which can be killed, if that process finds the function
        and makes the same of the arguments. Otherwise it runs in a thread.
        """
        if self._schema is None:
            return "loop"
        wants = self._policy.run_in
        if inspect.iscoroutinefunction(self._function):
            return "process" if wants == "process" and self._can_be_shipped() else "loop"
        return "process" if wants != "thread" and self._can_be_shipped() else "thread"

    def _can_be_shipped(self) -> bool:
        assert self._schema is not None
        if self._schema.takes_context or not can_be_shipped(self._function):
            return False
        by_place, by_name = _arguments(self._schema, self._args)
        bound = inspect.signature(self._function).bind(*by_place, **by_name).arguments
        made = as_declared(self._function, self._args)
        return made == {name: bound[name] for name in made if name in bound}

    async def _perform(self, args: dict[str, Any], natively: Natively) -> Any:
        if self._schema is None:
            raw = args[_AS_WRITTEN] if args.keys() == {_AS_WRITTEN} else json.dumps(args)
            return _as_read(await self._tool.on_invoke_tool(self._ctx, raw))
        if self._run_in == "process":
            return _as_read(await natively(args))
        by_place, by_name = _arguments(self._schema, args)
        if self._schema.takes_context:
            by_place = [self._ctx, *by_place]
        function: Callable[..., Awaitable[Any]] = self._function
        if self._run_in == "loop":
            return _as_read(await function(*by_place, **by_name))
        return _as_read(await asyncio.to_thread(self._function, *by_place, **by_name))

    def _accept(self, args: dict[str, Any]) -> None:
        _arguments(self._schema, args)


def _schema_of(tool: FunctionTool) -> FuncSchema | None:
    """Return the SDK's schema of the tool's function.

    None: there is no function, or it is a callable object. Then only the tool itself can be called.
    """
    function: Any = getattr(tool, "__wrapped__", None)
    if not inspect.isfunction(function):
        return None
    return function_schema(
        function,
        name_override=tool.name,
        use_docstring_info=False,
        strict_json_schema=tool.strict_json_schema,
    )


def _arguments(schema: FuncSchema | None, args: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments as the function takes them. Without a schema they are any object.

    Raises:
        ValueError: it cannot take them.
    """
    if not isinstance(args, dict):
        raise ValueError("the arguments are not an object")
    if schema is None:
        return [], {}
    return schema.to_call_args(schema.params_pydantic_model.model_validate(args))


def _as_read(given: Any) -> Any:
    """Return a tool's result as the journal stores it and the model reads it, now and later."""
    if isinstance(given, _STRUCTURED):
        return given.model_dump(mode="json", exclude_none=True)
    if isinstance(given, list | tuple):
        return [_as_read(one) for one in given]  # pyright: ignore[reportUnknownVariableType]
    if given is None or type(given) in (str, int, float, bool, dict):
        try:
            return load(dump(given))
        except Unstorable:
            pass
    return str(given)


async def _told(tool: FunctionTool, ctx: ToolContext[Any], failed: StepError) -> str:
    """Return the text for the model about a failed call, from the tool's own error function.

    Raises:
        Exception: the tool has no such function, so its errors end the run.
    """
    error = failed.__cause__
    if error is None or isinstance(error, ToolFailed):  # it failed in another life or process
        error = RuntimeError(failed.error)
    return await _explained(tool, ctx, error, failed)


async def _refused(tool: FunctionTool, ctx: ToolContext[Any], wrong: ValueError) -> str:
    """Return the text for the model about arguments that the function cannot take. The function is
    not called."""
    error = ModelBehaviorError(f"Invalid JSON input for tool {tool.name}: {wrong}")
    error.__cause__ = wrong
    return await _explained(tool, ctx, error, wrong)


async def _explained(
    tool: FunctionTool, ctx: ToolContext[Any], error: BaseException, cause: BaseException
) -> str:
    said = await maybe_invoke_function_tool_failure_error_function(
        function_tool=tool, context=ctx, error=error
    )
    if said is None:
        raise error from cause
    return said
