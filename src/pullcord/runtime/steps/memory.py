"""The records of a run's earlier lives, as answers for an agent that is entered again.

A driver builds it once, when it claims the run. A fork also remembers the finished steps of its
source, up to the record where it forked.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, cast

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
from pullcord.core.undo import children_to_undo, to_undo
from pullcord.core.values import NULL, Json, dump, load
from pullcord.journal.journal import Journal
from pullcord.runtime.steps.identity import LONG_IDS, Identity, named

DETACHED: Final = "detached"
DOUBTS: Final = "doubts"  # the name of the card about all steps of earlier runs
PROBED: Final = "probed-"  # a tool's own answer about a step of earlier runs
_ABOUT_STEPS: Final = (DOUBTS, "doubt-", "changed-")  # questions about the fate of a step


class Past(msgspec.Struct):
    """The fate of a step in an earlier life, or in the run that this one was forked from."""

    name: str
    digest: str
    effect: Effect
    attempt: int
    status: StepStatus = "started"
    result: Json = NULL
    error: str = ""
    skipped: bool = False
    rerun: bool = False  # a person chose to run it
    failures: int = 0  # how many attempts failed; a cut attempt is no failure
    inherited: bool = False
    is_met: bool = False
    args: Json = NULL
    happened: Literal["", "yes", "maybe"] = ""  # it failed, and had its effect, or may have had it
    scope: str = ""
    continues: bool = False  # a request to a model: a cut answer is continued
    redirected: bool = False  # a redirect stopped it, and the agent was told
    began: bool = True  # False: it was stopped after its intent and before its function was called
    late: Json | None = None  # its late result
    at: str = ""  # the line in a sync tool's own code that raised

    @property
    def is_unknown(self) -> bool:
        """Whether its outcome is unknown, and its effect may not happen twice."""
        is_open = self.began and self.status in ("in_doubt", "interrupted", "started")
        return self.effect == "once" and is_open and not self.redirected


class Memory:
    """Answers by id. It marks each answer that is asked for; the code no longer has the others."""

    def __init__(self) -> None:
        self.input: Json = NULL
        self.ids = 0  # the form of its ids
        self.model = ""  # a model that the agent has to use instead of its own
        self.is_aside = False  # it only answers a question about the run it was forked from
        self.home: tuple[str, str] | None = None  # its agent's file, and the folder to find it from
        self.steps: dict[str, Past] = {}
        self.refused: dict[str, CallRefused] = {}
        self.values: dict[str, Json] = {}
        self.own_values: set[str] = set()  # values of this run itself, not of its source
        self.answers: dict[str, Json] = {}
        self.approvals: set[str] = set()  # the ids of approval questions
        self.texts: dict[str, tuple[str, bool]] = {}
        self.tripped: dict[str, str] = {}  # step or part → the guard that cut it
        self.plans: dict[str, list[ItemStarted]] = {}  # plan → its items that have begun
        self.children: dict[str, str] = {}  # child → how it ended, `DETACHED`, or nothing
        self.born: dict[str, str] = {}  # child of this run → its agent
        self.ancestors: list[str] = []  # the runs that this one goes on from
        self.first_begun_in: dict[str, str] = {}  # step that may have happened → its ancestor run
        self._places: dict[tuple[str, str, int], str] = {}
        self.spawned: dict[tuple[str, str, int], str] = {}  # scope, agent, place → child

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Memory":
        memory = cls()
        for record in records:
            memory._take(record.event)
        return memory

    @classmethod
    def left_by(cls, elder: Run, records: Sequence[Record]) -> "Memory":
        """Return what a run leaves to a run that goes on from it.

        A quarantined run leaves only that its steps began. Undone steps are gone. A step that is
        still to be undone is in doubt, because its undo may or may not succeed.
        """
        memory = cls.of(records)
        if elder.is_quarantined:
            memory = memory._without_contents()
        for step in [s for s, known in elder.steps.items() if known.undo == "undone"]:
            memory.steps.pop(step, None)
        for step in to_undo(elder):
            if past := memory.steps.get(step):
                past.status, past.error = "in_doubt", f"it is to be undone in {elder.id}"
        gone = {name for name, child in elder.children.items() if child.taken_back}
        for child in gone.union(children_to_undo(elder)):  # its work is undone, or about to be
            memory.children[child] = ""  # no answer: another child goes on from it
        return memory

    def inherit(self, elder: str, theirs: "Memory") -> None:
        """Add all that another run knew.

        Its approvals do not count here. Its unfinished work is repeated only after a question.

        An answer about a step counts only in the run where it was given, because the step may have
        begun again since. Two answers stay true: that a step happened, or that it is left out.
        """
        theirs._settle()
        self.ancestors = [elder, *theirs.ancestors]
        begun = {s for s, past in theirs.steps.items() if past.status != "failed" or past.happened}
        self.first_begun_in = dict.fromkeys(begun, elder) | theirs.first_begun_in
        for step, past in theirs.steps.items():
            if (known := _as_inherited(past)) and step not in self.steps:
                self.steps[step] = known
        for question, answer in theirs.answers.items():
            if question not in theirs.approvals and not question.startswith(_ABOUT_STEPS):
                self.answers.setdefault(question, answer)
        for part, (text, complete) in theirs.texts.items():
            if complete:
                self.texts.setdefault(part, (text, complete))
        for place, step in theirs._places.items():
            self._places.setdefault(place, step)
        values = {k: v for k, v in theirs.values.items() if not k.startswith(PROBED)}
        self.values = values | self.values
        for plan, items in theirs.plans.items():
            mine = self.plans.setdefault(plan, list(items))
            mine[:] = [item if item.item else items[n] for n, item in enumerate(mine)]
        self.children = theirs.children | self.children
        self.spawned = theirs.spawned | self.spawned

    def _settle(self) -> None:
        """Apply people's answers here about steps of earlier runs: happened, or left out.

        The answer "run it" counts only if the step did run, and then that step is our own.
        """
        for question, answer in self.answers.items():
            if question.startswith(DOUBTS):
                for step, past in self.doubts().items():
                    choice, result = chosen(load(answer), step)
                    if choice in ("happened", "skip"):
                        self.steps[step] = settled(past, choice, dump(result))

    def _without_contents(self) -> "Memory":
        bare = Memory()
        bare.steps = {
            step: Past(
                past.name, past.digest, past.effect, past.attempt, "in_doubt", scope=past.scope
            )
            for step, past in self.steps.items()
        }
        bare._places, bare.spawned = self._places, self.spawned
        bare.children = {
            child: end if end == DETACHED else "" for child, end in self.children.items()
        }
        return bare

    def told_apart(self, who: Identity) -> Identity:
        """Return the identity, with another id if its id belongs to a different step.

        That happens if two hashes are equal, in a run whose ids are short.
        """
        while past := self.steps.get(who.id):
            if (past.scope, past.name, past.digest) == (who.scope, who.name, who.digest):
                break
            who = who._replace(id=named(LONG_IDS, who.name, who.id, who.scope, who.digest))
        return who

    def doubts(self) -> dict[str, Past]:
        """Return the inherited steps that may not be repeated without a question.

        Each happened, or may have, and its result is unknown.
        """
        return {
            step: past
            for step, past in self.steps.items()
            if past.inherited and past.is_unknown and not (past.skipped or past.rerun)
        }

    def changed(self, scope: str, name: str, place: int, digest: str) -> Past | None:
        """Return the step that stood at this place of its scope, if its arguments differed."""
        step = self._places.get((scope, name, place))
        past = self.steps.get(step) if step else None
        return past if past and past.digest != digest else None

    def trips(self, step: str, part: str, guard: str) -> None:
        """Note that a guard cut a part of text, or the outcome of a step."""
        self.tripped.update(dict.fromkeys(filter(None, (step, part)), guard))

    def vanished(self) -> list[tuple[str, Past]]:
        """Return the finished steps that the agent has not asked for in this whole life."""
        mine = [(step, past) for step, past in self.steps.items() if not past.inherited]
        return [(step, p) for step, p in mine if p.status == "finished" and not p.is_met]

    def _take(self, event: Event) -> None:
        match event:
            case Created():
                self.input, self.ids = event.input, event.ids
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
                    scope=event.scope,
                    continues=event.continues,
                )
                if event.place:
                    place = (event.scope, event.name, event.place)
                    self._places.setdefault(place, event.step)
            case StepFinished():
                self._decide(event.step, "finished", result=event.result)
            case StepFailed():
                self._decide(event.step, "failed", error=event.error)
                self.steps[event.step].at = event.at
                self.steps[event.step].failures += 1
                self.steps[event.step].happened = event.happened
            case StepInterrupted():
                self._decide(event.step, "interrupted")
                self.steps[event.step].redirected = event.redirected
                self.steps[event.step].began = event.began
            case LateResult(error="") if event.step:  # without a step: the result of the whole run
                self.steps[event.step].late = event.result
            case CallRefused():
                self.refused[event.step] = event
            case StepInDoubt():
                self._decide(event.step, "in_doubt", error=event.why)
            case DoubtSettled(choice="happened"):
                self._decide(event.step, "finished", result=event.result)
            case DoubtSettled():
                self.steps[event.step].skipped = event.choice == "skip"
                self.steps[event.step].rerun = event.choice == "run"
            case Remembered():
                self.values[event.key] = event.value
                self.own_values.add(event.key)
            case QuestionAsked(kind="approval"):
                self.approvals.add(event.question)
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
                self.children[event.child] = DETACHED if event.detached else ""
                self.born[event.child] = event.agent
                if event.place:
                    self.spawned.setdefault((event.scope, event.agent, event.place), event.child)
            case ChildEnded():
                self.children[event.child] = event.state
            case _:
                pass

    def _decide(
        self, step: str, status: StepStatus, *, result: Json = NULL, error: str = ""
    ) -> None:
        past = self.steps[step]
        past.status, past.result, past.error = status, result, error


def _as_inherited(past: Past) -> Past | None:
    """Return what a fork knows of its source's step. None: the step begins again.

    It then failed without an effect, or may have its effect twice.
    """
    if past.status == "failed" and (past.effect != "once" or not past.happened):
        return None
    known = msgspec.structs.replace(past, inherited=True, rerun=False)
    if known.late is not None and known.status != "finished" and not known.redirected:
        known.status, known.result = "finished", known.late
    elif known.status in ("started", "failed"):
        known.status = "in_doubt"
    return known


def chosen(said: Any, step: str) -> tuple[str, Any]:
    """Return an answer's choice for one step: one word for all, or one for each id."""
    if isinstance(said, dict):
        named_steps = cast("dict[str, Any]", said)
        said = named_steps.get(step, said if set(named_steps) == {"happened"} else None)
    match said:
        case {"happened": result}:
            return "happened", result
        case str(choice):
            return choice, None
        case _:
            return "", None


def settled(past: Past, choice: str, result: Json) -> Past:
    """Return a step that may have happened, as a person's choice settles it."""
    if choice == "happened":
        return msgspec.structs.replace(past, status="finished", result=result)
    return msgspec.structs.replace(past, skipped=choice == "skip", rerun=choice == "run")


async def remember(journal: Journal, run: Run) -> Memory:
    """Return the memory of this run's earlier lives and of the runs that it was forked from."""
    line = [(run.id, Memory.of(await journal.read(run.id)))]
    is_aside = line[0][1].is_aside
    source, at = (None, 0) if is_aside else (run.forked_from, run.forked_at)
    while source is not None:
        elder = await journal.load(source)
        line.append((source, Memory.left_by(elder, await journal.read(source, limit=at))))
        source, at = elder.forked_from, elder.forked_at
    for (_, memory), (elder_id, theirs) in reversed(list(pairwise(line))):  # the oldest first
        memory.inherit(elder_id, theirs)
    return line[0][1]
