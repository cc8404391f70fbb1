"""Whatever a tool returns, raises or does to its process: its outcome is recorded as what it was,
in words that can be read, and nothing else comes to harm."""

import functools
import importlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

import pullcord
from pullcord import Context, RunFailed, StepError
from pullcord.core.events import AttentionRaised, StepFailed, StepFinished
from pullcord.runtime.policy import Tool
from tests.declaring import declared_as
from tests.runs import some_tools
from tests.runs.observed_runs import happened, runtime_with

PLACES: Final = ("process", "thread", "loop")
ERROR_MAX_CHARS: Final = 4500


def placed(function: Callable[..., Any], place: str, **declared: Any) -> Tool[..., Any]:
    """The same function as a tool that is carried out there."""
    if place != "loop":
        return declared_as(**declared, run_in=place)(function)

    @functools.wraps(function)
    async def in_loop(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return declared_as(**declared)(in_loop)


async def outcome(
    call: Callable[[Context], Awaitable[Any]], place: str = "process"
) -> tuple[str, StepFailed]:
    """What an agent is told of a tool that fails, and what is recorded. The run goes on, and so
    does another tool in the same place."""

    async def agent(ctx: Context) -> str:
        try:
            await call(ctx)
        except StepError as error:
            assert await ctx.tool(placed(some_tools.add, place), 40) == 42, (
                "the next tool was harmed"
            )
            return error.error
        return "nothing"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        told = await run.result()
        [failed] = await happened(runtime, run.id, StepFailed)
        assert len(await happened(runtime, run.id, StepFinished)) == 1  # of the next one
        raised = [item.kind for item in await happened(runtime, run.id, AttentionRaised)]
        assert raised == (["in_doubt"] if failed.happened == "maybe" else [])
    return told, failed


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("why", some_tools.UNSTORABLE)
async def test_a_result_that_cannot_be_stored_did_happen(why: str, place: str) -> None:
    bad = placed(some_tools.gives, place)
    told, failed = await outcome(lambda ctx: ctx.tool(bad, why), place)
    assert failed.happened == "yes"
    assert told == failed.error
    assert told.startswith("it happened, but ")
    assert why in told


@pytest.mark.parametrize("place", PLACES)
async def test_what_only_reads_has_not_happened_even_then(place: str) -> None:
    reading = placed(some_tools.gives, place, effect="none")
    which = next(iter(some_tools.UNSTORABLE))
    _, failed = await outcome(lambda ctx: ctx.tool(reading, which), place)
    assert failed.happened == ""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("why", some_tools.RAISED, ids=ascii)
async def test_whatever_is_raised_is_a_failure_in_words(why: str, place: str) -> None:
    bad = placed(some_tools.raises, place)
    told, failed = await outcome(lambda ctx: ctx.tool(bad, why), place)
    assert told == failed.error
    assert failed.happened == ""
    assert why in told
    assert len(told) < ERROR_MAX_CHARS


async def test_what_is_raised_is_told_also_if_its_error_output_is_closed() -> None:
    told, _ = await outcome(lambda ctx: ctx.tool(some_tools.closes_its_error_output))
    assert told == "ValueError: mine"


@pytest.mark.parametrize("status", some_tools.ENDINGS)
async def test_a_process_that_ends_without_a_word_may_have_done_it(status: str) -> None:
    told, failed = await outcome(lambda ctx: ctx.tool(some_tools.ENDINGS[status]))
    assert told == failed.error
    assert status in told
    assert failed.happened == "maybe"


async def test_a_tool_that_removes_its_directory_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs where its runtime does. Whoever comes next there is told what is missing, and what
    says where it wants to run is as well as ever."""
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)

    async def agent(ctx: Context) -> Any:
        removed = await ctx.tool(some_tools.removes_its_directory)
        elsewhere = await ctx.exec("pwd", cwd=str(tmp_path))
        with pytest.raises(StepError) as told:
            await ctx.tool(some_tools.add, 1)
        here.mkdir()
        return removed, elsewhere.stdout, told.value.error

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent")
        removed, elsewhere, told = await run.result()
        [failed] = await happened(runtime, run.id, StepFailed)
    assert (removed, elsewhere) == (str(here), f"{tmp_path}\n")
    assert "working directory" in told
    assert (failed.error, failed.happened) == (told, "")


async def test_a_module_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be, when this process did it."""
    module = tmp_path / "gone_by_then.py"
    module.write_text("def tool(): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    gone: Callable[[], Any] = importlib.import_module(module.stem).tool
    module.unlink()
    told, failed = await outcome(lambda ctx: ctx.tool(gone))
    assert "gone_by_then" in told
    assert failed.happened == "", "nothing of it has begun"


@pytest.mark.parametrize("place", PLACES)
async def test_a_tool_that_raises_what_unwinds_agents_only_fails(place: str) -> None:
    raising = placed(raises_interrupted, place)
    told, _ = await outcome(lambda ctx: ctx.tool(raising), place)
    assert told == "Interrupted: mine"


def raises_interrupted() -> None:
    raise pullcord.Interrupted("mine")


async def test_an_agent_that_does_not_catch_it_fails_with_the_same_words() -> None:
    async def agent(ctx: Context) -> None:
        await ctx.tool(some_tools.exits)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        with pytest.raises(RunFailed, match=r"Step 'exits' failed: .* status 3"):
            await run.result()


async def test_a_tool_finds_nothing_of_ours_in_its_environment_but_its_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PULLCORD_TOKEN", "secret")
    monkeypatch.setenv("OURS", "yours too")

    async def agent(ctx: Context) -> Any:
        given = {"PULLCORD_GIVEN": "1", "GIVEN": "2"}
        seen = await ctx.exec("env", env=given)
        names = [line.partition("=")[0] for line in seen.stdout.splitlines()]
        return [
            await ctx.tool(some_tools.environment, "PULLCORD"),
            sorted(name for name in names if name.startswith("PULLCORD")),
            [name for name in ("OURS", "GIVEN") if name in names],
        ]

    async with runtime_with(agent=agent) as runtime:
        found = await (await runtime.start("agent")).result()
    assert found == [["PULLCORD_CALL"], ["PULLCORD_CALL"], ["OURS", "GIVEN"]]
    assert os.environ["PULLCORD_TOKEN"] == "secret"
