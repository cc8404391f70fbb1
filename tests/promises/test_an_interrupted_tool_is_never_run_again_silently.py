"""Promise: a tool call that `kill -9` has cut off is never run again silently.

A process that drives a run with tools is killed before, inside and after each of its writes. Every
execution is told to the world outside, with its key. What has the effect `once` is carried out at
most once; each interrupted call ends as an outcome, by the word of its probe, or as a durable
question to a person; what is idempotent is begun again with the same key; and nothing of a tool
outlives its runtime.
"""

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Final, TypeVar

import pytest

import pullcord
from pullcord import Record, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import (
    Answered,
    AttentionRaised,
    Cancelled,
    CancelRequested,
    Completed,
    DoubtSettled,
    Event,
    Failed,
    QuestionAsked,
    StepInDoubt,
    StepStarted,
    TextEnded,
)
from pullcord.core.fold import replay
from pullcord.core.values import load
from pullcord.journal.journal import Journal
from pullcord.testing import crash_points
from pullcord.testing.crashing import CrashReport, When
from tests.conftest import FULL
from tests.crash.tools import AGENTS, BOUND_S, SCENARIOS, Line, somebody_is_alive, told

SAMPLED: Final = 0.04
ORPHANS_GONE_S: Final = 2
R: Final = "r1"
E = TypeVar("E", bound=Event)


@pytest.mark.campaign
@pytest.mark.timeout(0 if FULL else 300)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_killed_runtime_leaves_no_tool_that_is_done_twice(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    seed = random.Random(scenario)

    def pick(_at: int, _when: When) -> bool:
        return FULL or seed.random() < SAMPLED

    target = f"tests.crash.tools:{scenario}"
    reports = await asyncio.to_thread(lambda: list(crash_points(target, tmp_path, pick=pick)))
    found = Counter[str]()
    for report in reports:
        try:
            found += await Aftermath(report).is_as_it_must_be()
        except BaseException as error:
            error.add_note(f"{scenario}: killed {report.when} write {report.at}; {report.acked}")
            raise
    print(f"{scenario}: {len(reports)} deaths, {dict(found)}, 0 done twice")


class Aftermath:
    """The file and the world that a dead process left, and the life after it."""

    def __init__(self, report: CrashReport) -> None:
        self.path = report.path
        heard = [line.split() for line in report.acked]
        [self.world] = [line[1] for line in heard if line[0] == "world"] or [""]
        self.is_born = ["ack", "start", "r1", "1"] in heard
        self.cancelled = any(line[:2] == ["ack", "cancel"] for line in heard)

    async def is_as_it_must_be(self) -> Counter[str]:
        if not self.world:
            return Counter(unborn=1)
        await self.assert_nothing_outlives_its_runtime()
        at_death = await self.records()
        if not at_death:
            assert not self.is_born
            return Counter(unborn=1)
        before = told(self.world)
        self.assert_intents_came_first(at_death, before)
        async with (
            asyncio.timeout(BOUND_S),
            pullcord.open(self.path, agents=AGENTS, timing=Timing(quiet_s=0.005)) as runtime,
        ):
            run = await runtime.get(R)
            await self.carry_on(runtime, run, at_death)
        after = await self.records()
        self.assert_one_end(after)
        self.assert_nothing_is_done_twice(after)
        self.assert_nothing_begins_behind_a_cancel(at_death, before)
        self.assert_output_is_not_speech(after)
        return self.assert_what_was_interrupted_is_accounted_for(at_death, after)

    async def records(self) -> list[Record]:
        async with Journal.open(self.path) as journal:
            known = [head.run_id for head in await journal.runs()]
            return await journal.read(R) if R in known else []

    # --- the person ---

    async def carry_on(self, runtime: Runtime, run: RunHandle, at_death: list[Record]) -> None:
        """Resume what is paused, and answer what is asked by what is known outside."""
        if replay(R, at_death).state in (RunState.PAUSING, RunState.PAUSED):
            held = await run.wait_for(*set(RunState) - {RunState.PAUSING})
            assert held.state is RunState.PAUSED, "a pause was forgotten"
            await run.resume(by="operator")
        async with aclosing(run.events()) as events:
            async for _ in events:
                now = await run.snapshot()
                for name in now.open_questions():
                    asked = now.questions[name]
                    assert asked.kind == "doubt", asked
                    has_begun = self.executions()[self.key(asked.step)] > 0
                    answer = {"happened": "by hand"} if has_begun else "run"
                    await run.answer(name, answer, by="operator")

    # --- the laws ---

    @staticmethod
    def key(step: str) -> str:
        return f"{R}-{step}"

    def executions(self) -> Counter[str]:
        return Counter(line.key for line in told(self.world) if line.what == "begun")

    async def assert_nothing_outlives_its_runtime(self) -> None:
        async with asyncio.timeout(ORPHANS_GONE_S):
            while somebody_is_alive(self.world):  # noqa: ASYNC110 (only the kernel knows)
                await asyncio.sleep(0.005)

    def assert_intents_came_first(self, records: list[Record], before: list[Line]) -> None:
        intents = Counter(self.key(event.step) for event in of(records, StepStarted))
        begun = Counter(line.key for line in before if line.what == "begun")
        assert begun <= intents, "a tool was begun before its intent was durable"

    def assert_one_end(self, records: list[Record]) -> None:
        ends = [*of(records, Completed), *of(records, Failed), *of(records, Cancelled)]
        assert len(ends) == 1
        cancelled = bool(of(records, CancelRequested))
        assert isinstance(ends[0], Cancelled if cancelled else Completed), ends
        run = replay(R, records)
        assert not run.open_steps()
        assert not run.open_questions()

    def assert_nothing_is_done_twice(self, records: list[Record]) -> None:
        run = replay(R, records)
        lines = told(self.world)
        for name in {line.tool for line in lines}:
            keys = {line.key for line in lines if line.tool == name}
            assert len(keys) == 1, f"{name} was begun with {keys}"
        attempts = Counter(event.step for event in of(records, StepStarted))
        for step, known in run.steps.items():
            times = self.executions()[self.key(step)]
            assert times <= attempts[step], f"{known.name} was begun without an intent"
            if known.effect == "once":
                assert times <= 1, f"{known.name} may happen once, and was begun {times} times"
            if known.status == "finished":
                assert times >= 1, f"{known.name} is called finished, and was never begun"

    def assert_nothing_begins_behind_a_cancel(
        self, at_death: list[Record], before: list[Line]
    ) -> None:
        if of(at_death, CancelRequested):
            assert told(self.world) == before, "begun behind a cancel"
        assert not self.cancelled or of(at_death, CancelRequested), "a cancel was forgotten"

    def assert_output_is_not_speech(self, records: list[Record]) -> None:
        spoken = [event.text for event in of(records, TextEnded) if not event.step]
        assert set(spoken) <= {"Meanwhile.", ""}, "what a tool has put out was said by nobody"

    def assert_what_was_interrupted_is_accounted_for(
        self, at_death: list[Record], after: list[Record]
    ) -> Counter[str]:
        """Every call with an intent and no decision at death, by what became of it."""
        found = Counter[str]()
        run = replay(R, at_death)
        since = after[len(at_death) :]
        names = {event.step: load(event.args)["name"] for event in of(at_death, StepStarted)}
        for step in run.open_steps():
            known = run.steps[step]
            if of(after, CancelRequested):
                found["stopped"] += 1
            elif known.effect == "once":
                probe = names[step].partition("-")[2]
                found[self.doubt_became(step, probe, since)] += 1
            else:
                assert not [e for e in of(since, QuestionAsked) if e.step == step]
                assert len([e for e in of(since, StepStarted) if e.step == step]) >= 1
                found["begun again"] += 1
        if not found:
            found["nothing in flight"] += 1
        return found

    def doubt_became(self, step: str, probe: str, since: list[Record]) -> str:
        doubts = [event for event in of(since, StepInDoubt) if event.step == step]
        raised = [event for event in of(since, AttentionRaised) if event.item == step]
        settled = [event for event in of(since, DoubtSettled) if event.step == step]
        asked = [event for event in of(since, QuestionAsked) if event.step == step]
        assert len(doubts) == len(settled) == len(raised) == 1, "a doubt that nobody has settled"
        if probe == "knows":
            assert not asked, "a person was asked, though the tool itself could say"
            assert settled[0].by in ("probe of in_process", "probe of in_loop")
            assert settled[0].source == "policy"
            if settled[0].choice == "happened":
                assert load(settled[0].result) == "probed"
                assert "probed" in result_of(since)
            return f"probed: {settled[0].choice}"
        assert len(asked) == 1, "nobody was asked"
        assert asked[0].kind == "doubt"
        answered = [e for e in of(since, Answered) if e.question == asked[0].question]
        assert len(answered) == 1
        assert settled[0].by == "operator"
        return f"asked: {settled[0].choice}"


def of(records: list[Record], kind: type[E]) -> list[E]:
    return [record.event for record in records if isinstance(record.event, kind)]


def result_of(records: list[Record]) -> list[object]:
    [completed] = of(records, Completed)
    return list(load(completed.result))
