"""Tools: functions that an agent calls under a policy.

`tool` declares what a function does to the world and how it is stopped, in the words of `Declared`;
together they are a `Policy`. A tool that wants one is handed a `ToolContext`. Its `undo=`, `probe=`
and `approve=` are handed the `Call`. A command leaves a `CommandResult`, a tool that is declared
`deferred` a `Queued`.
"""

from pullcord.core.calls import Call, Happened, ToolContext
from pullcord.runtime.policy import (
    CommandTool,
    Declared,
    DeferredTool,
    Policy,
    Retry,
    Tool,
    always,
    shell,
    tool,
)
from pullcord.runtime.tools.tool_call import Command, CommandResult, Queued

__all__ = [
    "Call",
    "Command",
    "CommandResult",
    "CommandTool",
    "Declared",
    "DeferredTool",
    "Happened",
    "Policy",
    "Queued",
    "Retry",
    "Tool",
    "ToolContext",
    "always",
    "shell",
    "tool",
]
