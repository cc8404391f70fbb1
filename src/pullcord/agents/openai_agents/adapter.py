"""Runs an `agents.Agent` as a body: entered, stopped and taken up again like any other agent.

There is no replay. A run that is taken up goes on from its stored items with its last request. If
the journal has the answer, it answers the request, and only calls without an outcome are made. When
a person says something, the adapter leaves the runner and enters it again with the whole
conversation.
"""

from dataclasses import replace
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    ModelRetrySettings,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    Tool,
)
from agents.models.interface import Model
from agents.models.multi_provider import MultiProvider
from pydantic_core import to_jsonable_python

from pullcord import Context
from pullcord.adapters import AgentRun, Conversation, Listing, known_before
from pullcord.agents.openai_agents.dialect import DIALECT, Item
from pullcord.agents.openai_agents.model import Watched
from pullcord.agents.openai_agents.refusing import refuse_unsupported
from pullcord.agents.openai_agents.tools import supervised
from pullcord.errors import InvalidInput


class OpenAIAgent:
    """The body of an `agents.Agent`: the runtime enters it for each life of a run."""

    def __init__(self, agent: Agent[Any]) -> None:
        self.agent = agent
        self._provider = MultiProvider()

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def wants_input(self) -> bool:
        return True

    def is_priced(self, model: str) -> bool:
        return False

    def tools(self) -> Listing:
        return Listing(frozenset(tool.name for tool in self.agent.tools), "none")

    async def enter(self, ctx: Context, given: Any) -> Any:
        refuse_unsupported(self.agent)  # somebody may have changed it since it was handed over
        run = AgentRun(ctx)
        talk = Conversation(run, DIALECT, await known_before(run, DIALECT))
        return await talk.goes_on(
            _Turn(self._under(run, talk), run, talk).piece,
            prompt=DIALECT.prompt(given),
            last_word=lambda: self._last_word(run, talk, given),
        )

    def _under(
        self, run: AgentRun, talk: Conversation[Item], *, wraps_up: bool = False
    ) -> Agent[Any]:
        """Return the agent with the doors of a run around its model and its tools."""
        settings, model = self.agent.model_settings, self._model(run.model)
        has_none = run.is_aside or wraps_up
        given = [one for one in self.agent.tools if isinstance(one, FunctionTool) and not has_none]
        tools: list[Tool] = [supervised(one, run, talk) for one in given]
        timeout_s = settings.timeout
        return self.agent.clone(
            model=Watched(
                model, run, talk, supervised=tools, timeout_s=timeout_s, wraps_up=wraps_up
            ),
            tools=tools,
            model_settings=replace(
                settings,
                retry=ModelRetrySettings(max_retries=0),  # Pullcord retries and waits itself
                timeout=None,
                include_usage=True if settings.include_usage is None else settings.include_usage,
                tool_choice=None if has_none else settings.tool_choice,
            ),
        )

    def _model(self, instead: str) -> Model:
        """Return the agent's own model, or the one that a run names: at the same client, so that no
        request goes to another place or with another key."""
        own = self.agent.model
        if isinstance(own, Model):
            return _at_the_same_client(own, instead) if instead else own
        return self._provider.get_model(instead or own)

    async def _last_word(self, run: AgentRun, talk: Conversation[Item], given: Any) -> str:
        items = await talk.for_last_word(given)
        _, said = await _Turn(self._under(run, talk, wraps_up=True), run, talk).piece(None, items)
        return str(said)


def _at_the_same_client(own: Model, name: str) -> Model:
    client = getattr(own, "_client", None)
    if isinstance(own, OpenAIResponsesModel | OpenAIChatCompletionsModel) and client:
        has_responses = isinstance(own, OpenAIResponsesModel)
        return OpenAIProvider(openai_client=client, use_responses=has_responses).get_model(name)
    raise InvalidInput(
        f"Cannot use the model {name!r} instead of this agent's own: its {type(own).__name__} does "
        "not tell which client another model would be asked at. Nothing was asked. Give the "
        "agent its model by name, or start the run without model=."
    )


class _Turn:
    """One life of the agent, in pieces: each instruction of a person begins a new piece."""

    def __init__(self, agent: Agent[Any], run: AgentRun, talk: Conversation[Item]) -> None:
        self._agent, self._run, self._talk = agent, run, talk

    async def piece(self, prompt: Any, history: list[Item]) -> tuple[list[Item], Any]:
        """Enter the runner, and return all items and the result when it is done."""
        news = [] if self._talk.is_taken_up else self._talk.told()
        items: list[Any] = [*history, *DIALECT.prompt(prompt), *DIALECT.prompt(news)]
        result = await Runner.run(
            self._agent,
            items,
            context=self._run.ctx.deps,
            max_turns=None,  # the limits of the run count
            run_config=RunConfig(tracing_disabled=True),
        )
        made: list[Any] = result.to_input_list()
        return made, to_jsonable_python(result.final_output, fallback=repr)
