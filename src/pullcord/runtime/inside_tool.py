"""What stands for a runtime in the process of a tool: it can be named there, and not used.

The module of a tool is imported in the tool's process. A program that has no guard around what it
does would start itself there, start a run, call the tool, and so on. A module that only makes a
runtime, for its web app say, is imported as it is, and opens no store.
"""

from typing import Any, NoReturn

from pullcord.errors import StartedInTool
from pullcord.warden.inside import imported, is_inside, refuse


class InsideTool:
    """Stands for a runtime, and for a server of one. Whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # whether it is a class, a path, ...: what anybody may ask
        raise refusal()

    async def __aenter__(self) -> NoReturn:
        raise refusal()

    async def __aexit__(self, *_: object) -> None: ...

    async def __call__(self, *_: Any) -> NoReturn:
        raise refusal()


def is_elsewhere() -> bool:
    """Whether this is the process of a tool: no runtime can be used here."""
    return is_inside()


def refusal() -> StartedInTool:
    """Return the error for a program that uses a runtime in the process of a tool."""
    error = StartedInTool(imports=imported())
    refuse(str(error))
    return error
