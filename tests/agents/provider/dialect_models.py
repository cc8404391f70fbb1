"""A pydantic-ai model for each dialect, with a client of its own that is closed after use."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.agents.provider.dialects import Dialect

# Names decide what pydantic-ai sends: this Claude keeps sampling settings, newer ones do not.
NAMES: dict[Dialect, str] = {
    "chat": "gpt-4o",
    "responses": "gpt-5",
    "anthropic": "claude-haiku-4-5",
}


@asynccontextmanager
async def model_for(
    dialect: Dialect,
    url: str,
    *,
    name: str | None = None,
    max_retries: int = 0,
    timeout_s: float = 30,
) -> AsyncGenerator[Model]:
    """A model that talks to `url`. The client is not shared: clients are bound to one event loop.

    pydantic-ai's Anthropic model streams behind `agent.run()` too when no `max_tokens` is set:
    set one (below 21,333) where a reply in one piece is wanted.
    """
    name = name or NAMES[dialect]
    if dialect == "anthropic":
        claude = AsyncAnthropic(
            base_url=url, api_key="none", max_retries=max_retries, timeout=timeout_s
        )
        async with claude:
            provider = AnthropicProvider(anthropic_client=claude)
            yield AnthropicModel(name, provider=provider)
        return
    async with AsyncOpenAI(
        base_url=url, api_key="none", max_retries=max_retries, timeout=timeout_s
    ) as client:
        openai = OpenAIProvider(openai_client=client)
        if dialect == "chat":
            yield OpenAIChatModel(name, provider=openai)
        else:
            yield OpenAIResponsesModel(name, provider=openai)
