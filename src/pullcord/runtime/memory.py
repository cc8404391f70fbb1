"""What the earlier lives of a run have left: the answers an agent finds when it is entered anew.

Built from records, once, when a run is taken. A run that was forked also remembers what the run
it goes on from had finished, up to the record where it was forked.
"""

from collections.abc import Iterable, Sequence

import msgspec

from pullcord.core.events import (
    Answered,
    CallRefused,
    ChildBorn,
    ChildEnded,
    Created,
    DoubtSettled,
    Effect,
    Event,
    GuardTripped,
    ItemStarted,
    LateResult,
    Planned,
    QuestionAsked,
    Record,
    Remembered,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    TextEnded,
)
from pullcord.core.run import Run, StepStatus
from pullcord.core.undo import to_undo
from pullcord.core.values import NULL, Json
from pullcord.journal.journal import Journal


class Past(msgspec.Struct):
    """What became of a step in an earlier life, or in the run this one was forked from."""

    name: str
    digest: str
    effect: Effect
    attempt: int
    status: StepStatus = "started"
    result: Json = NULL
    error: str = ""
    skipped: bool = False
    rerun: bool = False  # a person said: run it
    failures: int = 0  # how many attempts have failed; one that was cut is none
    inherited: bool = False
    is_met: bool = False
    args: Json = NULL
    happened: bool = False  # it failed only after it had its effect
    redirected: bool = False  # a redirect has stopped it, and its agent was told so
    began: bool = True  # False: it was stopped after its intent and before anything of it
    late: Json | None = None  # what came out of it after all


class Memory:
    """Answers by id. What was asked for is marked as met; the rest is what the code has no more."""

    def __init__(self) -> None:
        self.input: Json = NULL
        self.model = ""  # that its agent is to use instead of its own
        self.is_aside = False  # it only answers a question about the run it was forked from
        self.home: tuple[str, str] | None = None  # the file of its agent, and where that was named
        self.steps: dict[str, Past] = {}
        self.refused: dict[str, CallRefused] = {}
        self.values: dict[str, Json] = {}
        self.own_values: set[str] = set()  # those of this run, not of one it goes on from
        self.answers: dict[str, Json] = {}
        self.texts: dict[str, tuple[str, bool]] = {}
        self.tripped: dict[str, str] = {}  # what a guard has cut, and which
        self.plans: dict[str, list[ItemStarted]] = {}  # plan → its items that have begun
        self.children: dict[str, str] = {}  # child → how it ended, or nothing
        self.born: dict[str, str] = {}  # child of this run → its agent
        self.ancestors: list[str] = []  # the runs this one goes on from
        self._places: dict[tuple[str, str, int], str] = {}

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Memory":
        memory = cls()
        for record in records:
            memory._take(record.event)
        return memory

    def inherit(self, elder: Run, records: Sequence[Record]) -> None:
        """Remember also what another run had finished. Its approvals are not ours to use, and
        what it had begun and not finished is nobody's to repeat without asking. Of one that has
        been quarantined since, only that its steps began is known here."""
        theirs = Memory.of(records)
        self.ancestors.append(elder.id)
        if elder.cancel is not None and elder.cancel.quarantine:
            theirs = theirs._without_contents()
        for step in [s for s, known in elder.steps.items() if known.undo == "undone"]:
            theirs.steps.pop(step, None)
        for step in to_undo(elder):  # it is about to be gone
            theirs.steps.pop(step, None)
        for step, past in theirs.steps.items():
            if past.status != "failed" and step not in self.steps:
                past.inherited = True
                if past.status == "started":
                    past.status = "in_doubt"
                self.steps[step] = past
        approvals = {
            record.event.question
            for record in records
            if isinstance(record.event, QuestionAsked) and record.event.kind == "approval"
        }
        for question, answer in theirs.answers.items():
            if question not in approvals:
                self.answers.setdefault(question, answer)
        for part, (text, complete) in theirs.texts.items():
            if complete:
                self.texts.setdefault(part, (text, complete))
        for place, step in theirs._places.items():
            self._places.setdefault(place, step)
        self.values = theirs.values | self.values
        for plan, items in theirs.plans.items():
            mine = self.plans.setdefault(plan, list(items))
            mine[:] = [item if item.item else items[n] for n, item in enumerate(mine)]
        self.children = theirs.children | self.children

    def _without_contents(self) -> "Memory":
        bare = Memory()
        bare.steps = {
            step: Past(past.name, past.digest, past.effect, past.attempt, "in_doubt")
            for step, past in self.steps.items()
        }
        bare._places = self._places
        return bare

    def changed(self, scope: str, name: str, place: int, digest: str) -> Past | None:
        """The step that stood at this place of its scope before, if its arguments were others."""
        step = self._places.get((scope, name, place))
        past = self.steps.get(step) if step else None
        return past if past and past.digest != digest else None

    def trips(self, step: str, part: str, guard: str) -> None:
        """A guard has cut a part of text, or what came of a step."""
        self.tripped.update(dict.fromkeys(filter(None, (step, part)), guard))

    def vanished(self) -> list[tuple[str, Past]]:
        """What was carried out, and the agent has not asked for in this whole life."""
        mine = [(step, past) for step, past in self.steps.items() if not past.inherited]
        return [(step, p) for step, p in mine if p.status == "finished" and not p.is_met]

    def _take(self, event: Event) -> None:
        match event:
            case Created():
                self.input = event.input
                self.is_aside, self.model = event.aside, event.model
                if event.target and event.cwd:
                    self.home = (event.target.rpartition(":")[0], event.cwd)
            case StepStarted():
                before = self.steps.get(event.step)
                failures = before.failures if before else 0
                self.steps[event.step] = Past(
                    event.name,
                    event.digest,
                    event.effect,
                    event.attempt,
                    failures=failures,
                    args=event.args,
                )
                if event.place:
                    place = (event.scope, event.name, event.place)
                    self._places.setdefault(place, event.step)
            case StepFinished():
                self._decide(event.step, "finished", result=event.result)
            case StepFailed():
                self._decide(event.step, "failed", error=event.error)
                self.steps[event.step].failures += 1
                self.steps[event.step].happened = event.happened == "yes"
            case StepInterrupted():
                self._decide(event.step, "interrupted")
                self.steps[event.step].redirected = event.redirected
                self.steps[event.step].began = event.began
            case LateResult(error="") if event.step:  # without: the result of the whole run
                self.steps[event.step].late = event.result
            case CallRefused():
                self.refused[event.step] = event
            case StepInDoubt():
                self._decide(event.step, "in_doubt")
            case DoubtSettled(choice="happened"):
                self._decide(event.step, "finished", result=event.result)
            case DoubtSettled():
                self.steps[event.step].skipped = event.choice == "skip"
                self.steps[event.step].rerun = event.choice == "run"
            case Remembered():
                self.values[event.key] = event.value
                self.own_values.add(event.key)
            case Answered():
                self.answers[event.question] = event.value
            case TextEnded():
                self.texts[event.part] = (event.text, event.complete)
            case GuardTripped():
                self.trips(event.step, event.part, event.guard)
            case Planned():
                unknown = ItemStarted(plan=event.plan, item="", text="")  # known where they began
                self.plans[event.plan] = [unknown] * event.started
            case ItemStarted():
                self.plans[event.plan].append(event)
            case ChildBorn():
                self.children[event.child] = ""
                self.born[event.child] = event.agent
            case ChildEnded():
                self.children[event.child] = event.state
            case _:
                pass

    def _decide(
        self, step: str, status: StepStatus, *, result: Json = NULL, error: str = ""
    ) -> None:
        past = self.steps[step]
        past.status, past.result, past.error = status, result, error


async def remember(journal: Journal, run: Run) -> Memory:
    """Return what earlier lives of this run have left, and the runs that it was forked from."""
    memory = Memory.of(await journal.read(run.id))
    source, at = (None, 0) if memory.is_aside else (run.forked_from, run.forked_at)
    while source is not None:
        elder = await journal.load(source)
        memory.inherit(elder, await journal.read(source, limit=at))
        source, at = elder.forked_from, elder.forked_at
    return memory
