"""What is recorded about a step that began under an owner who is gone."""

from pullcord.core.events import AttentionRaised, Event, Spent, StepInDoubt, StepInterrupted
from pullcord.core.limits import Reserve
from pullcord.core.run import Run


def judged(run: Run, step: str) -> list[Event]:
    """Nobody knows what became of it; of what has no effect, or may have it twice, nobody needs
    to. A doubt comes together with what makes people look at it. A request to a model that was
    lost is counted as what was set aside for it."""
    known = run.steps[step]
    if known.model:
        kept = run.reserved.get(step, Reserve())
        lost = Spent(
            step=step,
            cost_usd_micros=kept.usd_micros or None,
            tokens_in=kept.tokens or None,
            estimated=True,
        )
        return [StepInterrupted(step=step), lost]
    if known.effect != "once":
        return [StepInterrupted(step=step)]
    doubt = StepInDoubt(step=step, why="its process ended before it could say")
    return [doubt, in_doubt(step, known.name)]


def in_doubt(step: str, name: str) -> AttentionRaised:
    """What stays visible until somebody has said what became of a step."""
    text = f"Nobody knows whether step {name!r} happened."
    return AttentionRaised(item=step, kind="in_doubt", text=text)
