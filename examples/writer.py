"""An agent of Pydantic AI under the cord: redirected in the middle of its answer.

The model here only says what its script says. With any other one:
    pullcord run examples/writer.py:writer "Write about May" --model openai:gpt-5
"""

import asyncio
from contextlib import aclosing

from pydantic_ai import Agent, ModelMessage

import pullcord
from pullcord.events import LiveText
from pullcord.testing.scripted import Answer, Call, Delay, Say, ScriptedModel


def figures(month: str) -> str:
    """Look up the figures of a month."""
    return f"{month}: 120 new customers, 7 lost"


def script(messages: list[ModelMessage]) -> Answer:
    said = str(messages)
    if "EU" in said:
        return "In May the EU lost 2 customers."
    if "7 lost" in said:
        return [Say("In May we won 120 customers, mostly in"), Delay(2), Say(" the south.")]
    return [Say("I look it up."), Call("figures", {"month": "May"})]


writer = Agent(ScriptedModel(script), tools=[figures], name="writer")


async def main() -> None:
    async with pullcord.open(":memory:", agents={"writer": writer}) as runtime:
        run = await runtime.start(writer, "Write about May")
        await shown(run, "mostly in")
        await run.redirect("only the EU, and only losses")  # the answer is cut at the socket
        print(await run.result())


async def shown(run: pullcord.RunHandle, words: str) -> None:
    said = ""
    async with aclosing(run.events()) as events:
        async for _, item in events:
            said += item.text if isinstance(item, LiveText) else ""
            if words in said:
                return


if __name__ == "__main__":
    asyncio.run(main())
