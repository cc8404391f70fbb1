"""Which tools an agent has, as far as can be known before a run of it begins."""

from collections.abc import Iterable
from typing import Any, Final

from pydantic_ai.toolsets import (
    AbstractToolset,
    CombinedToolset,
    DynamicToolset,
    ExternalToolset,
    FunctionToolset,
    PrefixedToolset,
    RenamedToolset,
    WrapperToolset,
)

from pullcord.adapters import Listing
from pullcord.agents.pydantic_ai.subagents import delegate_of

_NONE: Final = Listing(frozenset(), "none")
_RANKS: Final = {"none": 0, "late": 1, "any": 2}


def listing_of(toolsets: Iterable[AbstractToolset[Any]]) -> Listing:
    """Return the tools of these toolsets that a policy can be given for.

    An agent that is called as a tool is a run of its own, and what is carried out elsewhere is a
    question: no policy counts for those.
    """
    found = _NONE
    for toolset in toolsets:
        one = _listing(toolset)
        if not type(toolset).get_tools.__module__.startswith("pydantic_ai."):
            one = Listing(one.names, "any")  # a toolset of somebody's own lists what it likes
        less_known = one if _RANKS[one.others] > _RANKS[found.others] else found
        found = Listing(found.names | one.names, less_known.others)
    return found


def _listing(toolset: AbstractToolset[Any]) -> Listing:
    match toolset:
        case FunctionToolset():
            tools = toolset.tools
            names = {n for n, tool in tools.items() if not delegate_of(tool.function)}
            may_be_renamed = any(tool.prepare is not None for tool in tools.values())
            return Listing(frozenset(names), "any" if may_be_renamed else "none")
        case ExternalToolset():
            return _NONE
        case CombinedToolset():
            return listing_of(toolset.toolsets)
        case PrefixedToolset():
            inner = _listing(toolset.wrapped)
            return Listing(frozenset(f"{toolset.prefix}_{n}" for n in inner.names), inner.others)
        case RenamedToolset():
            inner = _listing(toolset.wrapped)
            new = {old: new for new, old in toolset.name_map.items()}
            return Listing(frozenset(new.get(n, n) for n in inner.names), inner.others)
        case DynamicToolset():
            return Listing(frozenset(), "any")
        case WrapperToolset():  # filtered, prepared, …: it may leave some out, and adds none
            return _listing(toolset.wrapped)
        case _:
            return Listing(frozenset(), "late")
