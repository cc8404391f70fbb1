"""Promise: a run survives `kill -9` at any moment, and goes on from there.

A process that plays a whole run is killed before, inside and after each of its writes. Another
opens the file it left, a person answers what nobody else can know, and the run comes to the end
it must have: no finished step is repeated, no effect is unaccounted for, no acknowledged control
or instruction is lost, and there is one end.
"""

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest

import pullcord
from pullcord import Record, Run, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import (
    Answered,
    AttentionRaised,
    Cancelled,
    CancelRequested,
    Completed,
    Created,
    Deferred,
    Failed,
    PauseRequested,
    Redirected,
    Released,
    Resumed,
    StepInDoubt,
    StepStarted,
    TextEnded,
)
from pullcord.core.fold import replay
from pullcord.core.states import LIVING
from pullcord.core.values import load
from pullcord.journal.journal import Journal
from pullcord.testing import crash_points
from pullcord.testing.crashing import CrashReport, Scenario, When
from tests.conftest import FULL
from tests.crash.runs import BOUND_S, CHUNKS, DEPLOYED, SCENARIOS, WitnessedWorld, agents

SAMPLED: Final = 0.08
CONTROLS: Final = {
    "start": Created,
    "pause": PauseRequested,
    "resume": Resumed,
    "redirect": Redirected,
    "cancel": CancelRequested,
    "answer": Answered,
}
Records = dict[str, list[Record]]


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("scenario", "version"),
    [
        *((scenario, "1") for scenario in SCENARIOS),
        *((scenario, "2") for scenario in DEPLOYED),
    ],
    ids=lambda given: getattr(given, "__name__", f"version-{given}"),
)
async def test_a_killed_run_goes_on_to_the_end_it_must_have(
    scenario: Scenario, version: str, tmp_path: Path
) -> None:
    name = getattr(scenario, "__name__", "")
    seed = random.Random(f"{name} {version}")

    def pick(_at: int, _when: When) -> bool:
        return FULL or seed.random() < SAMPLED

    target = f"tests.crash.runs:{name}"
    reports = await asyncio.to_thread(lambda: list(crash_points(target, tmp_path, pick=pick)))
    for report in reports:
        try:
            await Aftermath(report).is_as_it_must_be(version)
        except BaseException as error:
            error.add_note(f"{name}: killed {report.when} write {report.at}; {report.acked}")
            raise
    print(f"{len(reports)} crash points, 0 repeated, 0 unaccounted, 0 lost")


class Aftermath:
    """The file a dead process left, and what it was heard to do."""

    def __init__(self, report: CrashReport) -> None:
        self.path = report.path
        self.may_skip = report.at % 2 == 0
        self.heard = [line.split(maxsplit=3) for line in report.acked]
        self.effects = Counter[tuple[str, str]]()
        self.done_since: list[tuple[str, str]] = []
        for what, run_id, name, *_ in self.heard:
            if what == "effect":
                self.effects[run_id, name] += 1

    async def is_as_it_must_be(self, version: str) -> None:
        async with Journal.open(self.path) as journal:
            at_death = await everything(journal)
        self.assert_nothing_heard_is_missing(at_death)
        world = WitnessedWorld(self._hear)
        timing = Timing(quiet_s=0.005, stop_grace_s=0.1)
        known = agents(world, version=version)
        async with (
            asyncio.timeout(BOUND_S),
            pullcord.open(self.path, agents=known, timing=timing) as runtime,
        ):
            await self.assert_held_runs_are_held(runtime, at_death)
            while living := await runtime.list(states=LIVING, limit=100):
                await asyncio.gather(*(self._carry_on(runtime, head.run_id) for head in living))
            at_the_end = await everything(runtime.journal)
        for run_id, records in at_the_end.items():
            run = replay(run_id, records)
            self.assert_one_end(run, records, at_death.get(run_id, []))
            self.assert_effects_are_accounted_for(run, records)
            self.assert_doubts_are_visible(run, records)
            self.assert_instructions_are_settled(run, records)
            self.assert_what_was_held_is_released(run, records)
            self.assert_text_is_kept(run, records)
            self.assert_a_fork_repeats_nothing(run, records, at_the_end)
        assert {run_id for run_id, _ in self.effects} <= set(at_the_end)

    def _hear(self, line: str) -> None:
        self.heard.append(line.split(maxsplit=3))
        what, run_id, name, *_ = self.heard[-1]
        if what == "effect":
            self.effects[run_id, name] += 1
            self.done_since.append((run_id, name))

    # --- the person ---

    async def _carry_on(self, runtime: Runtime, run_id: str) -> None:
        """Resume what is paused and answer what is open, by what is known outside, to the end."""
        run = await runtime.get(run_id)
        async with aclosing(run.events()) as events:
            async for _ in events:
                await self._help(run, await run.snapshot())

    async def _help(self, run: RunHandle, now: Run) -> None:
        if now.state is RunState.PAUSED and not (now.pause and now.pause.source == "parent"):
            await run.resume(by="operator")
        for name in now.open_questions():
            asked = now.questions[name]
            if asked.kind == "doubt":
                await run.answer(name, self._what_happened(run.id, now.steps[asked.step].name))
            elif asked.kind == "question":
                choice = "run" if name.startswith(("doubt", "changed")) else "yes"
                await run.answer(name, choice)

    def _what_happened(self, run_id: str, step: str) -> object:
        if self.effects[run_id, step]:
            return {"happened": step}
        return "skip" if self.may_skip else "run"

    # --- the laws ---

    def assert_nothing_heard_is_missing(self, at_death: Records) -> None:
        intents = Counter(
            (run_id, record.event.name)
            for run_id, records in at_death.items()
            for record in records
            if isinstance(record.event, StepStarted)
        )
        assert self.effects <= intents, "an effect before its intent was durable"
        for what, *rest in self.heard:
            if what == "ack":
                verb, run_id, seq = rest
                assert isinstance(at_death[run_id][int(seq) - 1].event, CONTROLS[verb]), rest

    async def assert_held_runs_are_held(self, runtime: Runtime, at_death: Records) -> None:
        for run_id, records in at_death.items():
            if replay(run_id, records).state in (RunState.PAUSING, RunState.PAUSED):
                run = await runtime.get(run_id)
                now = await run.wait_for(*set(RunState) - {RunState.PAUSING})
                assert now.state is RunState.PAUSED, "a pause was forgotten"
                assert run_id not in {name for name, _ in self.done_since}

    def assert_one_end(self, run: Run, records: list[Record], before: list[Record]) -> None:
        ends = [r.event for r in records if isinstance(r.event, Completed | Failed | Cancelled)]
        was_cancelled = any(isinstance(record.event, CancelRequested) for record in before)
        assert len(ends) == 1
        assert records[: len(before)] == before, "what was durable has changed"
        assert isinstance(ends[0], Cancelled) == was_cancelled, "a cancel was forgotten"
        if was_cancelled:
            assert run.id not in {name for name, _ in self.done_since}, "begun after a cancel"
        assert not run.open_steps()
        assert not run.open_questions()

    def assert_effects_are_accounted_for(self, run: Run, records: list[Record]) -> None:
        attempts = Counter(r.event.name for r in records if isinstance(r.event, StepStarted))
        for (run_id, name), times in self.effects.items():
            assert run_id != run.id or times <= attempts[name], f"{name}: an effect too many"
        for step in run.steps.values():
            times = self.effects[run.id, step.name]
            if step.effect == "once":
                assert times <= 1, f"{step.name} may happen once, and happened {times} times"
            if step.status == "finished":
                assert times >= 1, f"{step.name} is called finished, and never happened"
            if step.settled == "skip":
                assert times == 0, f"{step.name} was skipped, and happened"

    def assert_doubts_are_visible(self, run: Run, records: list[Record]) -> None:
        raised = {r.event.item for r in records if isinstance(r.event, AttentionRaised)}
        for step in (r.event.step for r in records if isinstance(r.event, StepInDoubt)):
            assert step in raised, "a doubt that nobody is shown"
            known = run.steps[step]
            assert known.status != "in_doubt" or known.settled or step in run.attention

    def assert_instructions_are_settled(self, run: Run, records: list[Record]) -> None:
        told = {r.seq: r.event.instruction for r in records if isinstance(r.event, Redirected)}
        assert set(run.instructions) == set(told)
        read = result_of(records)
        for number, known in run.instructions.items():
            assert known.status in ("delivered", "returned"), known
            same_item = [n for n, other in run.instructions.items() if other.item == known.item]
            overruled = bool(known.item) and number != same_item[-1]
            if run.state is RunState.COMPLETED and run.agent in ("listener", "planner"):
                expected = known.status == "delivered" and not overruled
                assert read.count(told[number]) == expected, (known, read)

    def assert_what_was_held_is_released(self, run: Run, records: list[Record]) -> None:
        held = [record.event for record in records if isinstance(record.event, Deferred)]
        done = [record.event for record in records if isinstance(record.event, Released)]
        assert [event.defer for event in done] == [event.defer for event in reversed(held)]
        for event in held:
            assert ["release", run.id, event.name] in self.heard
        assert not [event.error for event in done if event.error]

    def assert_text_is_kept(self, run: Run, records: list[Record]) -> None:
        ended = [record.event for record in records if isinstance(record.event, TextEnded)]
        streamed = [event.text for event in ended if CHUNKS[0].startswith(event.text[:4])]
        full = "".join(CHUNKS)
        assert all(full.startswith(text) for text in streamed)
        shown = [int(line[2]) for line in self.heard if line[:2] == ["shown", run.id]]
        if shown:
            assert max(map(len, streamed)) >= max(shown), "text that was shown is not kept"
        if run.agent == "talker" and run.state is RunState.COMPLETED:
            assert [event.text for event in ended if event.complete] == ["Here they are: ", full]

    def assert_a_fork_repeats_nothing(self, run: Run, records: list[Record], all_: Records) -> None:
        if run.forked_from is None:
            return
        source = all_[run.forked_from][: run.forked_at]
        before = replay(run.forked_from, source)
        finished = {step.name for step in before.steps.values() if step.status == "finished"}
        begun = {step.name for step in run.steps.values()}
        assert not finished & begun, "a fork repeated what was finished"


async def everything(journal: Journal) -> Records:
    heads = await journal.runs(limit=1000)
    return {head.run_id: await journal.read(head.run_id) for head in heads}


def result_of(records: list[Record]) -> list[object]:
    for record in records:
        if isinstance(record.event, Completed):
            return list(load(record.event.result))
    return []
