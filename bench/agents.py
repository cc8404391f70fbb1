"""What the cord costs a language-model agent: CPU per step against the bare one and against
LangGraph with its SQLite checkpointer, its growth with the length of the conversation, and how long
it takes to take a long one up again."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compare.environments import PEERS, ROOT, python_of, surroundings
from pydantic_ai import Agent, ModelMessage
from pydantic_ai.usage import UsageLimits

import pullcord
from bench.figures import Figure, p50
from pullcord import RunState
from pullcord.agents.pydantic_ai import PydanticAgent
from pullcord.guard import Runaway
from pullcord.limits import Never
from pullcord.testing.scripted import Answer, Call, Delay, ScriptedModel

STEPS = 200
SHORT = 10
LONG = 1000
ROUNDS = 3
FREE = UsageLimits(request_limit=None)


async def measure(folder: Path) -> list[Figure]:
    await _bare(SHORT)
    await _ours(folder / "warm.db", SHORT)
    figures: list[Figure] = []
    bare: dict[int, list[float]] = {}
    ours: dict[int, list[float]] = {}
    for steps, rounds in ((STEPS, ROUNDS), (LONG, 1)):
        bare[steps], ours[steps], theirs = [], [], list[float]()
        for number in range(rounds):  # in turn, so that all see the same machine
            bare[steps].append(await _bare(steps))
            ours[steps].append(await _ours(folder / f"{steps}-{number}.db", steps))
            theirs.append(await asyncio.to_thread(_langgraph, steps))
        mine, over = p50(ours[steps]), f"{rounds} runs of {steps:,} steps; {{}} {{:.1f}} ms a step"
        for other, cost, target in (
            ("bare Pydantic AI", p50(bare[steps]), 1.45),
            ("LangGraph and its SQLite checkpointer", p50(theirs), 1.0),
        ):
            what = f"a model and tool step, {steps:,} steps, CPU against {other}"
            with_it = over.format(other.split()[0], cost * 1000)
            figures.append(Figure(what, mine / cost, target, "×", with_it))
    growth_bare = p50(bare[LONG]) - await _bare(SHORT)
    growth_ours = p50(ours[LONG]) - await _ours(folder / "short.db", SHORT)
    return [
        *figures,
        Figure(
            f"growth of a step's CPU from {SHORT} to {LONG} steps, against bare",
            growth_ours / growth_bare,
            1.1,
            "×",
            "one run each",
        ),
        Figure(
            f"taking up a run of {LONG} steps, until its next request",
            await _taken_up(folder / "up.db"),
            0.5,
            "s",
            "one run, stored messages and all",
        ),
    ]


async def note(what: str) -> str:
    """Note something."""
    return what * 2


def _script(steps: int, last: Answer = "done") -> Callable[[list[ModelMessage]], Answer]:
    made = 0

    def answer(_: list[ModelMessage]) -> Answer:
        nonlocal made
        made += 1
        return [Call("note", {"what": "x" * 100}, chunk=1000)] if made < steps else last

    return answer


def _agent(steps: int, last: Answer = "done") -> tuple[ScriptedModel, Agent[Any, Any]]:
    model = ScriptedModel(_script(steps, last), keep=False)
    return model, Agent(model, tools=[note], name="noter")


async def _bare(steps: int) -> float:
    _, agent = _agent(steps)
    began = time.process_time()
    await agent.run("go", usage_limits=FREE)
    return (time.process_time() - began) / steps


async def _ours(store: Path, steps: int) -> float:
    _, agent = _agent(steps)
    body: Any = PydanticAgent(agent, usage_limits=FREE)
    async with pullcord.open(store, agents={"noter": body}) as runtime:
        began = time.process_time()
        await (await runtime.start("noter", "go", limits=Never(), runaway=Runaway.off())).result()
        return (time.process_time() - began) / steps


def _langgraph(steps: int) -> float:
    [peer] = (peer for peer in PEERS if peer.name == "langgraph")
    words = [str(python_of(peer)), "-m", "bench.langgraph_agent", str(steps)]
    said = subprocess.run(words, check=True, capture_output=True, cwd=ROOT, env=surroundings())
    return float(json.loads(said.stdout))


async def _taken_up(store: Path) -> float:
    """Stopped in the last answer, given back, and taken up by a new runtime."""
    model, agent = _agent(LONG, [Delay()])
    body: Any = PydanticAgent(agent, usage_limits=FREE)
    timing = pullcord.Timing(shutdown_grace_s=0)
    async with pullcord.open(store, agents={"noter": body}, timing=timing) as runtime:
        run = await runtime.start("noter", "go", run_id="r1", limits=Never(), runaway=Runaway.off())
        await model.stalled.wait()
        await run.pause(now=True)
        await run.wait_for(RunState.PAUSED)
    model, agent = _agent(1, [Delay()])
    body = PydanticAgent(agent, usage_limits=FREE)
    async with pullcord.open(store, agents={"noter": body}, timing=timing) as runtime:
        run = await runtime.get("r1")
        began = time.perf_counter()
        await run.resume()
        await model.stalled.wait()
        return time.perf_counter() - began
