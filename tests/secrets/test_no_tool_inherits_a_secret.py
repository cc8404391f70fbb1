"""A process tool or a command finds none of our credentials in its environment, unless it asks."""

import asyncio
import json
import os
import sys
from typing import Any

import pytest
from pydantic_ai import Agent as Foreign

import pullcord
from pullcord import AgentConfig, Context, tool
from pullcord.errors import InvalidInput
from pullcord.testing.scripted import Call, ScriptedModel
from tests.runs.observed_runs import runtime_with

SECRETS = {
    "SEEDED_KEY": "sk-live-4711-quiet-harbor",  # named by PULLCORD_SECRETS
    "COPIED_KEY": "Bearer tangerine-0815-belongs-to-J",  # holds what the runtime was given
    "PGPASSWORD": "a-database-and-its-word",
    "PULLCORD_TOKEN": "one-of-our-own-tokens",
}
PLAIN = {"HOME_OF_IT": "/srv/archive", "EDITOR_OF_IT": "ed"}
SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (SECRETS | PLAIN).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PULLCORD_SECRETS", "SEEDED_KEY, NOT_SET")


@tool(run_in="process", effect="none")
def finds() -> dict[str, str]:
    return dict(os.environ)


@tool(run_in="process", effect="none", needs_env=("SEEDED_KEY", "COPIED_KEY"))
def finds_what_it_needs() -> int:
    return len(os.environ["SEEDED_KEY"]) + len(os.environ["COPIED_KEY"])


@tool(effect="none", command=True)
def prints() -> list[str]:
    return [sys.executable, "-c", SHOW]


async def _ask(ctx: Context) -> dict[str, str]:
    return await ctx.tool(finds)


async def _run(ctx: Context) -> dict[str, str]:
    return json.loads((await ctx.exec(sys.executable, "-c", SHOW)).stdout)


async def _print(ctx: Context) -> dict[str, str]:
    return json.loads((await ctx.tool(prints)).stdout)


def _found(env: dict[str, str]) -> set[str]:
    told = "\n".join(f"{name}={value}" for name, value in env.items())
    return {name for name, value in SECRETS.items() if name in env or value in told}


@pytest.mark.parametrize("agent", [_ask, _run, _print])
async def test_no_process_finds_a_credential_of_ours(agent: object) -> None:
    given = {"copied": "tangerine-0815-belongs-to-J"}
    agents: dict[str, Any] = {"agent": agent}
    async with (
        asyncio.timeout(120),
        pullcord.open(":memory:", agents=agents, secrets=given) as runtime,
    ):
        run = await runtime.start("agent")
        env = await run.result()
    assert _found(env) == set()
    assert PLAIN.items() <= env.items()
    assert "NOT_SET" not in env


async def test_a_tool_that_asks_for_one_by_name_has_it() -> None:
    async def asks(ctx: Context) -> int:
        return await ctx.tool(finds_what_it_needs)

    async with runtime_with(agent=AgentConfig(asks)) as runtime:
        run = await runtime.start("agent")
        expected = len(SECRETS["SEEDED_KEY"]) + len(SECRETS["COPIED_KEY"])
        assert await run.result() == expected


async def test_a_command_may_be_handed_one() -> None:
    script = "import os; print(len(os.environ['SEEDED_KEY']))"

    async def writer(ctx: Context) -> str:
        handed = {"SEEDED_KEY": os.environ["SEEDED_KEY"]}
        return (await ctx.exec(sys.executable, "-c", script, env=handed)).stdout

    async with runtime_with(agent=AgentConfig(writer)) as runtime:
        run = await runtime.start("agent")
        assert (await run.result()).strip() == str(len(SECRETS["SEEDED_KEY"]))


async def test_a_tool_that_a_model_calls_finds_none_either() -> None:
    model = ScriptedModel([[Call("finds", {})], "done"])
    foreign = Foreign(model, name="agent", tools=[finds])
    async with runtime_with(agent=AgentConfig(foreign)) as runtime:
        run = await runtime.start("agent", "look")
        await run.result()
    told = str(model.requests)
    assert PLAIN["HOME_OF_IT"] in told
    assert not [name for name, value in SECRETS.items() if value in told and name != "COPIED_KEY"]


def test_one_name_is_not_several() -> None:
    with pytest.raises(InvalidInput, match="needs_env takes several names"):
        tool(run_in="process", needs_env="SEEDED_KEY")(lambda: 1)
