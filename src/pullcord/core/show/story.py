"""Puts each record of a run into words, for people. Every surface uses these words.

A surface only lays them out: the terminal joins them to a line (`line`), the page puts them beside
a sign. The words tell nothing that viewers of the run may not know (`withhold.as_viewed`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from pullcord.core.events import (
    Answered,
    Asked,
    AttentionRaised,
    AttentionSettled,
    Blocked,
    CallRefused,
    Cancelled,
    CancelRequested,
    ChildBorn,
    ChildEnded,
    ChildUndone,
    Claimed,
    Completed,
    ConditionMet,
    Created,
    Deferred,
    DoubtSettled,
    Effect,
    Event,
    Failed,
    Forgotten,
    GuardTripped,
    Hurried,
    InstructionSettled,
    ItemRewritten,
    ItemStarted,
    LateResult,
    LimitReached,
    LimitsRaised,
    Paused,
    PauseRequested,
    PlanEnded,
    Planned,
    QuestionAsked,
    QuestionWithdrawn,
    Record,
    Redirected,
    Released,
    Remembered,
    Renamed,
    Requeued,
    Resumed,
    RunIn,
    Signalled,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    StoodStill,
    Stopped,
    TakenOver,
    TextEnded,
    UndoFailed,
    UndoRequested,
    UndoStarted,
)
from pullcord.core.run import Run
from pullcord.core.show import words
from pullcord.core.show.withhold import as_viewed
from pullcord.core.values import NULL, Json
from pullcord.core.values import load as value_of

Tone: TypeAlias = Literal["", "press", "plain", "faint"]
_GONE: Final = "Its process was gone. Another one took it over."
_UNDER_WAY: Final = "under way"
_OUTCOMES: Final = {
    "delivered": "delivered",
    "returned": "never delivered: the run ended first",
    "withdrawn": "withdrawn",
}
_RETURNED: Final = _OUTCOMES["returned"]
_WITHHELD: Final = "(withheld)"
_PREVIEWED: Final = 20_000  # the largest value, in bytes, that is decoded for one line


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record in words. `line` joins them."""

    says: str
    sign: str = "·"
    tone: Tone = ""  # of its line: that of a control, plain, faint; "": no line of its own
    by: str = ""  # the actor: the sentence goes on with `says`
    about: str = ""  # the step, model or run it is about: the sentence goes on with `says`
    open: str = ""  # the state from here on of what is still open: of steps, if the run is paused
    # or resumed; of instructions, if it has ended
    reason: str = ""  # in the actor's words
    facts: tuple[str, ...] = ()  # they follow the sentence


def line(told: Told) -> str:
    """Return a record in one line: ‖ ana paused it “check the join first”."""
    said = " ".join(filter(None, (told.sign, told.by, told.about, told.says)))
    reason = f" “{told.reason}”" if told.reason else ""
    return said + reason + "".join(f" · {fact}" for fact in told.facts)


class StepDeclared(NamedTuple):
    """What a step declares before it happens."""

    name: str
    model: str = ""
    tool: str = ""
    effect: Effect = "once"
    undoable: bool = False
    run_in: RunIn = ""


class Names:
    """The names of the steps and questions that a run's records refer to.

    They come from the folded run, and from records as `learn` gets them. A step keeps its name, so
    the run may be folded up to the record that is told, or further.
    """

    def __init__(self, run: Run | None = None) -> None:
        self._run = run
        self._steps: dict[str, StepDeclared] = {}
        self._tools: dict[str, str] = {}
        self._rewritten: dict[str, str] = {}  # the first text of a plan's item → its text now
        # True for a quarantined run: the words tell nothing of its content, nor of rewritten items.
        self.hide = run is not None and run.is_quarantined

    def learn(self, event: Event) -> None:
        """Take in the names in this event."""
        match event:
            case StepStarted():
                its = (event.model, event.tool, event.effect, event.undoable, event.run_in)
                self._steps[event.step] = StepDeclared(event.name, *its)
            case QuestionAsked(question=question, tool=tool):
                self._tools[question] = tool
            case CancelRequested(quarantine=True):
                self.hide = True
            case ItemRewritten(before=before, after=after):
                first = next((k for k, v in self._rewritten.items() if v == before), before)
                self._rewritten[first] = after
            case _:
                pass

    def step(self, step: str) -> StepDeclared:
        """Return the step's declaration. An unknown step is called “a step”."""
        if (found := self._steps.get(step)) is not None:
            is_item = not found.tool and not self.hide and found.name in self._rewritten
            return found._replace(name=self._rewritten[found.name]) if is_item else found
        if self._run is None or (known := self._run.steps.get(step)) is None:
            return StepDeclared("a step")
        its = (known.model, known.tool, known.effect, known.undoable, known.run_in)
        return StepDeclared(known.name if self.hide else self._run.name_of(known), *its)

    def tool(self, question: str) -> str:
        """Return the tool of the call that a question is about. Empty: it is about no call."""
        if question in self._tools:
            return self._tools[question]
        known = self._run.questions.get(question) if self._run else None
        return known.tool if known else ""


def tell(record: Record, names: Names) -> Told:
    """Return the record in words."""
    names.learn(record.event)
    event = as_viewed(record.event, hide=names.hide)
    return _TELLS[type(event)](event, names, record)


# --- the run as a whole -------------------------------------------------------------------------


def _created(event: Created, _names: Names, _record: Record) -> Told:
    facts: tuple[str, ...] = ()
    if event.forked_from:
        what = "asks about" if event.aside else "goes on from"
        facts = (f"{what} run {event.forked_from}",)
    if event.by:
        return Told(sign="○", by=event.by, says=f"started {event.agent}", facts=facts)
    return Told(sign="○", says=f"{event.agent} was started", facts=facts)


def _claimed(event: Claimed, _names: Names, _record: Record) -> Told:
    if event.same_owner:
        return Told(tone="faint", says="The same process goes on.")
    if event.alive_ms:
        return Told(tone="faint", says=_GONE)
    return Told(says="A process took it.")


def _taken_over(_event: TakenOver, _names: Names, _record: Record) -> Told:
    return Told(tone="faint", says=_GONE)


def _stood_still(event: StoodStill, _names: Names, record: Record) -> Told:
    ms = record.steady_ms - event.alive_ms
    long = words.duration(ms) if event.alive_ms else "a while"
    return Told(tone="faint", says=f"Its process stood still for {long}.")


def _requeued(event: Requeued, _names: Names, _record: Record) -> Told:
    says = f"Its process gave it back ({event.cause}). The next free one goes on."
    return Told(tone="faint", says=says)


def _blocked(_event: Blocked, _names: Names, _record: Record) -> Told:
    return Told(sign="?", says="It waits: for an answer, for another run or until a time.")


def _paused(event: Paused, _names: Names, _record: Record) -> Told:
    facts = filter(None, (words.RUNG[event.rung], words.frozen(event.frozen)))
    about, says = "the pause is", "in effect"
    return Told(sign="‖", about=about, says=says, facts=tuple(facts), open="frozen")


def _cancelled(event: Cancelled, _names: Names, _record: Record) -> Told:
    facts = _facts(words.RUNG[event.rung])
    return Told(sign="■", about="the cancel is", says="in effect", facts=facts, open=_RETURNED)


def _completed(event: Completed, _names: Names, _record: Record) -> Told:
    return Told(sign="✓", says=_with("completed", _preview(event.result)), open=_RETURNED)


def _stopped(event: Stopped, _names: Names, _record: Record) -> Told:
    says = f"stopped by its limits: {', '.join(event.leaves)}"
    facts = _facts(words.short(event.error, 1000))
    return Told(sign="⊘", says=says, facts=facts, open=_RETURNED)


def _failed(event: Failed, _names: Names, _record: Record) -> Told:
    says = _with("failed", words.short(event.error, 1000))
    return Told(sign="✕", says=says, open=_RETURNED)


# --- controls, and acts of limits ---------------------------------------------------------------


def _press(event: Asked, sign: str, says: str) -> Told:
    by = words.who(event.by, event.source)
    return Told(sign=sign, tone="press", by=by, says=says, reason=event.reason)


def _by_itself(event: Asked, sign: str, says: str) -> Told:
    """The same for an act of the run's limits: the sentence itself names them as the actor."""
    return Told(sign=sign, tone="press", says=says, reason=event.reason)


def _pause_requested(event: PauseRequested, _names: Names, _record: Record) -> Told:
    if event.source == "limit":
        which = "" if event.reason else f" ({', '.join(event.limits)})"
        return _by_itself(event, "‖", f"Its limits paused it{which}")
    if event.source == "kill_switch":
        return _press(event, "‖", "pulled the kill switch: it is held")
    return _press(event, "‖", f"paused it{', now' if event.now else ''}")


def _resumed(event: Resumed, _names: Names, _record: Record) -> Told:
    return msgspec.structs.replace(_press(event, "▶", "resumed it"), open=_UNDER_WAY)


def _redirected(event: Redirected, _names: Names, _record: Record) -> Told:
    told = _press(event, "↪", f"said: {words.short(event.instruction) or _WITHHELD}")
    return msgspec.structs.replace(told, facts=("waits to be delivered",))


def _instruction_settled(event: InstructionSettled, _names: Names, _record: Record) -> Told:
    return Told(sign="↪", about="instruction", says=_OUTCOMES[event.outcome])


def _cancel_requested(event: CancelRequested, _names: Names, _record: Record) -> Told:
    more = [
        "now" if event.now else "",
        "" if event.undo else "nothing is undone",
        "" if event.keep_partial else "partial text dropped",
        "quarantined" if event.quarantine else "",
    ]
    return _press(event, "■", ", ".join(filter(None, ("cancelled it", *more))))


def _undo_requested(event: UndoRequested, names: Names, _record: Record) -> Told:
    what = names.step(event.step).name if event.step else "what it left behind"
    after = f" after {names.step(event.back_to).name}" if event.back_to else ""
    return _press(event, "↶", f"asked to undo {what}{after}")


def _hurried(event: Hurried, _names: Names, _record: Record) -> Told:
    return _press(event, "■", "pressed again: what was under way is cut")


def _limit_reached(event: LimitReached, _names: Names, _record: Record) -> Told:
    which = "" if event.reason else f" ({', '.join(event.leaves)})"
    return _by_itself(event, "⊘", f"A limit is reached{which}: {words.THEN[event.then]}")


def _limits_raised(event: LimitsRaised, _names: Names, _record: Record) -> Told:
    caps = ", ".join(f"{value:g} {words.CAP[cap]}" for cap, value in event.caps.items())
    return _press(event, "↑", f"set other limits: {caps}")


def _signalled(event: Signalled, _names: Names, _record: Record) -> Told:
    return _press(event, "·", f"said that it has happened: {event.name}")


def _renamed(event: Renamed, names: Names, _record: Record) -> Told:
    if names.hide:
        return _press(event, "·", f"named it: {_WITHHELD}")
    return _press(event, "·", f"named it: {event.title}" if event.title else "took its title away")


def _condition_met(event: ConditionMet, _names: Names, _record: Record) -> Told:
    return Told(tone="faint", says=f"True from here on: {event.condition}")


# --- steps --------------------------------------------------------------------------------------


def _of(names: Names, step: str) -> str:
    known = names.step(step)
    return known.model or known.name


def _policy(known: StepDeclared, *, is_open: bool) -> list[str]:
    if known.model:
        return []
    return words.policy(
        known.effect, known.run_in, undoable=known.undoable, tool=known.tool, is_open=is_open
    )


def _decided(names: Names, event: Any, sign: str, says: str, *more: str, attempt: int = 0) -> Told:
    """Return the outcome of a step, with the part of its policy that still matters."""
    known = names.step(event.step)
    again = f"attempt {attempt}" if attempt > 1 else ""
    facts = _facts(*more, *_policy(known, is_open=False), again)
    return Told(sign=sign, about=known.model or known.name, says=says, facts=facts)


def _step_started(event: StepStarted, names: Names, _record: Record) -> Told:
    again = f"attempt {event.attempt}" if event.attempt > 1 else ""
    facts = _facts(*_policy(names.step(event.step), is_open=True), again)
    if event.model:
        return Told(sign="◆", about=event.model, says="is answering", facts=facts)
    return Told(sign="●", about=_of(names, event.step), says=_UNDER_WAY, facts=facts)


def _step_finished(event: StepFinished, names: Names, _record: Record) -> Told:
    goes_on = words.still_running(event.still_running)
    if names.step(event.step).model:
        return _decided(names, event, "◆", "answered", goes_on, attempt=event.attempt)
    return _decided(
        names, event, "✓", _preview(event.result) or "done", goes_on, attempt=event.attempt
    )


_EFFECT_OF_FAILED: Final = {
    "": "",
    "yes": "it had its effect all the same",
    "maybe": "it may have had its effect all the same",
}


def _step_failed(event: StepFailed, names: Names, _record: Record) -> Told:
    error = words.short(event.error, 1000)
    says = _with("failed", f"{error} ({event.at})" if event.at else error)
    return _decided(
        names,
        event,
        "✕",
        says,
        _EFFECT_OF_FAILED[event.happened],
        words.RUNG[event.rung],
        words.still_running(event.still_running),
        attempt=event.attempt,
    )


def _step_interrupted(event: StepInterrupted, names: Names, _record: Record) -> Told:
    if not event.began:
        return _decided(names, event, "○", "not started", attempt=event.attempt)
    how = words.RUNG[event.rung]
    by = "by a redirect" if event.redirected else ""
    if event.still_running:  # so it is not interrupted, and is not called so
        says = words.still_running(event.still_running)
        return _decided(names, event, "!", says, by, how, attempt=event.attempt)
    says = _with(" ".join(filter(None, ("interrupted", by))), how)
    return _decided(names, event, "■", says, words.ladder(event.ladder_ms), attempt=event.attempt)


def _step_in_doubt(event: StepInDoubt, names: Names, _record: Record) -> Told:
    more = (words.RUNG[event.rung], words.still_running(event.still_running))
    says = _with("in doubt", words.short(event.why))
    return _decided(names, event, "?", says, *more, attempt=event.attempt)


_CHOICES: Final = {
    "happened": "says that it happened",
    "run": "says that it did not happen, and that it is to be run",
    "skip": "says that it is to be skipped",
}


def _doubt_settled(event: DoubtSettled, names: Names, _record: Record) -> Told:
    return _press(event, "?", f"{_CHOICES[event.choice]}: {names.step(event.step).name}")


def _late_result(event: LateResult, names: Names, _record: Record) -> Told:
    if not event.step:
        return Told(sign="·", says="It came to an end by itself, too late: it had been stopped.")
    goes_on = words.still_running(event.still_running)
    if event.error:
        error = words.short(event.error)
        return _decided(names, event, "✕", _with("failed after it was stopped", error), goes_on)
    return _decided(names, event, "✓", "did happen, later", goes_on)


_REFUSED: Final = {
    "denied": "was denied",
    "not_started": "was not started",
    "unknown": "is not made again, and nobody knows whether it happened",
}


def _call_refused(event: CallRefused, _names: Names, _record: Record) -> Told:
    says = _with(_REFUSED[event.outcome], words.short(event.why))
    return Told(sign="○", tone="plain", about=event.name, says=says)


def _undo_started(event: UndoStarted, names: Names, _record: Record) -> Told:
    again = f"attempt {event.attempt}" if event.attempt > 1 else ""
    error = _with("the one before failed", words.short(event.error)) if event.error else ""
    says, facts = words.UNDO["started"], _facts(again, error)
    return Told(sign="↶", about=_of(names, event.step), says=says, facts=facts)


def _step_undone(event: StepUndone, names: Names, _record: Record) -> Told:
    return Told(sign="↶", about=_of(names, event.step), says=words.UNDO["undone"])


def _undo_failed(event: UndoFailed, names: Names, _record: Record) -> Told:
    says = _with(words.UNDO["failed"], words.short(event.error, 1000))
    return Told(sign="✕", about=_of(names, event.step), says=says)


# --- plans, and values that an agent finds again ------------------------------------------------


def _remembered(_event: Remembered, _names: Names, _record: Record) -> Told:
    return Told(says="A value is kept, so that the agent finds the same again.")


def _planned(event: Planned, _names: Names, _record: Record) -> Told:
    titles = words.short(", ".join(filter(None, (item.title for item in event.items))))
    return Told(sign="▸", says=_with(f"plans {words.count(len(event.items), 'item')}", titles))


def _item_rewritten(_event: ItemRewritten, _names: Names, _record: Record) -> Told:
    return Told(sign="↪", says="rewrites the next item")


def _item_started(event: ItemStarted, _names: Names, _record: Record) -> Told:
    return Told(sign="▸", says=words.short(event.text) or "an item of the plan")


def _plan_ended(_event: PlanEnded, _names: Names, _record: Record) -> Told:
    return Told(sign="▸", says="the plan is done")


def _deferred(event: Deferred, _names: Names, _record: Record) -> Told:
    return Told(says=f"However it ends, this is released: {event.name}")


def _released(event: Released, _names: Names, _record: Record) -> Told:
    if not event.error:
        return Told(says="What was to be released at the end is released.")
    return Told(tone="faint", says=_with("Something could not be released", event.error))


# --- text, questions, other runs, cost ------------------------------------------------------------


def _text_ended(event: TextEnded, _names: Names, _record: Record) -> Told:
    said = f"“{words.short(event.text)}”" if event.text else "text"
    return Told(sign="", says=said, facts=() if event.complete else (words.CUT,))


def _asked(event: QuestionAsked, _names: Names, _record: Record) -> Told:
    if event.kind == "timer":
        return Told(sign="?", says=words.short(event.text) or "waits until a time")
    waits = ("waits for an answer",)
    if event.kind == "approval":
        details = value_of(event.details)
        given = cast("dict[str, Any]", details).get("args") if isinstance(details, dict) else None
        says = f"asks to be allowed: {words.short(words.call(event.tool, given), 400)}"
        return Told(sign="?", says=says, facts=waits)
    return Told(sign="?", says=words.short(event.text, 400) or "asks something", facts=waits)


_VERDICTS: Final = {
    "approved": "approved",
    "denied": "denied",
    "edited": "changed the arguments of",
}


def _answered(event: Answered, names: Names, _record: Record) -> Told:
    if event.verdict == "expired":
        return Told(sign="✕", says="Nobody answered in time")
    if event.source == "clock":
        return Told(sign="✓", says="The time has come")
    if event.verdict:
        sign = "✕" if event.verdict == "denied" else "✓"
        tool = names.tool(event.question) or "it"
        return _untoned(_press(event, sign, f"{_VERDICTS[event.verdict]} {tool}"))
    return _untoned(_press(event, "✓", _with("answered", _preview(event.value))))


def _untoned(told: Told) -> Told:
    """Return the same words without a tone: they belong to the line of their question."""
    return msgspec.structs.replace(told, tone="")


def _question_withdrawn(event: QuestionWithdrawn, names: Names, _record: Record) -> Told:
    about = names.tool(event.question) or "question"
    return Told(sign="○", about=about, says=_with("withdrawn", words.short(event.why)))


def _child_born(event: ChildBorn, _names: Names, _record: Record) -> Told:
    facts = ("lives on by itself",) if event.detached else ()
    run = f"run {event.child}"
    says = f"started {event.agent} ({run})" if event.agent else f"started {run}"
    return Told(sign="⤷", says=says, facts=facts)


def _child_ended(event: ChildEnded, _names: Names, _record: Record) -> Told:
    return Told(sign="⤷", about=f"run {event.child}", says=event.state)


def _child_undone(event: ChildUndone, _names: Names, _record: Record) -> Told:
    steps = f", {words.count(event.steps, 'step')}" if event.steps else ""
    says = f"{words.UNDO['undone']}{steps}"
    return Told(sign="↶", about=f"run {event.child}", says=says)


def _spent(event: Spent, names: Names, _record: Record) -> Told:
    cost = words.bill(
        event.tokens_in, event.tokens_out, event.cost_usd_micros, estimated=event.estimated
    )
    if event.step:
        return Told(sign="$", about=_of(names, event.step), says=cost)
    return Told(sign="$", tone="faint", says=f"Spent: {cost}")


def _attention_raised(event: AttentionRaised, _names: Names, _record: Record) -> Told:
    return Told(sign="!", says=_with("to look at", words.short(event.text, 1000)))


def _attention_settled(event: AttentionSettled, names: Names, _record: Record) -> Told:
    known = names.step(event.item.removeprefix("undo-"))
    named = f" ({known.name})" if known != names.step("") else ""
    return _press(event, "✓", f"dealt with what was to look at{named}")


def _guard_tripped(event: GuardTripped, _names: Names, _record: Record) -> Told:
    stop = "paused" if event.on_hit == "pause" else "cancelled"
    says = f"found what it watches for, before anybody has seen it. The run is {stop}"
    return Told(sign="!", tone="press", by=f"Guard {event.guard}", says=says)


def _forgotten(event: Forgotten, _names: Names, _record: Record) -> Told:
    return _press(event, "∅", "had all before this deleted")


# --- parts of sentences ---------------------------------------------------------------------------


def _with(says: str, more: str) -> str:
    return f"{says}: {more}" if more else says


def _facts(*said: str) -> tuple[str, ...]:
    return tuple(filter(None, said))


def _preview(value: Json) -> str:
    """Return how a value begins; for a command's output its last line, which says most."""
    if value == NULL:
        return ""
    raw = bytes(value)
    if raw[:1] not in b'{"' or len(raw) > _PREVIEWED:
        return words.short(raw[:1000].decode(errors="replace"), 60)
    found: object = value_of(value)
    if isinstance(found, dict):
        output = cast("dict[str, object]", found).get("stdout")
        if isinstance(output, str) and output.strip():
            return words.short(output.strip().rsplit("\n", 1)[-1], 60)
        return words.short(raw[:1000].decode(errors="replace"), 60)
    return words.short(str(found), 60)


_Tells: TypeAlias = Callable[[Any, Names, Record], Told]
_TELLS: Final[Mapping[type[Event], _Tells]] = {
    Created: _created,
    Claimed: _claimed,
    TakenOver: _taken_over,
    StoodStill: _stood_still,
    Requeued: _requeued,
    Blocked: _blocked,
    Paused: _paused,
    Cancelled: _cancelled,
    Completed: _completed,
    Stopped: _stopped,
    Failed: _failed,
    PauseRequested: _pause_requested,
    Resumed: _resumed,
    Redirected: _redirected,
    InstructionSettled: _instruction_settled,
    CancelRequested: _cancel_requested,
    UndoRequested: _undo_requested,
    Hurried: _hurried,
    LimitReached: _limit_reached,
    LimitsRaised: _limits_raised,
    Signalled: _signalled,
    Renamed: _renamed,
    ConditionMet: _condition_met,
    StepStarted: _step_started,
    StepFinished: _step_finished,
    StepFailed: _step_failed,
    StepInterrupted: _step_interrupted,
    StepInDoubt: _step_in_doubt,
    DoubtSettled: _doubt_settled,
    LateResult: _late_result,
    CallRefused: _call_refused,
    UndoStarted: _undo_started,
    StepUndone: _step_undone,
    UndoFailed: _undo_failed,
    Remembered: _remembered,
    Planned: _planned,
    ItemRewritten: _item_rewritten,
    ItemStarted: _item_started,
    PlanEnded: _plan_ended,
    Deferred: _deferred,
    Released: _released,
    TextEnded: _text_ended,
    QuestionAsked: _asked,
    Answered: _answered,
    QuestionWithdrawn: _question_withdrawn,
    ChildBorn: _child_born,
    ChildEnded: _child_ended,
    ChildUndone: _child_undone,
    Spent: _spent,
    AttentionRaised: _attention_raised,
    AttentionSettled: _attention_settled,
    GuardTripped: _guard_tripped,
    Forgotten: _forgotten,
}
