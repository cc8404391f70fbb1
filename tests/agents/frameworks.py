"""The same agent in every framework that has an adapter, at the fake provider; and what it said."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple, TypeAlias

from agents import Agent as SdkAgent
from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel, function_tool
from openai import AsyncOpenAI
from pydantic_ai import Agent

from tests.agents.provider.dialect_models import model_for
from tests.agents.provider.dialects import Dialect
from tests.agents.provider.fake import FakeProvider
from tests.agents.provider.seen import Seen

Name: TypeAlias = Literal["pydantic_ai", "openai_agents"]


class Framework(NamedTuple):
    """A framework, and the wire on which its models talk."""

    name: Name
    wire: Dialect

    def __str__(self) -> str:
        return f"{self.name}-{self.wire}"


EACH = (
    Framework("pydantic_ai", "chat"),
    Framework("openai_agents", "chat"),
    Framework("openai_agents", "responses"),
)


@asynccontextmanager
async def agent_of(
    framework: Framework, url: str, tools: Sequence[Callable[..., Any]] = ()
) -> AsyncGenerator[Any]:
    """An agent `talker` with these functions as tools. The retries of its client stand at what they
    are by default: they must not happen."""
    if framework.name == "pydantic_ai":
        async with model_for(framework.wire, url, max_retries=2) as model:
            yield Agent(model, tools=list(tools), name="talker")
        return
    kind = OpenAIChatCompletionsModel if framework.wire == "chat" else OpenAIResponsesModel
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        made: list[Any] = [function_tool(tool) for tool in tools]
        yield SdkAgent[Any](name="talker", model=kind("gpt-4o", client), tools=made)


class At(NamedTuple):
    """An agent, and the provider that its model is at."""

    agent: Any
    provider: FakeProvider

    def sent(self, number: int = -1) -> list[tuple[str, str]]:
        return said_in(self.provider.seen[number])


@asynccontextmanager
async def at_provider(
    framework: Framework, *script: Any, tools: Sequence[Callable[..., Any]] = ()
) -> AsyncGenerator[At]:
    """Leaving it, nothing that was sent may have been what a strict provider refuses."""
    with FakeProvider() as provider:
        provider.script = list(script)
        async with agent_of(framework, provider.url(framework.wire), tools) as agent:
            yield At(agent, provider)
        assert provider.violations == []


def said_in(request: Seen) -> list[tuple[str, str]]:
    """The conversation in a request: who said what, which calls were made, what came of them."""
    body: Any = request.body
    found: list[tuple[str, str]] = []
    for one in body["messages" if request.dialect == "chat" else "input"]:
        role, content = one.get("role"), one.get("output") or one.get("content")
        if one.get("type") == "function_call":
            found.append(("call", one["name"]))
        elif role == "tool" or "output" in one:
            found.append(("return", _text(content)))
        elif role in ("user", "assistant"):
            found += [(role, _text(content))] if content else []
            found += [("call", call["function"]["name"]) for call in one.get("tool_calls") or ()]
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
