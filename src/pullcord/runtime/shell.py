"""A ready-made tool: a line for the shell."""

from pullcord.runtime.tools import tool


@tool(command=True)
def shell(command: str) -> list[str]:
    """Run a line in the shell. What it puts out is shown as it comes; cancel kills all of it."""
    return ["/bin/sh", "-c", command]
