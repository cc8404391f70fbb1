"""Policies by name, and whether there is a tool of that name: a misspelt one protects nothing.

Some agents list all their tools (`Listed`): then a name that is not among them is refused when the
runtime is entered. Of the others only their code is known. A name that no code mentions is warned
about, and is an attention item of every run that ends without it; and a call of a tool that no
policy is for, while one is for almost the same name, is refused before it begins.
"""

import difflib
import inspect
import logging
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, Final, Literal, Protocol, runtime_checkable

from pullcord.errors import InvalidInput
from pullcord.runtime.policy import Policies, Policy, Tool, policy_of

_log: Final = logging.getLogger("pullcord.runtime")
_ALIKE: Final = 0.75  # of two names: `send_mial` and `send_mail` are, `read` and `write` are not
_LIBRARIES: Final = tuple(sysconfig.get_path(n) + os.sep for n in ("stdlib", "purelib", "platlib"))


@dataclass(frozen=True)
class Listing:
    """The tools that an agent has. `others`: whether it may come to have more of them: `none`,
    those that it lists when a run of it begins (`late`: a server's), or `any`, at any time."""

    names: frozenset[str]
    others: Literal["none", "late", "any"]


@runtime_checkable
class Listed(Protocol):
    """An agent that can say which tools it has before it is entered."""

    def tools(self) -> Listing: ...


class PolicyNames:
    """Which of a runtime's policies are for a tool that somebody has seen."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._seen: set[str] = set()
        self._late: set[str] = set()  # agents that have not listed all their tools yet
        self._may_have_others = True

    def meet(self, agents: Mapping[str, Any]) -> None:
        """Look which tools these agents have. Their bodies may list them.

        Raises:
            InvalidInput: a policy is for a tool that none of them has, nor can come to have.
        """
        if not self._policies or not agents:
            return None
        listings = {n: body.tools() for n, body in agents.items() if isinstance(body, Listed)}
        self._seen.update(*(listing.names for listing in listings.values()))
        self._late = {name for name, listing in listings.items() if listing.others == "late"}
        others = [listing.others for listing in listings.values()]
        self._may_have_others = len(listings) < len(agents) or "any" in others
        if not self._may_have_others:
            return self._refuse_unseen()
        self._seen.update(_mentioned(set(self.unseen())))
        for name in self.unseen():
            _log.warning(
                "No code of this program mentions a tool %r, which a policy is given for: %s",
                name,
                self._instead(name),
            )
        return None

    def listed(self, agent: str, names: Iterable[str]) -> None:
        """A run of this agent has listed the tools that it has now.

        Raises:
            InvalidInput: as `meet`, now that all of them are known.
        """
        self._seen.update(names)
        if agent in self._late:
            self._late.discard(agent)
            if not self._may_have_others:
                self._refuse_unseen()

    def _refuse_unseen(self) -> None:
        for name in self.unseen() if not self._late else ():
            raise InvalidInput(
                f"No agent has a tool {name!r}, which a policy is given for: "
                f"{self._instead(name)} Nothing was started. "
                f"Tools that can be named: {', '.join(sorted(self._seen)) or 'none'}."
            )

    def called(self, tool: Tool[..., Any]) -> None:
        """A tool is about to be called.

        Raises:
            InvalidInput: a policy seems to be meant for it, and would not count. Nothing was begun.
        """
        self._seen.add(tool.name)
        given = policy_of(self._policies.get(tool.name, Policy()))
        if tool.insists and tool.policy.approve == "never" and given.approve != "never":
            raise InvalidInput(
                f"Tool {tool.name!r} was not called: a policy that is given by its name wants it "
                "approved, and the tool declares for itself that it needs none. Nothing was begun. "
                "Say it in one place: @pullcord.tool(approve=...)."
            )
        if tool.insists or tool.name in self._policies:
            return
        if near := difflib.get_close_matches(tool.name, self.unseen(), n=1, cutoff=_ALIKE):
            raise InvalidInput(
                f"Tool {tool.name!r} was not called: no policy is given for it, but there is one "
                f"for {near[0]!r}, which nothing is called. Nothing was begun. If that one is "
                f"meant, spell it: tools={{{tool.name!r}: ...}}; if not, remove it, or declare "
                f"{tool.name!r} with @pullcord.tool."
            )

    def unseen(self) -> list[str]:
        """Return the names that no tool is known by."""
        return sorted(set(self._policies) - self._seen)

    def _instead(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._seen - set(self._policies), n=1)
        meant = f" Is {near[0]!r} meant?" if near else ""
        return f"it protects nothing.{meant}"


def _mentioned(names: set[str]) -> set[str]:
    """Those of these names that the program's own code mentions: defines, imports or calls."""
    found = set[str]()
    for module in list(sys.modules.values()):
        if names - found and _is_users(module):
            for code in _codes(module):
                found |= names & {code.co_name, *code.co_names, *code.co_varnames}
            found |= names & set(vars(module))
    return found


def _is_users(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    is_ours = getattr(module, "__name__", "").partition(".")[0] == "pullcord"
    return bool(file) and not is_ours and not str(file).startswith(_LIBRARIES)


def _codes(module: ModuleType) -> Iterator[CodeType]:
    """The code of what a module defines, and of what is defined in that."""
    stack: list[Any] = []
    for value in list(vars(module).values()):
        if isinstance(value, type):
            stack += [getattr(inspect.unwrap(m), "__code__", None) for m in _methods(value)]
        elif callable(value):
            raw: Any = getattr(value, "__pullcord_tool__", value)
            stack.append(getattr(raw, "__code__", None))
    while stack:
        code = stack.pop()
        if isinstance(code, CodeType):
            yield code
            stack += code.co_consts


def _methods(kind: type) -> list[Any]:
    return [value for value in vars(kind).values() if callable(value)]
