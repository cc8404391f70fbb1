"""A call that was cut off is in doubt. The tool's own probe may say what became of it; where that
cannot tell, or fails, a person is asked, and nothing is done again meanwhile."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import pullcord
from pullcord import Call, Context, ToolContext
from pullcord.core.events import (
    DoubtSettled,
    QuestionAsked,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
)
from pullcord.core.values import load
from pullcord.runtime.policy import Tool
from tests.declaring import declared_as
from tests.runs import some_tools
from tests.runs.observed_runs import HASTY, happened, question, runtime_with, shown

Probe = Callable[..., Any]


class Lives:
    """A run whose tool was cut off by the end of its first life."""

    def __init__(self, tmp_path: Path) -> None:
        self.store, self.there = tmp_path / "runs.db", tmp_path / "there"

    async def first(self, tool: Tool[..., Any]) -> None:
        async with runtime_with(self.store, agent=self._agent(tool), timing=HASTY) as runtime:
            run = await runtime.start("agent", run_id="r1")
            await shown(run, "begun\n")
        self.there.write_text("done anew")

    def second(self, tool: Tool[..., Any]) -> Any:
        return runtime_with(self.store, agent=self._agent(tool))

    def _agent(self, tool: Tool[..., Any]) -> Any:
        async def agent(ctx: Context) -> Any:
            return await ctx.tool(tool, str(self.there))

        return agent


def probed(probe: Probe, **declared: Any) -> Tool[..., Any]:
    return declared_as(probe=probe, **declared)(some_tools.waits_for)


async def yes_async(call: Call) -> Any:
    assert call.tool == "waits_for"
    assert set(call.args) == {"path"}
    return call.happened({"found": "outside"})


def yes(call: Call) -> Any:
    return call.happened("found outside")


def yes_with_context(ctx: ToolContext, call: Call) -> Any:
    assert (ctx.idempotency_key, ctx.run_id) == (call.idempotency_key, "r1")
    return call.happened(ctx.step == call.idempotency_key.removeprefix("r1-"))


def plainly(said: object) -> Probe:
    def probe(_call: Call) -> object:
        return said

    return probe


HAPPENED: Final[dict[str, tuple[Probe, Any]]] = {
    "async": (yes_async, {"found": "outside"}),
    "sync": (yes, "found outside"),
    "with a context": (yes_with_context, True),
    "plainly": (plainly(True), None),
}


@pytest.mark.parametrize("name", HAPPENED)
async def test_a_call_that_happened_is_not_done_again_and_nobody_is_asked(
    tmp_path: Path, name: str
) -> None:
    probe, result = HAPPENED[name]
    lives, tool = Lives(tmp_path), probed(probe)
    await lives.first(tool)
    async with lives.second(tool) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == result
        [settled] = await happened(runtime, "r1", DoubtSettled)
        assert await happened(runtime, "r1", QuestionAsked) == []
        assert len(await happened(runtime, "r1", StepStarted)) == 1
        receipt = await run.receipt()
    assert (settled.choice, settled.by, settled.source) == (
        "happened",
        "probe of waits_for",
        "policy",
    )
    assert load(settled.result) == result
    assert (receipt.done, receipt.attention) == (("waits_for",), ())


async def test_a_call_that_did_not_happen_is_done_now_with_the_same_key(tmp_path: Path) -> None:
    lives, tool = Lives(tmp_path), probed(plainly(False))
    await lives.first(tool)
    async with lives.second(tool) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "done anew"
        [settled] = await happened(runtime, "r1", DoubtSettled)
        assert await happened(runtime, "r1", QuestionAsked) == []
        started = await happened(runtime, "r1", StepStarted)
    assert (settled.choice, settled.by) == ("run", "probe of waits_for")
    assert [(event.step, event.attempt) for event in started] == [
        (started[0].step, 1),
        (started[0].step, 2),
    ]


async def breaks(_call: Call) -> bool:
    raise ConnectionError("the bank does not answer")


def exits(_call: Call) -> bool:
    raise SystemExit(1)


def cannot_be_stored(call: Call) -> Any:
    return call.happened(object())


UNSURE: Final[dict[str, Probe]] = {
    "says nothing": plainly(None),
    "says something else": plainly("yes"),
    "breaks": breaks,
    "exits": exits,
    "cannot be stored": cannot_be_stored,
}


@pytest.mark.parametrize(
    ("name", "choice"),
    [*((name, "run") for name in UNSURE), *(("breaks", choice) for choice in ("happened", "skip"))],
)
async def test_where_it_cannot_tell_a_person_is_asked_and_only_that_counts(
    tmp_path: Path, name: str, choice: str
) -> None:
    lives, tool = Lives(tmp_path), probed(UNSURE[name])
    await lives.first(tool)
    async with lives.second(tool) as runtime:
        run = await runtime.get("r1")
        asked = await question(run, kind="doubt")
        assert len(await happened(runtime, "r1", StepStarted)) == 1
        answer = {"happened": "by hand"} if choice == "happened" else choice
        assert (await run.answer(asked, answer, by="ana")).holds
        expected = {"happened": "by hand", "run": "done anew", "skip": None}
        assert await run.result() == expected[choice]
        [settled] = await happened(runtime, "r1", DoubtSettled)
        attempts = len(await happened(runtime, "r1", StepStarted))
    assert (settled.choice, settled.by) == (choice, "ana")
    assert attempts == (2 if choice == "run" else 1)


async def test_the_question_outlives_a_restart_and_is_asked_once(tmp_path: Path) -> None:
    lives, tool = Lives(tmp_path), pullcord.tool(some_tools.waits_for)
    await lives.first(tool)
    async with lives.second(tool) as runtime:
        asked = await question(await runtime.get("r1"), kind="doubt")
    async with lives.second(tool) as runtime:
        run = await runtime.get("r1")
        assert await question(run, kind="doubt") == asked
        assert (await run.answer(asked, "run", by="ana")).holds
        assert await run.result() == "done anew"
        assert len(await happened(runtime, "r1", QuestionAsked)) == 1
        assert len(await happened(runtime, "r1", StepInDoubt)) == 1


@pytest.mark.parametrize("effect", ["idempotent", "none"])
async def test_what_may_be_done_again_is_not_asked_about(tmp_path: Path, effect: str) -> None:
    called: list[Call] = []

    async def probe(call: Call) -> None:
        called.append(call)

    lives, tool = Lives(tmp_path), probed(probe, effect=effect)
    await lives.first(tool)
    async with lives.second(tool) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "done anew"
        assert len(await happened(runtime, "r1", StepInterrupted)) == 1
        assert await happened(runtime, "r1", StepInDoubt) == []
        assert await happened(runtime, "r1", QuestionAsked) == []
    assert called == []


def wardens() -> list[int]:
    """The wardens that this process has started, as the kernel knows them."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    said = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, words in said.items() if b"pullcord.warden" in words]


async def test_a_tool_whose_warden_is_gone_is_in_doubt_in_this_very_life(tmp_path: Path) -> None:
    """What a process does that nobody holds, nobody knows."""
    lives, tool = Lives(tmp_path), probed(yes)
    async with lives.second(tool) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await shown(run, "begun\n")
        [warden] = wardens()
        os.kill(warden, signal.SIGKILL)
        assert await run.result() == "found outside"
        [doubt] = await happened(runtime, "r1", StepInDoubt)
        assert len(await happened(runtime, "r1", StepStarted)) == 1
    assert "warden" in doubt.why
