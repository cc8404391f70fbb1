"""Histories that can happen: every event a run's state allows, in any order Hypothesis likes."""

from hypothesis import strategies as st

from pullcord.core.admit import admit
from pullcord.core.commands import Answer, Cancel, Command, Pause, Redirect, Rename, Resume, Settle
from pullcord.core.decide import decide
from pullcord.core.events import (
    AttentionRaised,
    AttentionSettled,
    Blocked,
    Cancelled,
    ChildBorn,
    ChildEnded,
    Claimed,
    Completed,
    Created,
    Deferred,
    Event,
    Failed,
    InstructionSettled,
    ItemStarted,
    Paused,
    PlanEnded,
    PlanItem,
    Planned,
    QuestionAsked,
    Record,
    Released,
    Remembered,
    Requeued,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    TextEnded,
    UndoFailed,
)
from pullcord.core.fold import evolve, replay
from pullcord.core.run import Run
from pullcord.core.values import dump
from pullcord.errors import ImpossibleEvent


def apply(run: Run, record: Record) -> Run:
    """Return the run as it is after `record`; `run` stays as it is."""
    after = run.copy()
    evolve(after, record)
    return after


NAMES = st.sampled_from(["a", "b", "c"])
WHO = st.sampled_from(["ana", "bo"])


@st.composite
def commands(draw: st.DrawFn) -> Command:
    by, reason, now = draw(WHO), draw(st.sampled_from(["", "wrong path"])), draw(st.booleans())
    return draw(
        st.sampled_from(
            [
                Pause(by=by, reason=reason, now=now),
                Resume(by=by),
                Resume(by=by, instruction="summarise and stop"),
                Redirect(by=by, instruction="use the new list"),
                Cancel(by=by, reason=reason, now=now, undo=now),
                Answer(by=by, question=draw(NAMES), value=dump("yes")),
                Answer(by=by, question=draw(NAMES), value=dump("run")),
                Answer(by=by, question=draw(NAMES), value=dump({"happened": 3})),
                Settle(by=by, item=draw(NAMES)),
                Rename(by=by, title=draw(NAMES)),
                Cancel(by=by, quarantine=True),
            ]
        )
    )


@st.composite
def owner_events(draw: st.DrawFn, run: Run) -> Event:
    """Something an owner might want to record, possible now or not."""
    name = draw(NAMES)
    attempt = run.steps[name].attempt + 1 if name in run.steps else 1
    told = draw(st.sampled_from(sorted(run.instructions) or [1]))
    plan = run.plans.get(name)
    item = plan.next if plan else None
    return draw(
        st.sampled_from(
            [
                Claimed(owner="w", epoch=run.epoch + 1),
                Requeued(),
                Blocked(seen_seq=run.seq),
                ChildEnded(child=name, state="completed"),
                StepFinished(step=name, attempt=1, result=dump([name])),
                Paused(rung="cooperative"),
                Cancelled(rung="killed"),
                Completed(result=dump(name)),
                Failed(error="boom"),
                StepStarted(step=name, name=name, attempt=attempt, undoable=True),
                StepStarted(step=name, name=name, attempt=attempt, tool="look", args=dump([name])),
                StepStarted(step=name, name=name, attempt=attempt, model="scripted"),
                StepFinished(step=name, result=dump([name])),
                StepFailed(step=name, error="boom"),
                StepInterrupted(step=name),
                StepInDoubt(step=name),
                StepUndone(step=name),
                UndoFailed(step=name, error="gone"),
                TextEnded(part=name, text="hello", complete=False),
                QuestionAsked(question=name, text="sure?"),
                QuestionAsked(question=name, kind="timer", due_ms=70),
                QuestionAsked(question=name, kind="doubt", step=name),
                Remembered(key=name, value=dump(3)),
                Planned(
                    plan=name, items=(PlanItem(f"{name}-1", "one"), PlanItem(f"{name}-2", "two"))
                ),
                ItemStarted(
                    plan=name,
                    item=item.id if item else "?",
                    text=plan.text(item) if plan and item else "?",
                ),
                PlanEnded(plan=name),
                Deferred(defer=name, name="lock"),
                Released(defer=name),
                ChildBorn(child=name),
                InstructionSettled(instruction=told, outcome="delivered"),
                Spent(cost_usd_micros=None if name == "a" else 12, tokens_in=3),
                AttentionRaised(item=name, text="look"),
                AttentionSettled(item=name, by="ana"),
            ]
        )
    )


@st.composite
def histories(draw: st.DrawFn, max_size: int = 40) -> list[Record]:
    """The records of a run that really could have happened, by `decide` and `admit`."""
    records = [Record("r1", 1, 0, 0, Created(agent="churn", thread="t1"))]
    run = apply(Run("r1"), records[0])
    for _ in range(draw(st.integers(0, max_size))):
        if draw(st.booleans()) and run.state != "queued":
            wanted = draw(owner_events(run))
            step = getattr(wanted, "step", None)
            known = not step or step in run.steps or isinstance(wanted, StepStarted)
            events = admit(run, wanted) if known else ()
        elif run.state == "queued" and draw(st.booleans()):
            events = (Claimed(owner="w", epoch=run.epoch + 1),)
        else:
            events = decide(run, draw(commands())).events
        try:
            run, records = _extended(run, records, events)
        except ImpossibleEvent:
            continue  # asked before, undone before, ...: the journal would refuse it
    return records


def _extended(
    run: Run, records: list[Record], events: tuple[Event, ...]
) -> tuple[Run, list[Record]]:
    added = list(records)
    for event in events:
        record = Record("r1", run.seq + 1, run.seq * 10, run.epoch, event)
        run = apply(run, record)
        added.append(record)
    return run, added


def after(*events: Event) -> Run:
    """The run that these events make, after its creation."""
    everything = [Created(agent="churn", thread="t1"), *events]
    return replay("r1", [Record("r1", n, n, 0, e) for n, e in enumerate(everything, 1)])
