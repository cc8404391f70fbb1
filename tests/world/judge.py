"""The judge: compares what the witness saw with what people were told, by a reading of its own.

It folds the records itself, step by step and attempt by attempt; of Pullcord it uses the events'
types and nothing that makes receipts. The names by which a record says that something may still
act stand at the top, in one place.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from pullcord import Record
from pullcord.core import events as e
from tests.world.stage import Told
from tests.world.witness import Effect

NAMING_ATTENTION: Final = {"not_stoppable", "still_running"}
"""Kinds of attention items that say: the step it is about may still be going on."""
NAMING_FIELDS: Final = ("may_act", "still_running")
"""Fields of an event about a step (`step` or `item`) that say the same, if anything is in them."""
LATE: Final = (e.LateResult,)
"""Events that say: it did happen, after it was decided otherwise."""
ENDS: Final = (e.Cancelled, e.Completed, e.Stopped, e.Failed)
OVER: Final = (e.StepFinished, e.StepFailed, e.StepInterrupted)
"""Decisions after which nothing of an attempt may act. In doubt is not one of them."""
EACH: Final = "*"
"""Stands for every step on a card, if one word is said for all of them."""
TOKEN: Final = re.compile(r"tok-[a-z0-9.-]+")
_EARLY_S: Final = 0.1  # by which the store's clock may be off the machine's
_SLACK_S: Final = 0.25  # by which that may still be too late: people are told afterwards


class Violation(NamedTuple):
    law: str  # accounted, over, switch, once, ends, done, control
    run: str
    step: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"[{self.law}] {self.run} {self.step} ({self.kind}): {self.text}"


class Pull(NamedTuple):
    """One pull of the kill switch: when it was said to be in effect, and what it has named."""

    agent: str  # empty: everything
    told_at: float
    released_at: float
    named: list[str]


class Asked(NamedTuple):
    """A control that was acknowledged as applied."""

    run: str
    verb: str
    sent_at: float
    seq: int


@dataclass(kw_only=True)
class Evidence:
    """All that is known of one world when it is over."""

    seed: str
    effects: list[Effect]
    told: dict[str, list[Told]]
    records: dict[str, list[Record]]
    states: dict[str, str] = field(default_factory=dict[str, str])
    receipts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    pulls: list[Pull] = field(default_factory=list[Pull])
    asked: list[Asked] = field(default_factory=list[Asked])
    resumed: dict[str, list[float]] = field(
        default_factory=lambda: defaultdict[str, list[float]](list)
    )
    shut_down: dict[str, float] = field(default_factory=dict[str, float])  # actor → when
    is_finished: bool = True  # it came to what it was to come to
    wall_to_boot_s: float = 0.0  # add to a record's steady time to have boot time
    tale: str = ""  # of a world that did not come to rest: what everybody was doing


@dataclass
class Attempt:
    """One attempt of a step, as the records tell it."""

    run: str
    step: str
    number: int
    name: str
    token: str
    effect: str
    model: str
    pid: str  # of the process that began it
    started_at: float
    decided: "e.Event | None" = None
    decided_seq: int = 0
    decided_at: float = float("inf")
    late: bool = False
    settled: str = ""  # by a person: happened, run, skip
    undo: str = ""
    named_seq: int = 0  # the record that says it may still act; 0: none does


@dataclass
class Story:
    """One run, read by the judge itself."""

    run: str
    agent: str = ""
    token: str = ""
    pid: str = ""  # of the process that owns it
    line: tuple[str, ...] = ()  # it, and the runs that it goes on from
    parent: str = ""
    attempts: dict[tuple[str, int], Attempt] = field(default_factory=dict[tuple[str, int], Attempt])
    latest: dict[str, Attempt] = field(default_factory=dict[str, Attempt])
    words: Counter[str] = field(default_factory=Counter[str])  # step → times a person said "run"
    open_questions: set[str] = field(default_factory=set[str])
    end_seq: int = 0
    undos: set[str] = field(default_factory=set[str])


class Call(NamedTuple):
    """One time that a function was really called, and what it did."""

    attempt: Attempt
    effects: list[Effect]


def judge(evidence: Evidence) -> list[Violation]:
    return list(_Judge(evidence).finds())


class _Judge:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._stories = {
            run: _read(run, records, evidence) for run, records in evidence.records.items()
        }
        self._told_at = {
            (run, one.record.seq): one.at for run, told in evidence.told.items() for one in told
        }
        self._calls: list[Call] = []
        self._unknown: list[Violation] = []
        self._undos: set[tuple[str, str]] = set()  # (run, token) that were witnessed
        self._attribute()

    def finds(self) -> Iterator[Violation]:
        yield from self._unknown
        for call in self._calls:
            yield from self._is_accounted(call)
            yield from self._is_over(call)
        yield from self._obeys_the_switch()
        yield from self._happens_once()
        yield from self._is_done_what_is_said()
        yield from self._ends()
        yield from self._keeps_controls()

    # --- which record each call belongs to ---

    def _attribute(self) -> None:
        groups: dict[str, list[Effect]] = defaultdict(list)
        for effect in self._evidence.effects:
            groups[effect.call].append(effect)
        for effects in groups.values():
            first = effects[0]
            if first.kind == "undo":
                self._attribute_undo(first)
            elif attempt := self._attempt_of(first):
                self._calls.append(Call(attempt, effects))
            else:
                text = f"{first.what} of {first.token} by {first.actor}: no record says it began"
                run = first.run or self._by_token(first.token)
                self._unknown.append(Violation("accounted", run, first.step, first.kind, text))

    def _by_token(self, token: str) -> str:
        return next((run for run, story in self._stories.items() if story.token == token), "")

    def _attribute_undo(self, effect: Effect) -> None:
        run = effect.run
        self._undos.add((run, effect.token))
        story = self._stories.get(run)
        steps = (
            {a.step for a in story.attempts.values() if a.token == effect.token}
            if story
            else set[str]()
        )
        if not story or not steps & story.undos:
            text = f"{effect.token} was undone, and no record says that this began"
            self._unknown.append(Violation("accounted", run, effect.step, "undo", text))

    def _attempt_of(self, effect: Effect) -> Attempt | None:
        if effect.run:
            story = self._stories.get(effect.run)
            return story.attempts.get((effect.step, effect.attempt)) if story else None
        is_model = effect.kind == "model"
        found = [
            attempt
            for story in self._stories.values()
            for attempt in story.attempts.values()
            if (
                bool(attempt.model) and story.token == effect.token
                if is_model
                else attempt.token == effect.token
            )
        ]
        pid = effect.actor.partition(":")[2]
        found = [a for a in found if a.pid == pid] or found
        # Two forks of one run may make the same call at the same time: each is meant once.
        taken = {id(call.attempt) for call in self._calls}
        found = [
            a for a in found if id(a) not in taken and a.started_at <= effect.at <= a.decided_at
        ] or found
        before = [a for a in found if a.started_at <= effect.at]
        soon = [a for a in found if effect.at < a.started_at <= effect.at + _SLACK_S]
        if last := max(before, key=lambda a: a.started_at, default=None):
            # One that was decided by then is to blame only if no other can have been meant.
            return last if not soon or effect.at <= last.decided_at else soon[0]
        return max(soon, key=lambda a: a.started_at, default=None)

    # --- the laws ---

    def _is_accounted(self, call: Call) -> Iterator[Violation]:
        """Every effect is done, undone, late, in doubt, cut or still running by some receipt."""
        attempt = call.attempt
        decided = attempt.decided
        shown = self._evidence.receipts.get(attempt.run, {})
        lines = [line for line in shown.get("steps", ()) if not line.get("run")]
        heading = next((line["heading"] for line in lines if line["step"] == attempt.step), "")
        is_last = self._stories[attempt.run].latest[attempt.step] is attempt
        says_nothing = isinstance(decided, e.StepInterrupted) and not decided.began
        if (says_nothing and not attempt.late) or (is_last and heading == "not_attempted"):
            text = f"it began ({call.effects[0].actor}), and the receipt says that it did not"
            yield self._violation("accounted", attempt, call, text)
        elif shown and is_last and not heading:
            yield self._violation("accounted", attempt, call, "no receipt has it")
        if call.effects[0].at < attempt.started_at - _EARLY_S:
            early = (attempt.started_at - call.effects[0].at) * 1000
            text = f"it began {early:.0f} ms before its intent was recorded"
            yield self._violation("accounted", attempt, call, text)

    def _is_over(self, call: Call) -> Iterator[Violation]:
        """Nothing acts after somebody was told that it is over, but for what was named before."""
        attempt = call.attempt
        decided = attempt.decided
        if isinstance(decided, e.StepInterrupted) and decided.rung == "stop_requested":
            return  # people are told that another side was asked to stop, and has not confirmed it
        shut_down = self._evidence.shut_down.get(call.effects[0].actor, float("inf"))
        for why, told_at, until, seq in self._overs(attempt, shut_down):
            late = [one for one in call.effects if told_at < one.at < until]
            is_named = 0 < attempt.named_seq <= seq
            if late and not is_named:
                first, last = late[0].at - told_at, late[-1].at - told_at
                words = ", ".join(
                    f"{n} {what}" for what, n in Counter(x.what for x in late).items()
                )
                span = f"{first * 1000:.0f} ms to {last * 1000:.0f} ms"
                text = f"{words} by {late[0].actor}, {span} after people were told: {why}"
                yield self._violation("over", attempt, call, text)
                return

    def _overs(self, attempt: Attempt, shut_down: float) -> Iterator[tuple[str, float, float, int]]:
        """What was said, when, until when it counts, and which record is the last that may name. A
        tool that stands still does so, as people are told, as long as its process lives: one that
        is shut down lets it go on for its grace."""
        for_ever = float("inf")
        run = attempt.run
        if isinstance(attempt.decided, OVER):
            at = self._told_at.get((run, attempt.decided_seq))
            if at is not None:
                yield type(attempt.decided).__name__, at, for_ever, attempt.decided_seq + 2
        before = ""
        for told in self._evidence.told.get(run, ()):
            if isinstance(told.record.event, ENDS):
                yield type(told.record.event).__name__, told.at, for_ever, told.record.seq
            elif told.state == "paused" != before:
                sent = [at for at in self._resumes(run) if at > told.at]
                sent += self._resumed_since(run, _at(run, told.record, self._evidence))
                if attempt.name in getattr(told.record.event, "frozen", ()):
                    sent.append(shut_down)
                yield "paused", told.at, min([*sent, for_ever]), told.record.seq
            before = told.state

    def _resumes(self, run: str) -> Iterator[float]:
        """When a resume was sent, to the run or to one that it works for."""
        while run in self._stories:
            yield from self._evidence.resumed.get(run, ())
            run = self._stories[run].parent

    def _resumed_since(self, run: str, paused_at: float) -> Iterator[float]:
        """When the next resume was recorded, also if whoever pressed it saw the pause before the
        one who tells us of it did."""
        while run in self._stories:
            for record in self._evidence.records[run]:
                at = _at(run, record, self._evidence)
                if isinstance(record.event, e.Resumed) and at >= paused_at:
                    yield at
            run = self._stories[run].parent

    def _obeys_the_switch(self) -> Iterator[Violation]:
        """Between the kill switch's word and its release nothing acts but what it has named."""
        for pull in self._evidence.pulls:
            for call in self._calls:
                story = self._stories[call.attempt.run]
                if pull.agent and pull.agent != story.agent:
                    continue
                late = [x for x in call.effects if pull.told_at < x.at < pull.released_at]
                if late and not self._is_left(pull, call):
                    words = f"{len(late)} effects by {late[0].actor} while the kill switch held"
                    first = (late[0].at - pull.told_at) * 1000
                    text = (
                        f"{words}, the first {first:.0f} ms after its word; it named {pull.named}"
                    )
                    yield self._violation("switch", call.attempt, call, text)

    def _is_left(self, pull: Pull, call: Call) -> bool:
        pids = {str(call.effects[0].pid), call.effects[0].actor.partition(":")[2]}
        return any(
            call.attempt.run in text or any(re.search(rf"\bprocess {pid}\b", text) for pid in pids)
            for text in pull.named
        )

    def _happens_once(self) -> Iterator[Violation]:
        """`once` is begun once in a line of runs that go on from each other, and once more for each
        time that a person said so of that step. Who tries a child again, and its parent too, has
        asked for two lines."""
        begun: dict[str, list[Call]] = defaultdict(list)
        for call in self._calls:
            decided = call.attempt.decided
            failed = isinstance(decided, e.StepFailed) and not decided.happened and not decided.rung
            is_undone = call.attempt.undo == "undone"  # it may be done again
            if call.attempt.effect == "once" and call.attempt.token and not (failed or is_undone):
                begun[call.attempt.token].append(call)
        for every in begun.values():
            yield from self._repeated(every)

    def _line(self, run: str) -> frozenset[str]:
        """The runs whose work this one may not do again: those that it goes on from, and the
        children of those that its parent goes on from, whether it says so or not."""
        story = self._stories[run]
        line = set(story.line)
        if story.parent in self._stories:
            above = self._line(story.parent)
            line |= {child.run for child in self._stories.values() if child.parent in above}
        return frozenset(line)

    def _repeated(self, every: list[Call]) -> Iterator[Violation]:
        for line in {self._line(call.attempt.run) for call in every}:
            calls = [call for call in every if call.attempt.run in line]
            steps = {call.attempt.step for call in calls}
            words = sum(
                story.words[step]
                for story in self._stories.values()
                if story.run in line
                for step in (*steps, EACH)
            )
            if len(calls) > 1 + words:
                runs = [f"{c.attempt.run}#{c.attempt.number}" for c in calls]
                text = f"begun {len(calls)} times ({', '.join(runs)}), with {words} words for it"
                yield self._violation("once", calls[-1].attempt, calls[-1], text)
                return

    def _is_done_what_is_said(self) -> Iterator[Violation]:
        """What a step itself reported as done, or undone, was witnessed."""
        ended = {
            (c.attempt.run, c.attempt.step, c.attempt.number)
            for c in self._calls
            if any(one.what == "end" for one in c.effects)
        }
        for story in self._stories.values():
            for attempt in story.attempts.values():
                key = (attempt.run, attempt.step, attempt.number)
                is_said = isinstance(attempt.decided, e.StepFinished) and not attempt.settled
                if is_said and attempt.token and key not in ended:
                    text = "it is called finished, and the witness saw no end of it"
                    yield Violation("done", attempt.run, attempt.step, attempt.name, text)
                if attempt.undo == "undone" and (attempt.run, attempt.token) not in self._undos:
                    text = "it is called undone, and the witness saw no undo"
                    yield Violation("done", attempt.run, attempt.step, attempt.name, text)

    def _ends(self) -> Iterator[Violation]:
        """Every run ends, or says whom it waits for."""
        if not self._evidence.is_finished:
            text = "it was waited for in vain: people were never told that it is over"
            yield Violation("ends", self._evidence.seed, "", "", text)
        awaited = {story.parent for story in self._stories.values() if not story.end_seq}
        for story in self._stories.values():
            state = self._evidence.states.get(story.run, "unknown")
            is_asking = state == "waiting" and (story.open_questions or story.run in awaited)
            if not story.end_seq and state != "paused" and not is_asking:
                text = f"it has not ended and asks nobody: {state}"
                yield Violation("ends", story.run, "", "", text)

    def _keeps_controls(self) -> Iterator[Violation]:
        """What was acknowledged as applied is in the journal, at the number that was said."""
        for asked in self._evidence.asked:
            records = self._evidence.records.get(asked.run, [])
            if not any(record.seq == asked.seq for record in records):
                text = f"{asked.verb} was acknowledged as record {asked.seq}, which is not there"
                yield Violation("control", asked.run, "", "", text)

    def _violation(self, law: str, attempt: Attempt, call: Call, text: str) -> Violation:
        return Violation(law, attempt.run, attempt.step, call.effects[0].kind, text)


# --- reading a run --------------------------------------------------------------------------------


def _read(run: str, records: list[Record], evidence: Evidence) -> Story:
    story = Story(run, line=(run,))
    for record in records:
        _take(story, record, evidence)
    return story


def _take(story: Story, record: Record, evidence: Evidence) -> None:
    _hear_names(story, record)
    match record.event:
        case e.Created() as born:
            found = TOKEN.search(bytes(born.input).decode())
            story.agent, story.token = born.agent, found[0] if found else ""
            story.parent = born.parent or ""
            if born.forked_from:
                story.line = (story.run, *_line_of(born.forked_from, evidence))
        case e.Claimed() as claimed:
            story.pid = claimed.owner.split("-")[1]
        case e.StepStarted() as begun:
            found = TOKEN.search(bytes(begun.args).decode()) if not begun.model else None
            attempt = Attempt(
                story.run,
                begun.step,
                begun.attempt,
                begun.name,
                found[0] if found else "",
                begun.effect,
                begun.model,
                story.pid,
                _at(story.run, record, evidence),
            )
            story.attempts[begun.step, begun.attempt] = story.latest[begun.step] = attempt
        case e.StepFinished() | e.StepFailed() | e.StepInterrupted() | e.StepInDoubt() as decided:
            attempt = _named(story, decided.step, decided.attempt)
            attempt.decided, attempt.decided_seq = decided, record.seq
            attempt.decided_at = _at(story.run, record, evidence)
        case e.DoubtSettled() as said:
            story.latest[said.step].settled = said.choice
            if said.choice == "run" and said.source == "person":
                story.words[said.step] += 1
        case e.Answered() as said:
            story.open_questions.discard(said.question)
            _hear_answer(story, said)
        case e.UndoStarted() as undo:
            story.undos.add(undo.step)
        case e.StepUndone() as undone:
            story.latest[undone.step].undo = "undone"
        case e.QuestionAsked() as asked:
            story.open_questions.add(asked.question)
        case e.QuestionWithdrawn() as withdrawn:
            story.open_questions.discard(withdrawn.question)
        case _:
            _take_rest(story, record)


def _take_rest(story: Story, record: Record) -> None:
    event = record.event
    if isinstance(event, LATE) and event.step:
        _named(story, event.step, event.attempt).late = True
    if isinstance(event, ENDS):
        story.end_seq = record.seq


def _at(run: str, record: Record, evidence: Evidence) -> float:
    """When it was recorded, at the latest: by the store's clock (which a server's process may only
    estimate), or when a person was shown it."""
    told = [one.at for one in evidence.told.get(run, ()) if one.record.seq == record.seq]
    return min([record.steady_ms / 1000 + evidence.wall_to_boot_s, *told])


def _hear_names(story: Story, record: Record) -> None:
    """Whether this record says of an attempt that it may still be going on."""
    event = record.event
    about = getattr(event, "step", "") or getattr(event, "item", "")
    if not isinstance(about, str) or about not in story.latest:
        return
    is_naming = any(getattr(event, name, None) for name in NAMING_FIELDS)
    if is_naming or getattr(event, "kind", "") in NAMING_ATTENTION:
        attempt = _named(story, about, getattr(event, "attempt", 0))
        attempt.named_seq = attempt.named_seq or record.seq


def _named(story: Story, step: str, number: int) -> Attempt:
    return story.attempts.get((step, number)) or story.latest[step]


def _hear_answer(story: Story, said: e.Answered) -> None:
    """A doubt of the run that this one was forked from is settled by the answer alone: one word
    for each on its card, by the step's id, or one for all of them."""
    if said.question.startswith("doubts"):
        value: Any = json.loads(bytes(said.value))
        each = cast("dict[str, Any]", value) if isinstance(value, dict) else {EACH: value}
        story.words.update(step for step, choice in each.items() if choice == "run")
    elif said.question.startswith("doubt-"):
        try:
            value = json.loads(bytes(said.value))
        except ValueError:
            return
        choices: list[str] = [value] if isinstance(value, str) else []
        if "run" in choices:
            step = said.question.removeprefix("doubt-").rpartition("-")[0]
            if step not in story.latest:  # else DoubtSettled says the same
                story.words[step] += 1


def _line_of(run: str | None, evidence: Evidence) -> Iterator[str]:
    """A run and those that it goes on from."""
    while run:
        yield run
        records = evidence.records.get(run)
        born = records[0].event if records else None
        run = born.forked_from if isinstance(born, e.Created) else None


def summary(violations: list[Violation]) -> str:
    """Counts by law and kind of tool, and the first few in words."""
    counts = Counter(f"{one.law}/{one.kind or '-'}" for one in violations)
    lines = [f"{n} × {what}" for what, n in counts.most_common()]
    return "\n".join([*lines, *(str(one) for one in violations[:12])])


def account(violations: list[Violation], evidence: Evidence) -> str:
    """All that is known of the runs that are concerned, for whoever has to find out why."""
    lines = [summary(violations)]
    for run in dict.fromkeys(one.run for one in violations):
        story = [
            (record.steady_ms / 1000 + evidence.wall_to_boot_s, f"{record.epoch:4} {record.event}")
            for record in evidence.records.get(run, ())
        ]
        seen = [one for one in evidence.effects if re.search(rf"tok-{run}\b", one.token)]
        story += [(one.at, f"     seen: {one}") for one in seen]
        lines += [f"--- {run}", *(f"{at:12.3f} {what[:400]}" for at, what in sorted(story))]
    return "\n".join([*lines, evidence.tale])
