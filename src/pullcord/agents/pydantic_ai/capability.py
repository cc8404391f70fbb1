"""The cord itself: the capability through which an agent's every request and call is reached."""

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai import messages as m
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import CapabilityOrdering
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.output import OutputContext
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved
from pydantic_ai.toolsets import AbstractToolset
from pydantic_core import to_jsonable_python

from pullcord.adapters import AgentRun, Conversation, load
from pullcord.agents.pydantic_ai.dialect import outside_parts
from pullcord.agents.pydantic_ai.outcomes import raised_by
from pullcord.agents.pydantic_ai.toolset import Supervised
from pullcord.agents.pydantic_ai.watched_model import WatchedModel
from pullcord.errors import StepError


@dataclass(kw_only=True)
class CordCapability(AbstractCapability[Any]):
    """Handed to each run of an agent under a runtime."""

    run: AgentRun
    talk: Conversation[m.ModelMessage]
    continues: bool | None = None
    is_aside: bool = False
    _history: list[m.ModelMessage] | None = None

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    def get_model_settings(self) -> ModelSettings:
        return ModelSettings(max_retries=0)  # every wait is ours, so that every control ends it

    def get_wrapper_model(self, model: Model) -> Model:
        return WatchedModel(model, self.run, self.talk, self._messages, continues=self.continues)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return Supervised(toolset, self.run, self.talk)

    async def prepare_tools(
        self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        return [] if self.is_aside else tool_defs

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """What people said is in the next request, once, in order."""
        if not self.talk.is_taken_up:
            for text in self.talk.told():
                ctx.enqueue(text, priority="asap")
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self._history = ctx.messages
        return request_context

    def _messages(self) -> list[m.ModelMessage]:
        assert self._history is not None
        return self._history

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults:
        """What needs somebody's word gets it where the call is made; what somebody else carries
        out is a question to them."""
        results = DeferredToolResults()
        for call in requests.approvals:
            results.approvals[call.tool_call_id] = ToolApproved()
        answers = await asyncio.gather(*(self._carried_out_elsewhere(c) for c in requests.calls))
        for call, answer in zip(requests.calls, answers, strict=True):
            results.calls[call.tool_call_id] = answer
        return results

    async def _carried_out_elsewhere(self, call: m.ToolCallPart) -> Any:
        """What somebody outside says that it gave. A redirect takes the question off the table."""
        question = self.run.step_id(
            call.tool_name, *outside_parts(self.talk.key, call.tool_call_id)
        )
        text = f"{call.tool_name} is carried out elsewhere. What did it give?"
        details = {"tool": call.tool_name, "args": call.args_as_dict()}
        answer = await self.run.ask_outside(question, text, details)
        if answer is None and not self.run.has_asked_outside(question):
            return ToolFailed("not_started: somebody said something new before it was asked for.")
        if answer is None:
            return ToolFailed("unknown: somebody said something new before its result was known.")
        return m.ToolReturn(load(answer))

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, handler: Any
    ) -> Any:
        """An output function may have an effect: it is carried out once, like a step."""
        if not output_context.has_function:
            return await handler(output)
        name = output_context.function_name or "output"
        call = output_context.tool_call
        made: list[Any] = []
        secrets = self.run.secrets

        async def process() -> Any:
            made[:] = [await handler(secrets.reveal_value(output, tool=name))]
            return to_jsonable_python(made[0], fallback=repr)

        parts = ("output", self.talk.number, *([call.tool_call_id] if call else []))
        try:
            result = await self.run.step(self.run.step_id(name, *parts), name, process)
        except StepError as failed:
            raise raised_by(failed) from None
        return made[0] if made else result
