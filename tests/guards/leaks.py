"""Agents that give a secret away, each through another door."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from pydantic_ai import Agent as Foreign
from pydantic_ai import messages as m
from pydantic_ai.models.function import FunctionModel

from pullcord import AgentConfig, Context
from pullcord.guard import Guard
from pullcord.testing.scripted import Call, Piece, Say, ScriptedModel, Think
from tests.guards.disguises import SECRET

BEFORE: Final = "Here it is: "
LEAK: Final = f"{BEFORE}{SECRET} and so on"
WELL: Final = "All is well."
Make = Callable[[Sequence[Guard]], AgentConfig]


class Notes:
    """A tool, and what was done with it."""

    def __init__(self) -> None:
        self.did: list[str] = []

    async def note(self, what: str) -> str:
        """Note something."""
        self.did.append(what)
        return "noted"

    async def find(self) -> str:
        """Find something."""
        self.did.append("find")
        return LEAK

    async def fail(self) -> str:
        """Fail to find something."""
        raise ValueError(LEAK)


def talking(*pieces: Piece) -> Make:
    """A model that says this; and when it is asked again, that all is well."""

    def make(guards: Sequence[Guard]) -> AgentConfig:
        notes = Notes()
        model = ScriptedModel([list(pieces), WELL, WELL])
        foreign = Foreign(model, name="agent", tools=[notes.note, notes.find])
        return AgentConfig(foreign, guards=guards)

    return make


def plainly(function: Any) -> Make:
    return lambda guards: AgentConfig(function, guards=guards)


def model_of(agent: AgentConfig) -> Any:
    return agent.function.model


def _at_once(guards: Sequence[Guard]) -> AgentConfig:
    asked = 0

    def answer(messages: list[m.ModelMessage], _: Any) -> m.ModelResponse:
        nonlocal asked
        asked += 1
        return m.ModelResponse([m.TextPart(LEAK if asked == 1 else WELL)])

    return AgentConfig(Foreign(FunctionModel(answer), name="agent"), guards=guards)


MODELS: Final[dict[str, Make]] = {
    "text": talking(Say(LEAK, chunk=7)),
    "text at once": talking(Say(LEAK, chunk=10_000)),
    "text that is not streamed": _at_once,
    "a second part": talking(Say("First of all."), Think("hm"), Say(LEAK, chunk=3)),
    "thoughts": talking(Think(LEAK, chunk=5), Say("Good morning.")),
    "the arguments of a call": talking(Say("I note it."), Call("note", {"what": LEAK})),
    "arguments with escapes": talking(Call("note", {"what": "\n".join(SECRET)})),
    "arguments in pieces": talking(Call("note", {"what": list(SECRET)})),
}


async def _says(ctx: Context) -> str:
    await ctx.say(LEAK)
    return WELL


async def _streams(ctx: Context) -> str:
    async def chunks() -> AsyncIterator[str]:
        for n in range(0, len(LEAK), 5):
            yield LEAK[n : n + 5]
            await asyncio.sleep(0)

    await ctx.say(chunks())
    return WELL


async def _runs_a_command(ctx: Context) -> str:
    script = f"print({BEFORE!r}, end='', flush=True)\n"
    script += f"for c in {SECRET!r}: print(c, end='', flush=True)"
    # What a call is given is looked at, too: so it is told in the characters after those.
    given = "".join(chr(ord(char) + 1) for char in script)
    run = "import sys; exec(''.join(chr(ord(c) - 1) for c in sys.stdin.read()))"
    await ctx.exec(sys.executable, "-c", run, input=given)
    return WELL


async def _calls_a_tool(ctx: Context) -> str:
    await ctx.tool(Notes().find)
    return WELL


async def _steps(ctx: Context) -> str:
    await ctx.step("find", Notes().find)
    return WELL


async def _fails_in_a_step(ctx: Context) -> str:
    await ctx.step("fail", Notes().fail)
    return WELL


async def _hands_over(ctx: Context) -> str:
    await ctx.step("note", Notes().note, LEAK)
    return WELL


async def _asks(ctx: Context) -> str:
    await ctx.ask(f"May I tell them? {LEAK}")
    return WELL


async def _plans(ctx: Context) -> str:
    async for _ in ctx.plan(["First", LEAK]):
        pass
    return WELL


async def _returns(ctx: Context) -> str:
    return LEAK


async def _raises(ctx: Context) -> str:
    raise ValueError(LEAK)


FUNCTIONS: Final[dict[str, Any]] = {
    "what is said": _says,
    "what is said as it comes": _streams,
    "what a command puts out": _runs_a_command,
    "the result of a tool": _calls_a_tool,
    "the result of a step": _steps,
    "the error of a step": _fails_in_a_step,
    "what a step is given": _hands_over,
    "a question": _asks,
    "a plan": _plans,
    "the result of the run": _returns,
    "the error of the run": _raises,
}
