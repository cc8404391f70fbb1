"""Promise: what is executed is what was approved, to the letter, and not more often.

A process in which calls are asked about, approved, edited, denied and made is killed before,
inside and after each of its writes. Another takes over what it left: the same program, one that
means other arguments, or one with another policy. Every old answer is given once more. What was
executed is known from outside, as a print of what the tool was really handed.
"""

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import pytest

import pullcord
from pullcord import Record, Run, RunHandle, RunState, Timing
from pullcord.core.events import (
    Answered,
    Cancelled,
    CancelRequested,
    Completed,
    Failed,
    QuestionAsked,
    StepStarted,
)
from pullcord.core.fold import replay
from pullcord.core.states import LIVING
from pullcord.core.values import load
from pullcord.errors import RunNotFound
from pullcord.journal.journal import Journal
from pullcord.testing import crash_points
from pullcord.testing.crashing import CrashReport, Scenario, When
from tests.conftest import FULL
from tests.promises.approvals import BOUND_S, SCENARIOS, Bank, agents, shown_on

SAMPLED: Final = 0.05
VERSIONS: Final = {"1": "the same program", "2": "other arguments", "3": "another policy"}


@pytest.mark.campaign
@pytest.mark.timeout(3600 if FULL else 120)
@pytest.mark.parametrize("version", VERSIONS, ids=VERSIONS.get)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_after_a_crash_anywhere_only_approved_calls_are_made_and_each_once(
    scenario: Scenario, version: str, tmp_path: Path
) -> None:
    name = getattr(scenario, "__name__", "")
    seed = random.Random(f"{name} {version}")

    def pick(_at: int, _when: When) -> bool:
        return FULL or seed.random() < SAMPLED

    target = f"tests.promises.approvals:{name}"
    reports = await asyncio.to_thread(lambda: list(crash_points(target, tmp_path, pick=pick)))
    executions = 0
    for report in reports:
        after = Aftermath(report)
        try:
            await after.is_as_it_must_be(version)
        except BaseException as error:
            error.add_note(f"{name}: killed {report.when} write {report.at}; {report.acked}")
            raise
        executions += sum(after.executed.values())
    print(f"{len(reports)} crash points, {executions} executions, 0 unapproved, 0 double")


class Aftermath:
    """The file that a dead process left, and what was heard of it outside."""

    def __init__(self, report: CrashReport) -> None:
        self.path, self.report = report.path, report
        self.says_yes = report.at % 2 == 0
        self.executed = Counter[str]()  # print → how often
        self.attempts = Counter[tuple[str, str]]()
        self.approved: set[str] = set()  # prints that somebody has said yes to
        self.unapproved: list[str] = []  # executed before anybody had said yes
        self.acked: list[tuple[int, str]] = []
        self.records: list[Record] = []  # as they are now
        for line in report.acked:
            self._hear(line)

    def _hear(self, line: str) -> None:
        what, _, call, about = line.split()
        match what:
            case "executed":
                if call not in self.approved:
                    self.unapproved.append(call)
                self.executed[call] += 1
                self.attempts[call, about] += 1
            case "approved":
                self.approved.add(call)
            case "acked":
                self.acked.append((int(call), about))
            case _:
                pass

    async def is_as_it_must_be(self, version: str) -> None:
        async with Journal.open(self.path) as journal:
            before = await self._records(journal)
        self.assert_what_was_acknowledged_is_there(before)
        self.assert_nothing_unapproved_was_executed()
        bank = Bank(self._hear)
        known, timing = agents(bank, version=version), Timing(quiet_s=0.002, stop_grace_s=0.1)
        async with (
            asyncio.timeout(BOUND_S),
            pullcord.open(self.path, agents=known, timing=timing) as runtime,
        ):
            while living := await runtime.list(states=LIVING):
                run = await runtime.get(living[0].run_id)
                await self._answer_again_what_was_answered(run)
                await self._carry_on(run, runtime.journal)
            after = await self._records(runtime.journal)
            if after:
                await self._answer_again_what_was_answered(await runtime.get("r1"))
                assert await self._records(runtime.journal) == after
        self.assert_nothing_unapproved_was_executed()
        if after:
            self.assert_every_start_was_allowed(after)
            self.assert_nothing_was_done_twice(after)
            self.assert_nothing_was_asked_twice(before, after, version)
            self.assert_it_ended_as_it_must(before, after)

    # --- somebody at the desk ---

    async def _carry_on(self, run: RunHandle, journal: Journal) -> None:
        """Judge what is open, by what is known outside, until the run has ended."""
        async with aclosing(run.events()) as events:
            async for _ in events:
                now = await run.snapshot()
                self.records = await self._records(journal)
                if now.state is RunState.PAUSED:
                    await run.resume(by="bo")
                for name in now.open_questions():
                    await self._judge(run, now, name)

    async def _judge(self, run: RunHandle, now: Run, name: str) -> None:
        asked, cards = now.questions[name], cards_in(self.records)
        if asked.kind == "doubt":
            mine = {shown_on(run.id, card) for card in cards.values() if card.step == asked.step}
            was_made = bool(mine & set(self.executed))
            await run.answer(name, {"happened": "paid"} if was_made else "run", by="bo")
        elif self.says_yes:
            self._hear(f"approved {run.id} {shown_on(run.id, cards[name])} {name}")
            await run.approve(name, call=asked.call, by="bo")
        else:
            await run.deny(name, by="bo", reason="no")

    async def _answer_again_what_was_answered(self, run: RunHandle) -> None:
        """A replayed answer is too late; the digest of another card is refused."""
        now = await run.snapshot()
        settled = [name for name, asked in now.questions.items() if asked.status != "open"]
        for name in settled:
            assert (await run.approve(name, by="eve")).verdict == "too_late"
        for name in now.open_questions():
            for other in settled:
                call = now.questions[other].call
                if call != now.questions[name].call and now.questions[name].kind == "approval":
                    ack = await run.approve(name, call=call, by="eve")
                    assert ack.verdict in ("rejected", "too_late"), ack

    # --- the laws ---

    def assert_what_was_acknowledged_is_there(self, records: list[Record]) -> None:
        for seq, question in self.acked:
            event = records[seq - 1].event
            assert isinstance(event, Answered)
            assert event.question == question

    def assert_nothing_unapproved_was_executed(self) -> None:
        assert self.unapproved == [], "executed, and nobody has approved it"

    def assert_every_start_was_allowed(self, records: list[Record]) -> None:
        cards, allowed = cards_in(records), set[str]()
        yes = {
            record.event.question: record.seq
            for record in records
            if isinstance(record.event, Answered) and record.event.verdict == "approved"
        }
        for record in records:
            if isinstance(event := record.event, StepStarted):
                card = cards[event.approval]
                assert (card.step, card.call) == (event.step, event.call)
                assert args_of(card) == load(event.args), "begun with what was not on the card"
                assert yes[event.approval] < record.seq
                allowed.add(shown_on("r1", card))
        assert set(self.executed) <= allowed, "executed, and no intent says so"

    def assert_nothing_was_done_twice(self, records: list[Record]) -> None:
        starts = [r.event for r in records if isinstance(r.event, StepStarted)]
        cards = cards_in(records)
        for (call, attempt), times in self.attempts.items():
            assert times == 1, f"attempt {attempt} of {call} was made {times} times"
        for name, times in Counter(event.approval for event in starts).items():
            mine = [event for event in starts if event.approval == name]
            assert len({event.step for event in mine}) == 1, "one approval, two calls"
            if mine[0].effect == "once":
                made = self.executed[shown_on("r1", cards[name])]
                assert made <= 1, "a call was made twice by one approval"
                assert times <= 2, "begun again, and nobody has said so"

    def assert_nothing_was_asked_twice(
        self, before: list[Record], after: list[Record], version: str
    ) -> None:
        """Whoever has said yes to a call is not asked again about it by the same program."""
        yes = {
            r.event.question
            for r in before
            if isinstance(r.event, Answered) and r.event.verdict == "approved"
        }
        cards = [r.event for r in before if isinstance(r.event, QuestionAsked)]
        approved = {card.call for card in cards if card.question in yes}
        since = [r.event for r in after[len(before) :] if isinstance(r.event, QuestionAsked)]
        if version == "1":
            again = [card.call for card in since if card.kind == "approval"]
            assert not approved & set(again), "asked again about what was approved"
            assert not {c.call for c in cards if c.question in self._denied(before)} & set(again)

    def _denied(self, records: list[Record]) -> set[str]:
        answers = [r.event for r in records if isinstance(r.event, Answered)]
        return {answer.question for answer in answers if answer.verdict == "denied"}

    def assert_it_ended_as_it_must(self, before: list[Record], after: list[Record]) -> None:
        run = replay("r1", after)
        ends = [r.event for r in after if isinstance(r.event, Completed | Failed | Cancelled)]
        assert len(ends) == 1
        assert not isinstance(ends[0], Failed), run.error
        assert run.open_questions() == []
        assert after[: len(before)] == before
        if any(isinstance(record.event, CancelRequested) for record in before):
            assert isinstance(ends[0], Cancelled)
            since = [record.event for record in after[len(before) :]]
            assert not [event for event in since if isinstance(event, StepStarted | QuestionAsked)]

    async def _records(self, journal: Journal) -> list[Record]:
        try:
            return await journal.read("r1")
        except RunNotFound:
            return []


def cards_in(records: list[Record]) -> dict[str, QuestionAsked]:
    asked = [r.event for r in records if isinstance(r.event, QuestionAsked)]
    return {event.question: event for event in asked if event.kind == "approval"}


def args_of(card: QuestionAsked) -> dict[str, Any]:
    return load(card.details)["args"]
