"""Promise: when a run is quarantined or forgotten, no answer says its words any more: not one that
was given before, not the stop log, not the receipt of its family, not the screen of `top`."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pullcord
from pullcord import Context, RunState
from pullcord.cli.main import main
from pullcord.core.commands import Forget
from pullcord.core.events import (
    CancelRequested,
    ItemRewritten,
    Record,
    StepInterrupted,
    StepStarted,
)
from pullcord.core.show.story import Names, line, tell
from pullcord.tui.app import Top
from pullcord.tui.local_source import LocalSource
from tests.runs.observed_runs import BOUND_S, runtime_with

WORD: Final = "zzword"


async def asks(ctx: Context, _given: Any) -> None:
    await ctx.ask(f"{WORD}: send it?")


async def test_an_answer_that_was_given_before_keeps_its_verdict_and_not_its_words() -> None:
    async with asyncio.timeout(BOUND_S), runtime_with(asks=asks) as runtime:
        run = await runtime.start("asks", run_id="r1")
        await run.wait_for(RunState.WAITING)
        before = await run.resume(by="ana", key="k")
        assert WORD in before.message
        await run.cancel(by="ana", quarantine=True)
        again = await run.resume(by="ana", key="k")
        assert (again.verdict, again.reason, again.seq) == (
            before.verdict,
            before.reason,
            before.seq,
        )
        assert WORD not in again.message


async def test_the_stop_log_does_not_name_what_was_asked(tmp_path: Path, capsys: Any) -> None:
    async with asyncio.timeout(BOUND_S), runtime_with(tmp_path / "runs.db", asks=asks) as runtime:
        run = await runtime.start("asks", run_id="r1")
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="ana", quarantine=True)
    main(["log", "show", "r1", "--json", "--store", str(tmp_path / "runs.db")])
    said = capsys.readouterr().out
    assert json.loads(said)[0]["entry"]["act"]["quarantine"]
    assert WORD not in said


@pullcord.tool(effect="once")
async def send(to: str) -> None:
    raise ValueError(f"cannot send to {to}")


async def test_the_receipt_of_a_quarantined_run_has_no_words_of_its_children() -> None:
    async def child(ctx: Context, to: str) -> None:
        with_error = None
        try:
            await ctx.tool(send, to)
        except pullcord.StepError as error:
            with_error = error
        assert with_error

    async def parent(ctx: Context, _given: Any) -> None:
        await (await ctx.spawn("child", WORD)).result()
        await ctx.ask("go on?")

    async with asyncio.timeout(BOUND_S), runtime_with(parent=parent, child=child) as runtime:
        run = await runtime.start("parent", run_id="r1")
        while not (await run.snapshot()).open_questions():
            await run.wait_for(RunState.WAITING)
            await asyncio.sleep(0)
        assert WORD in str(
            (await runtime.journal.for_people(lambda look: look.receipt("r1"))).steps
        )
        await run.cancel(by="ana", quarantine=True)
        assert WORD not in str(await run.receipt())


def test_an_item_that_was_rewritten_has_its_first_name_again() -> None:
    names = Names()
    events = [
        ItemRewritten(plan="p", item="i", before="second", after=f"instead {WORD}"),
        StepStarted(step="s", name="second"),
        CancelRequested(by="ana", quarantine=True),
        StepInterrupted(step="s"),
    ]
    told = [line(tell(Record("r1", n, n, 1, event), names)) for n, event in enumerate(events, 1)]
    assert WORD in told[1]
    assert WORD not in told[3]


async def fails(_ctx: Context, _given: Any) -> None:
    raise RuntimeError(f"it failed: {WORD}")


async def test_the_screen_lets_go_of_the_receipt_of_a_forgotten_run() -> None:
    async with asyncio.timeout(BOUND_S), runtime_with(fails=fails) as runtime:
        run = await runtime.start("fails", run_id="r1")
        await run.wait_for(RunState.FAILED)
        app = Top(LocalSource(runtime.journal, me="ana", name="store"), "ana")

        def screen() -> str:
            strips = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
            return "".join(segment.text for strip in strips for segment in strip)

        async with app.run_test(size=(120, 40)) as pilot:
            while not app.pane.report.is_over:
                await pilot.pause()
            app.pane.turn_to("receipt")
            while WORD not in screen():
                await pilot.pause()
            await runtime.journal.retention.forget("r1", Forget(by="ana"))
            while WORD in screen():
                await pilot.pause()
