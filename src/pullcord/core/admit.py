"""The owner of a run has something to record: may it still, and as what."""

from pullcord.core.events import (
    TAGS,
    Blocked,
    Completed,
    Event,
    Failed,
    LateResult,
    QuestionWithdrawn,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    UndoStarted,
)
from pullcord.core.fold import can_block, may_wrap_up
from pullcord.core.run import Run, Step
from pullcord.core.states import TABLE, RunState
from pullcord.core.undo import to_undo


def admit(run: Run, event: Event) -> tuple[Event, ...]:
    """Return what an owner may record of `event` in the run as it is now, oldest first.

    Usually the event itself. Nothing, if a control or another decision overtook it: a step that
    comes back empty must not start. A result that was overtaken becomes late evidence, behind
    the step's one decision, so that an effect which happened is never forgotten.
    """
    allowed = TAGS[type(event)] in TABLE[run.state].on
    match event:
        case StepStarted(step=step):
            before = run.steps.get(step)
            free = before is None or before.status not in ("started", "finished")
            may = run.state is not RunState.STOPPING or may_wrap_up(run, event)
            return (event,) if allowed and free and may else ()
        case StepFinished() | StepFailed():
            known = run.steps.get(event.step)
            if known is None or (allowed and _is_open(known, event.attempt)):
                return (event,)
            return _late(known, event)
        case StepInterrupted() | StepInDoubt():
            known = run.steps.get(event.step)
            decidable = known is None or _is_open(known, event.attempt)
            return (event,) if allowed and decidable else ()
        case Completed() | Failed():
            if allowed:
                return (event,)
            return (_evidence("", event),) if run.cancel else ()
        case QuestionWithdrawn(question=name):
            asked = run.questions.get(name)
            still_open = asked is None or asked.status == "open"
            return (event,) if allowed and still_open else ()
        case UndoStarted(step=step):
            return (event,) if allowed and to_undo(run)[:1] == [step] else ()
        case Blocked():
            return (event,) if allowed and can_block(run, event) else ()
        case _:
            return (event,) if allowed else ()


def _is_open(known: Step, attempt: int) -> bool:
    return known.status == "started" and attempt in (0, known.attempt)


def _late(known: Step, event: StepFinished | StepFailed) -> tuple[Event, ...]:
    """What is left to record of an outcome that came after its attempt was decided otherwise."""
    happened = isinstance(event, StepFinished)
    if (known.late_seq and happened) or known.status == "finished":
        return ()
    if known.status == "failed" and not happened:
        return ()
    evidence = _evidence(event.step, event, event.attempt)
    if _is_open(known, event.attempt):
        return (StepInterrupted(step=event.step, attempt=event.attempt), evidence)
    return (evidence,)


def _evidence(
    step: str, event: StepFinished | StepFailed | Completed | Failed, attempt: int = 0
) -> LateResult:
    left = event.still_running if isinstance(event, StepFinished | StepFailed) else ()
    if isinstance(event, StepFinished | Completed):
        return LateResult(step=step, attempt=attempt, result=event.result, still_running=left)
    return LateResult(step=step, attempt=attempt, error=event.error, still_running=left)
