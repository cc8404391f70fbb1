"""A sync tool raises in a process of its own: where in its code is in the log, the record, the
receipt, and in what its caller is told, in every life."""

import logging
from pathlib import Path

import pytest

from pullcord import Context, StepError
from pullcord.cli.render.run_text import receipt_lines
from pullcord.core.events import StepFailed
from tests.runs import raising_tools
from tests.runs.observed_runs import happened, question, runtime_with
from tests.runs.raising_tools import KEY, charge, leak, unreadable

AT = "raising_tools.py:10, in charge"


async def test_it_is_in_the_log_the_record_the_receipt_and_what_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def agent(ctx: Context) -> None:
        await ctx.tool(charge, 3)

    with caplog.at_level(logging.WARNING):
        async with runtime_with(agent=agent) as runtime:
            run = await runtime.start("agent", run_id="r1")
            made = await run.receipt()
            [failed] = await happened(runtime, "r1", StepFailed)
    assert (failed.error, failed.at) == ("ValueError: no such card", AT)
    assert raising_tools.__file__ in failed.traceback
    assert "worker.py" not in failed.traceback
    assert made.error == f"StepError: Step 'charge' failed: ValueError: no such card ({AT})"
    assert made.steps[0].error == f"ValueError: no such card ({AT})"
    assert any("no such card" in line and AT in line for line in receipt_lines(made))
    assert f'File "{raising_tools.__file__}", line 10, in charge' in caplog.text
    assert 'raise ValueError("no such card")' in caplog.text


async def test_a_thread_says_it_too() -> None:
    async def agent(ctx: Context) -> None:
        def closure() -> None:
            charge(1)

        await ctx.tool(closure)

    async with runtime_with(agent=agent) as runtime:
        made = await (await runtime.start("agent")).receipt()
    assert made.steps[0].error == f"ValueError: no such card ({AT})"


async def test_a_later_life_is_told_the_same(tmp_path: Path) -> None:
    said: list[str] = []

    async def agent(ctx: Context) -> None:
        try:
            await ctx.tool(charge, 3)
        except StepError as error:
            said.append(str(error))
        await ctx.ask("go on?")

    async with runtime_with(tmp_path / "s.db", agent=agent) as runtime:
        await question(await runtime.start("agent", run_id="r1"))
    async with runtime_with(tmp_path / "s.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run), "yes")
        await run.result()
    assert said == [f"Step 'charge' failed: ValueError: no such card ({AT})"] * 2


async def test_a_secret_in_its_code_is_sealed(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def agent(ctx: Context) -> None:
        await ctx.tool(leak)

    async with runtime_with(tmp_path / "s.db", secrets={"card": KEY}, agent=agent) as runtime:
        await (await runtime.start("agent", run_id="r1")).receipt()
        [failed] = await happened(runtime, "r1", StepFailed)
    assert "{{secret:card}}" in failed.traceback
    assert KEY not in caplog.text
    for file in filter(Path.is_file, tmp_path.iterdir()):
        assert KEY.encode() not in file.read_bytes(), file


async def test_what_cannot_be_read_hides_nothing() -> None:
    async def agent(ctx: Context) -> None:
        await ctx.tool(unreadable)

    async with runtime_with(agent=agent) as runtime:
        made = await (await runtime.start("agent", run_id="r1")).receipt()
        [failed] = await happened(runtime, "r1", StepFailed)
    assert made.steps[0].error.startswith("RuntimeError: of nowhere")
    assert len(failed.traceback) < 20_000
