"""A run as its records make it: the values. How records become one is in `fold`.

A `Run` holds no payloads: a step is known by its number in the journal, where its result is.
So the state of a thousand-step run is small, and a snapshot of it costs little.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from pullcord.core.action_trail import Runaway, Trail
from pullcord.core.conditions import Facts, NoOpenTools, Price, Used, kinds_of
from pullcord.core.events import Choice, Effect, Left, PlanItem, Rung, RunIn, Verdict
from pullcord.core.limits import Limits, Reached, Reserve
from pullcord.core.states import TERMINAL, RunState

StepStatus: TypeAlias = Literal["started", "finished", "failed", "interrupted", "in_doubt"]
SNAPSHOT_FORMAT: Final = 11
"""Raised whenever the meaning or shape of `Run` changes: older snapshots are then folded anew."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a step. Its arguments and result are in the records it names."""

    name: str
    started_seq: int
    effect: Effect = "once"
    undoable: bool = False
    attempt: int = 1
    status: StepStatus = "started"
    decided_seq: int = 0
    late_seq: int = 0  # evidence that it happened after all
    undo: Literal["", "wanted", "started", "undone", "failed"] = ""
    settled: Choice | Literal[""] = ""  # a person's word on a step in doubt
    undo_attempt: int = 0
    undo_in: RunIn = ""  # where that is carried out
    maybe: bool = False  # it failed, and may have had its effect all the same
    began: bool = True  # False: its intent was recorded, and it was stopped before it began
    tool: str = ""
    run_in: RunIn = ""
    where: str = ""
    rung: Rung = ""  # that was needed to stop it
    model: str = ""  # it is a request to this model
    owner: str = ""  # while it, or its undo, is under way: whose process it is in
    cut_by_redirect: bool = False
    error: str = ""  # it failed: how its error begins, and where it was raised
    continues: bool = False  # an answer to it that is cut is gone on with
    still_running: tuple[str, ...] = ()  # what of it went on when it had been cut

    @property
    def ended_late(self) -> bool:
        """It could not be stopped, and has come to its end since, with all that it had started."""
        is_over = self.late_seq > self.decided_seq and not self.still_running
        return self.status == "interrupted" and is_over


class Instruction(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    by: str
    status: Literal["queued", "delivered", "returned", "withdrawn"] = "queued"
    item: str = ""  # the item of a plan that it has rewritten


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    text: str = ""
    status: Literal["open", "answered", "withdrawn"] = "open"
    settled_seq: int = 0
    step: str = ""
    due_ms: int = 0
    tool: str = ""
    call: str = ""
    place: str = ""
    verdict: Verdict = ""
    why: str = ""  # it was withdrawn by its agent, not by a redirect or a cancel


class Child(msgspec.Struct, frozen=True, omit_defaults=True):
    detached: bool = False
    state: str = ""  # empty while it lives
    final: bool = False  # what it did is kept once it has completed
    left: Left = Left()  # by it and everybody who worked for it, when it ended
    undo: Literal["", "wanted", "undone"] = ""  # undone: or named, what could not be
    taken_back: int = 0  # steps of it, and of those who worked for it

    @property
    def is_awaited(self) -> bool:
        """It lives, and its parent cannot end before it does."""
        return not self.state and not self.detached

    @property
    def is_provisional(self) -> bool:
        """It has ended, and what it did is undone with what its parent did."""
        is_kept = self.detached or (self.final and self.state == RunState.COMPLETED)
        return bool(self.state) and not is_kept


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The items, how many of them have begun, and the text of those that were rewritten."""

    items: tuple[PlanItem, ...]
    started: int = 0
    ended: bool = False
    rewritten: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def next(self) -> PlanItem | None:
        """The first item that has not begun."""
        return self.items[self.started] if self.started < len(self.items) else None

    def text(self, item: PlanItem) -> str:
        return self.rewritten.get(item.id, item.title)


class Stop(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pause or cancel: who asked, why, and when it was in effect."""

    seq: int
    by: str
    reason: str
    source: str
    asked_at_ms: int
    undo: bool = True
    keep_partial: bool = True
    quarantine: bool = False
    hurried_seq: int = 0
    effect_at_ms: int = 0
    rung: Rung = ""
    back_to: str = ""
    family: str = ""  # of a cancel: the run above it that has what this one did undone
    frozen: tuple[str, ...] = ()  # of a pause: the tools that stand still
    limits: tuple[str, ...] = ()  # of a pause: the limits that asked for it


class Deletion(msgspec.Struct, frozen=True, omit_defaults=True):
    """That the payloads of a run were deleted: who asked, why, and when."""

    by: str
    reason: str
    at_ms: int

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else " (no reason given)"
        return f"payloads were deleted on {day_of(self.at_ms)} by {self.by}{why}"


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    usd_micros: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    unknown_calls: int = 0  # calls whose price nobody knows; never counted as free


class Times(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the time went, each millisecond in one place. Only `working_ms` counts against limits.

    Queued: no process had it, the time between a crash and the takeover included.
    """

    working_ms: int = 0
    waiting_ms: int = 0
    paused_ms: int = 0
    queued_ms: int = 0

    @property
    def wall_ms(self) -> int:
        return self.working_ms + self.waiting_ms + self.paused_ms + self.queued_ms

    def plus(self, state: RunState, ms: int) -> "Times":
        field = _COUNTS_AS.get(state, "working_ms")
        return msgspec.structs.replace(self, **{field: getattr(self, field) + ms})


_COUNTS_AS: Final = {
    RunState.WAITING: "waiting_ms",
    RunState.PAUSED: "paused_ms",
    RunState.QUEUED: "queued_ms",
}


def spoken_part(step: str, attempt: int, index: int, *, thought: bool = False) -> str:
    """The part of text that holds the `index`-th thing a model has said, or thought, in one
    attempt."""
    return f"{'think' if thought else 'say'}-{step}-{attempt}-{index}"[:64]


def output_part(step: str, attempt: int) -> str:
    """The part of text that holds what an attempt of a step puts out."""
    return f"out-{step}-{attempt}"[:64]


class Run(msgspec.Struct, omit_defaults=True):
    """A run as of record `seq`. A value: take a copy, or `apply`, never change one in place."""

    id: str
    seq: int = 0
    state: RunState = RunState.QUEUED
    state_seq: int = 0  # the record that led to this state
    control_seq: int = 0  # the last record that somebody asked for
    woken_seq: int = 0  # the last answer, instruction or child's end
    at_ms: int = 0
    created_at_ms: int = 0
    steady_ms: int = 0  # of the last record, on the clock that never jumps
    since_ms: int = 0  # on the same clock: up to here the time is accounted for in `times`
    agent: str = ""
    thread: str = ""
    title: str = ""  # that somebody has given it, for people
    titled_seq: int = 1  # the record since which it has that one, or none
    code_version: str = ""
    model: str = ""  # that its agent is to use instead of its own
    parent: str | None = None
    depth: int = 0
    forked_from: str | None = None
    forked_at: int = 0
    epoch: int = 0
    owner: str = ""
    error: str = ""
    frozen: tuple[str, ...] = ()  # tools that stood still when it was last paused, until it goes on
    pause: Stop | None = None
    cancel: Stop | None = None
    steps: dict[str, Step] = msgspec.field(default_factory=dict[str, Step])
    instructions: dict[int, Instruction] = msgspec.field(default_factory=dict[int, Instruction])
    questions: dict[str, Question] = msgspec.field(default_factory=dict[str, Question])
    children: dict[str, Child] = msgspec.field(default_factory=dict[str, Child])
    plans: dict[str, Plan] = msgspec.field(default_factory=dict[str, Plan])
    defers: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # unreleased → its name
    texts: dict[str, bool] = msgspec.field(default_factory=dict[str, bool])  # part → complete
    attention: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # open item → text
    cost: Cost = Cost()
    times: Times = Times()
    limits: Limits | None = None
    price: Price | None = None  # of its model, as somebody who limits it has said
    begun: int = 0  # attempts at steps, and children
    called: int = 0  # attempts at calls of tools
    below: Used = Used()  # by children that have ended, and by the run it goes on from
    reserved: dict[str, Reserve] = msgspec.field(default_factory=dict[str, Reserve])  # by step
    met: dict[str, int] = msgspec.field(default_factory=dict[str, int])  # condition → its record
    reached: Reached | None = None
    runaway: Runaway | None = None
    trail: Trail = Trail()
    withdrawn_seq: int = 0  # the record since which viewers see less of what came before it
    forgotten: Deletion | None = None  # then nearly all of the above is not known any more
    trace: str = ""  # the span that its lives belong to, as a W3C traceparent
    life: str = ""  # the span of the last of them

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_quarantined(self) -> bool:
        """What it said and found is kept as evidence only: no viewer sees it, no run uses it."""
        return self.cancel is not None and self.cancel.quarantine

    def open_steps(self) -> list[str]:
        """The steps with an intent and no decision."""
        return [step for step, known in self.steps.items() if known.status == "started"]

    def open_questions(self) -> list[str]:
        return [name for name, asked in self.questions.items() if asked.status == "open"]

    def living_children(self) -> list[str]:
        """The children that share this run's fate and have not ended."""
        return [name for name, child in self.children.items() if child.is_awaited]

    def next_item(self) -> tuple[str, PlanItem] | None:
        """The item of a plan that a redirect would rewrite: of the youngest plan still going."""
        for name, plan in reversed(self.plans.items()):
            if not plan.ended and plan.next:
                return name, plan.next
        return None

    def name_of(self, step: Step) -> str:
        """What a step is called: by its name, or by what was done instead, if it is named after an
        item of a plan that somebody has rewritten. Of a quarantined run nobody is told to what."""
        is_hidden = self.cancel is not None and self.cancel.quarantine
        for plan in self.plans.values() if not step.tool and not is_hidden else ():
            for item in plan.items:
                if item.title == step.name and item.id in plan.rewritten:
                    return plan.rewritten[item.id]
        return step.name

    def to_look_at(self) -> dict[str, str]:
        """The attention items that are still true: that a step may be going on is taken back by
        its late result."""
        return {
            item: text
            for item, text in self.attention.items()
            if (step := self.steps.get(item)) is None or not step.ended_late
        }

    def step_of_output(self, part: str) -> str:
        """The step whose output or thought this part of text is; empty: the agent's own words."""
        thought = part.removeprefix("think-").rsplit("-", 2)[0] if part.startswith("think-") else ""
        if thought in self.steps:
            return thought
        known = (step for step, s in self.steps.items() if output_part(step, s.attempt) == part)
        return next(known, "")

    def times_at(self, now_ms: int) -> Times:
        """Where the time went up to now, by the steady clock. An ended run's stands still."""
        return self.times if self.ended else self.times.plus(self.state, now_ms - self.since_ms)

    def used_at(self, now_ms: int) -> Used:
        """What it has used up, with its children that have ended. The living ones know theirs."""
        cost = self.cost
        own = Used(
            self.begun,
            self.called,
            cost.tokens_in + cost.tokens_out,
            cost.usd_micros,
            self.times_at(now_ms).working_ms,
            cost.unknown_calls,
        )
        return own + self.below

    def facts(self, used: Used, now_ms: int) -> Facts:
        """What its limits are asked about."""
        asks = self.limits is not None and NoOpenTools in kinds_of(self.limits.condition)
        is_open = (step for step in self.open_steps() if self.steps[step].tool) if asks else ()
        return Facts(used, now_ms, frozenset(self.met), sum(1 for _ in is_open))

    def copy(self) -> "Run":
        twin = msgspec.structs.replace(self)
        for field in _MAPPINGS:
            setattr(twin, field, dict(getattr(self, field)))
        return twin


_MAPPINGS: Final = tuple(
    field.name
    for field in msgspec.structs.fields(Run)
    if field.default_factory is not msgspec.NODEFAULT
)


_DAY_MS: Final = 86_400_000
_MONTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def day_of(at_ms: int) -> str:
    """Return the day as it is written: 2026-11-16."""
    left, year = max(at_ms, 0) // _DAY_MS, 1970
    while left >= 365 + _is_leap(year):
        left -= 365 + _is_leap(year)
        year += 1
    month = 0
    while left >= (days := _MONTHS[month] + (month == 1 and _is_leap(year))):
        left -= days
        month += 1
    return f"{year}-{month + 1:02}-{left + 1:02}"


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
