"""Somebody asks for a control: which events carry it out in the run as it is, or why not."""

from typing import TypedDict, assert_never, cast, get_args

import msgspec

from pullcord.core.acks import Reason, Verdict
from pullcord.core.commands import (
    Answer,
    Approve,
    Cancel,
    Command,
    Deny,
    Edit,
    Pause,
    Raise,
    Redirect,
    Rename,
    Resume,
    Settle,
    Signal,
    Source,
    Undo,
)
from pullcord.core.conditions import MOST, External, leaves
from pullcord.core.events import (
    Answered,
    AttentionSettled,
    Cancelled,
    CancelRequested,
    Choice,
    DoubtSettled,
    Event,
    Hurried,
    ItemRewritten,
    LimitsRaised,
    PauseRequested,
    Redirected,
    Renamed,
    Resumed,
    Signalled,
    UndoRequested,
)
from pullcord.core.limits import CAPS
from pullcord.core.resting import nothing_to_stop
from pullcord.core.run import Deletion, Question, Run, Stop
from pullcord.core.states import TABLE, RunState
from pullcord.core.undo import may_be_asked_to_undo, would_undo, would_undo_children
from pullcord.core.values import NULL, Json, dump, load


class Decision(msgspec.Struct, frozen=True):
    """What `decide` found. `seq` names the record behind an `already` or `too_late`."""

    verdict: Verdict
    events: tuple[Event, ...] = ()
    seq: int = 0
    reason: Reason = ""
    message: str = ""


def decide(
    run: Run, command: Command, *, idle: bool = False, now_ms: int = 0, family: str = ""
) -> Decision:
    """Return how `command` is answered in the run as it is: always, for every state.

    `now_ms`: the wall clock, by which an approval expires.

    `idle`: nobody holds the run and no text of it is unfinished. Then a cancel that finds nothing
    to stop or undo is in effect at once, without a process that would have to know the agent.

    `family`: a run above it is being cancelled with it, and has what both did undone.
    """
    if run.forgotten:
        return _gone(run, command, run.forgotten)
    if isinstance(command, Settle):
        return _settle(run, command)
    if isinstance(command, Rename):
        return _rename(run, command)
    if isinstance(command, Undo):
        return _undo(run, command)
    if run.ended:
        return _after_the_end(run, command)
    if run.state is RunState.CANCELLING and not isinstance(command, Cancel):
        return _overtaken(run, command)
    if run.state is RunState.STOPPING and not isinstance(command, Cancel):
        return _stopping(run, command)
    stale = command.seen_seq is not None and command.seen_seq < run.control_seq
    if stale and not isinstance(command, Cancel):  # stopping is never what was not meant
        return Decision(
            "rejected",
            seq=run.control_seq,
            reason="stale",
            message=f"{_cannot(run, command)}: record {run.control_seq} changed it after record "
            f"{command.seen_seq}, which is what you were looking at. Nothing was changed. "
            f"Look again: pullcord show {run.id}",
        )
    match command:
        case Pause():
            return _pause(run, command)
        case Resume():
            return _resume(run, command)
        case Redirect():
            return Decision("applied", _redirected(run, command, command.instruction))
        case Cancel():
            return _cancel(run, command, idle=idle, family=family)
        case Answer():
            return _answer(run, command)
        case Approve() | Edit() | Deny():
            return _judge(run, command, now_ms)
        case Raise():
            return _raise(run, command)
        case Signal():
            return _signal(run, command)
        case _:
            assert_never(command)


class _Who(TypedDict):
    by: str
    reason: str
    source: Source
    via: str
    key: str | None


def _who(command: Command) -> _Who:
    """What every control records of whoever asked for it."""
    return {
        "by": command.by,
        "reason": command.reason,
        "source": command.source,
        "via": command.via,
        "key": command.key,
    }


# --- one control each -------------------------------------------------------------------------


def _pause(run: Run, command: Pause) -> Decision:
    if run.state is RunState.PAUSED:
        return Decision("already", seq=run.state_seq)
    if run.state is RunState.PAUSING:
        return _again(run.pause, command, run.state_seq)
    return Decision("applied", (PauseRequested(**_who(command), now=command.now),))


def _cancel(run: Run, command: Cancel, *, idle: bool, family: str) -> Decision:
    if command.back_to and command.back_to not in run.steps:
        return Decision(
            "rejected",
            seq=run.seq,
            reason="unknown_step",
            message=f"{_cannot(run, command)} back to {command.back_to}: it has no such step. "
            f"Nothing was changed. See its steps: pullcord show {run.id}",
        )
    undo = run.cancel.undo if run.cancel else command.undo
    back_to = run.cancel.back_to if run.cancel else command.back_to
    elsewhere = run.cancel.family if run.cancel else family
    found = would_undo(run, back_to=back_to) or would_undo_children(run)
    nothing_left = nothing_to_stop(run) and not (undo and not elsewhere and found)
    at_rest = run.epoch == 0 or (idle and nothing_left)
    if run.cancel and not _is_stronger(command, run.cancel):
        if at_rest:  # whoever was to finish it is gone, and there is nothing left to finish
            return Decision("applied", (Cancelled(),))
        return _again(run.cancel, command, run.state_seq)
    asked = CancelRequested(
        **_who(command),
        undo=command.undo,
        keep_partial=command.keep_partial,
        quarantine=command.quarantine,
        now=command.now,
        back_to=command.back_to,
        family=family,
    )
    return Decision("applied", (asked, Cancelled()) if at_rest else (asked,))


def _is_stronger(command: Cancel, stop: Stop) -> bool:
    """Whether it asks for more than was asked for before: a leak was found meanwhile, say."""
    hides = command.quarantine and not stop.quarantine
    return hides or (stop.keep_partial and not command.keep_partial)


def _again(stop: Stop | None, command: Pause | Cancel, seq: int) -> Decision:
    """A second press: speeds up what the first one began, or finds it begun."""
    if stop and command.now and not stop.hurried_seq:
        hurried = Hurried(**_who(command))
        return Decision("applied", (hurried,))
    return Decision("already", seq=stop.seq if stop else seq)


def _resume(run: Run, command: Resume) -> Decision:
    events: list[Event] = []
    if command.instruction is not None:  # first, so that whoever goes on finds it
        events += _redirected(run, command, command.instruction)
    if "resumed" in TABLE[run.state].on:
        events.append(Resumed(**_who(command)))
    if events:
        return Decision("applied", tuple(events))
    if run.state is RunState.WAITING:
        return Decision(
            "rejected",
            seq=run.state_seq,
            reason="not_paused",
            message=f"{_cannot(run, command)}: it is not paused, it waits for "
            f"{_waits_for(run)}. Nothing was changed. See what is open: pullcord show {run.id}",
        )
    return Decision("already", seq=run.state_seq)


def _redirected(run: Run, command: Redirect | Resume, instruction: str) -> tuple[Event, ...]:
    """The instruction; and if a plan has an item left, that item now says what was asked for."""
    told = Redirected(**_who(command), instruction=instruction)
    if (coming := run.next_item()) is None:
        return (told,)
    name, item = coming
    before = run.plans[name].text(item)
    return told, ItemRewritten(plan=name, item=item.id, before=before, after=instruction)


def _asked(run: Run, command: Answer | Approve | Edit | Deny) -> Question | Decision:
    """The open question, or why there is none."""
    asked = run.questions.get(command.question)
    if asked is None:
        return Decision(
            "rejected",
            seq=run.seq,
            reason="unknown_question",
            message=f"{_cannot(run, command)}: it never asked {command.question}. "
            f"Nothing was changed. See what is open: pullcord show {run.id}",
        )
    if asked.status != "open":
        return Decision(
            "too_late",
            seq=asked.settled_seq,
            message=f"{_cannot(run, command)}: {command.question} was "
            f"{asked.verdict or asked.status} by record {asked.settled_seq}. Nothing was changed. "
            f"See the run: pullcord show {run.id}",
        )
    return asked


def _judge(run: Run, command: Approve | Edit | Deny, now_ms: int) -> Decision:
    """Allow a call, or not. What is allowed is the call with this digest and no other."""
    asked = _asked(run, command)
    if isinstance(asked, Decision):
        return asked
    if asked.kind != "approval":
        return Decision(
            "rejected",
            seq=run.seq,
            reason="not_an_approval",
            message=f"{_cannot(run, command)}: {command.question} is a {asked.kind}, not an "
            f"approval. Nothing was changed. Answer it: pullcord answer {run.id} "
            f"{command.question} VALUE",
        )
    if 0 < asked.due_ms <= now_ms:
        expired = Answered(by="clock", source="clock", question=command.question, verdict="expired")
        return Decision(
            "too_late",
            (expired,),
            seq=run.seq + 1,
            reason="expired",
            message=f"{_cannot(run, command)}: {command.question} has expired, and the call will "
            f"not be done. See the run: pullcord show {run.id}",
        )
    if isinstance(command, Deny):
        denied = Answered(**_who(command), question=command.question, verdict="denied")
        return Decision("applied", (denied,))
    if command.call and command.call != asked.call:
        return Decision(
            "rejected",
            seq=run.seq,
            reason="other_call",
            message=f"{_cannot(run, command)}: {command.question} is about another call than the "
            f"one you were shown. Nothing was changed. Look again: pullcord approvals {run.id}",
        )
    settled = Answered(**_who(command), question=command.question, verdict="approved")
    if isinstance(command, Edit):
        settled = msgspec.structs.replace(settled, verdict="edited", value=command.args)
    return Decision("applied", (settled,))


def _answer(run: Run, command: Answer) -> Decision:
    asked = _asked(run, command)
    if isinstance(asked, Decision):
        return asked
    if asked.kind == "approval":
        if command.source != "clock":
            return Decision(
                "rejected",
                seq=run.seq,
                reason="unknown_choice",
                message=f"{_cannot(run, command)}: {command.question} is an approval. Nothing was "
                f"changed. Approve it: pullcord approve {run.id} {command.question}; or deny it: "
                f"pullcord deny {run.id} {command.question} --reason WHY",
            )
        expired = Answered(**_who(command), question=command.question, verdict="expired")
        return Decision("applied", (expired,))
    answered = Answered(**_who(command), question=command.question, value=command.value)
    if asked.kind != "doubt":
        return Decision("applied", (answered,))
    if (chosen := _chosen(command.value)) is None:
        return Decision(
            "rejected",
            seq=run.seq,
            reason="unknown_choice",
            message=f"{_cannot(run, command)}: {command.question} is answered with happened, run "
            f'or skip (or {{"happened": RESULT}}). Nothing was changed. For example: '
            f"pullcord answer {run.id} {command.question} happened",
        )
    choice, result = chosen
    settled = DoubtSettled(**_who(command), step=asked.step, choice=choice, result=result)
    return Decision("applied", (answered, settled))


def _chosen(value: Json) -> tuple[Choice, Json] | None:
    match load(value):
        case {"happened": result}:
            return "happened", dump(result)
        case str(choice) if choice in get_args(Choice):
            return cast("Choice", choice), NULL
        case _:
            return None


def _undo(run: Run, command: Undo) -> Decision:
    """Have what an ended run has left behind undone."""
    if run.state is RunState.CANCELLING and run.cancel and run.cancel.undo:
        return Decision("already", seq=run.cancel.seq)
    may = command.source == "parent" or may_be_asked_to_undo(run)
    if not may or "undo_requested" not in TABLE[run.state].on:
        how = f"Cancel it, and it is undone: pullcord cancel {run.id}"
        if run.state is RunState.CANCELLING:
            how = f"When it has ended, undo it: pullcord undo {run.id}"
        elif run.parent:
            how = (
                f"What it did is undone with the run it worked for, if that has not ended: "
                f"pullcord cancel {run.parent}"
            )
        elif run.ended:
            how = "Its effects are no longer provisional."
        return Decision(
            "rejected",
            seq=run.state_seq,
            reason="nothing_to_undo",
            message=f"{_cannot(run, command)}: it is {run.state}. Nothing was changed. {how}",
        )
    for step in (command.step, command.back_to):
        if step and step not in run.steps:
            return Decision(
                "rejected",
                seq=run.seq,
                reason="unknown_step",
                message=f"{_cannot(run, command)}: it has no step {step}. Nothing was changed. "
                f"See its steps: pullcord show {run.id}",
            )
    found = would_undo(run, step=command.step, back_to=command.back_to)
    is_all = not command.step and not command.back_to
    below = would_undo_children(run) if is_all else []
    if not found and not below:
        return Decision(
            "rejected",
            seq=run.seq,
            reason="nothing_to_undo",
            message=f"{_cannot(run, command)}: nothing of it is left that says how it could be "
            f"undone. Nothing was changed. See what it did: pullcord receipt {run.id}",
        )
    is_wanted = all(run.steps[step].undo in ("wanted", "started") for step in found)
    if is_wanted and all(run.children[child].undo == "wanted" for child in below):
        return Decision("already", seq=run.control_seq)
    asked = UndoRequested(**_who(command), step=command.step, back_to=command.back_to)
    return Decision("applied", (asked,))


def _settle(run: Run, command: Settle) -> Decision:
    if command.item not in run.attention:
        return Decision(
            "rejected",
            seq=run.seq,
            reason="unknown_item",
            message=f"{_cannot(run, command)}: {command.item} is not an open attention item of it. "
            f"Nothing was changed. See what is open: pullcord show {run.id}",
        )
    settled = AttentionSettled(**_who(command), item=command.item)
    return Decision("applied", (settled,))


def _rename(run: Run, command: Rename) -> Decision:
    if command.title == run.title:
        return Decision("already", seq=run.titled_seq)
    return Decision("applied", (Renamed(**_who(command), title=command.title),))


def _raise(run: Run, command: Raise) -> Decision:
    mine = list(leaves(run.limits.condition)) if run.limits else []
    caps = [name for name, kind in CAPS.items() if any(type(leaf) is kind for leaf in mine)]
    wrong = [f"{n}={v:g}" for n, v in command.caps.items() if n not in caps or not 0 < v <= MOST]
    if wrong or not command.caps:
        has = f"It has {', '.join(caps)}" if caps else "It has no caps that could be raised"
        return Decision(
            "rejected",
            seq=run.seq,
            reason="unknown_limit",
            message=f"{_cannot(run, command)} {', '.join(wrong) or 'nothing'}: {has}. Nothing was "
            f"changed. See what it has used: pullcord show {run.id}",
        )
    events: list[Event] = [LimitsRaised(**_who(command), caps=command.caps)]
    is_held = run.pause is not None and run.pause.source == "limit"
    if is_held and "resumed" in TABLE[run.state].on:
        events.append(Resumed(**_who(command)))
    return Decision("applied", tuple(events))


def _signal(run: Run, command: Signal) -> Decision:
    named = External(command.name)
    mine = list(leaves(run.limits.condition)) if run.limits else []
    if named not in mine:
        return Decision(
            "rejected",
            seq=run.seq,
            reason="unknown_limit",
            message=f"{_cannot(run, command)}: its limits do not have {named}. Nothing was "
            f"changed. See its limits: pullcord show {run.id}",
        )
    if seq := run.met.get(str(named)):
        return Decision("already", seq=seq)
    return Decision("applied", (Signalled(**_who(command), name=command.name),))


# --- refusals, each with a way out ------------------------------------------------------------


def _gone(run: Run, command: Command, deleted: Deletion) -> Decision:
    return Decision(
        "rejected",
        seq=run.seq,
        reason="forgotten",
        message=f"{_cannot(run, command)}: its {deleted}. Nothing was changed. That it ran, and "
        f"how it ended, is kept: pullcord show {run.id}",
    )


def _after_the_end(run: Run, command: Command) -> Decision:
    if (
        run.state is RunState.CANCELLED
        and isinstance(command, Cancel)
        and not (run.cancel and _is_stronger(command, run.cancel))
    ):
        return Decision("already", seq=run.state_seq)
    return Decision(
        "too_late",
        seq=run.state_seq,
        reason="ended",
        message=f"{_cannot(run, command)}: it is {run.state} since record {run.state_seq}"
        f"{_because(run.cancel)}. Ended runs never move again. "
        f"Go on from what it has done: pullcord fork {run.id}",
    )


def _overtaken(run: Run, command: Command) -> Decision:
    return Decision(
        "too_late",
        seq=run.cancel.seq if run.cancel else run.state_seq,
        reason="cancelling",
        message=f"{_cannot(run, command)}: it is being cancelled{_because(run.cancel)}. "
        f"Nothing was changed. When it has ended, go on from it: pullcord fork {run.id}",
    )


def _stopping(run: Run, command: Command) -> Decision:
    reached = ", ".join(run.reached.leaves) if run.reached else "a limit"
    return Decision(
        "too_late",
        seq=run.state_seq,
        reason="stopping",
        message=f"{_cannot(run, command)}: it has reached {reached} and is ending. Nothing was "
        f"changed. When it has ended, go on from it with more: pullcord fork {run.id}",
    )


def _cannot(run: Run, command: Command) -> str:
    return f"Cannot {command.verb.replace('_', ' ')} run {run.id}"


def _because(stop: Stop | None) -> str:
    return f" (cancelled by {stop.by}: {stop.reason or 'no reason given'})" if stop else ""


def _waits_for(run: Run) -> str:
    still_open = [f"{run.questions[name].kind} {name}" for name in run.open_questions()]
    still_open += [f"child {name}" for name in run.living_children()]
    return ", ".join(still_open) or "something outside"
