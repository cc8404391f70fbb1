"""A language-model agent that the command-line tests run: its model says how much it has read."""

from pydantic_ai import Agent, ModelMessage

from pullcord.testing.scripted import Answer, Say, ScriptedModel, Think


def script(messages: list[ModelMessage]) -> Answer:
    return [Think("well"), Say(f"I have read {len(messages)}.")]


talker = Agent(ScriptedModel(script), name="talker")
