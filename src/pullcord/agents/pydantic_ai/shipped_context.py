"""A `RunContext` for a tool in a process of its own: what of it can be made again there."""

from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.usage import RunUsage

_CARRIED: Final = ("tool_call_id", "tool_name", "retry", "max_retries", "run_step")


def carried(ctx: RunContext[Any]) -> dict[str, Any]:
    """What travels to the process, as JSON: which call this is, and the prompt if it is text."""
    found = {name: getattr(ctx, name) for name in _CARRIED if hasattr(ctx, name)}
    return {**found, "prompt": ctx.prompt if isinstance(ctx.prompt, str) else None}


def run_context(data: dict[str, Any], deps: Any) -> RunContext[Any]:
    """The context there: with `deps` made anew, and without the model and the messages."""
    made: Any = RunContext
    return made(deps=deps, model=None, usage=RunUsage(), **data)
