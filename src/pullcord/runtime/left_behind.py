"""What an owner records about things that nobody will finish: steps, texts, steps out of code."""

from typing import Final, Protocol

from pullcord.core.events import AttentionRaised, CallRefused, Event, TextEnded
from pullcord.core.judging import judged, left_by_finished
from pullcord.core.run import Run
from pullcord.errors import ImpossibleEvent
from pullcord.journal.ledger import Claim
from pullcord.journal.store import joined
from pullcord.runtime.identity import LONG_IDS, named
from pullcord.runtime.memory import Memory
from pullcord.runtime.ownership import Wanted, together
from pullcord.runtime.site import Site
from pullcord.runtime.started import left_running

_LOOKS: Final = 5


class Owner(Protocol):
    """Who records it: a driver."""

    site: Site
    memory: Memory

    @property
    def run(self) -> Run: ...
    async def record(self, wanted: Wanted, /) -> list[Event]: ...


async def judge_what_was_begun(owner: Owner, claim: Claim) -> None:
    """Judge what the owner before had begun, when it has let go of it."""
    before = await owner.site.journal.let_go_by(claim)
    left = await owner.site.journal.end_what_is_left(claim)
    for step in owner.run.open_steps():
        known = owner.run.steps[step]
        may_act = before[known.owner].may_act(known.run_in)
        said = judged(owner.run, step, may_act=may_act, left=left.get(step, ()))
        await owner.record(together(*said))
    for item in left_by_finished(owner.run, left):
        await owner.record(item)


async def end_texts(owner: Owner) -> None:
    """What was said in parts that have not ended was cut there.

    A piece that was being written when whoever said it was stopped may come between the look
    and the record, which is then refused: it would lose text. The next look has it.
    """
    for left in reversed(range(_LOOKS)):
        live = await owner.site.journal.live_text(owner.run.id)
        try:
            cut = [
                TextEnded(part=part, text=text, complete=False, step=owner.run.step_of_output(part))
                for part, text in joined(live).items()
            ]
            if len(cut) < 2 or not await owner.record(together(*cut)):  # else each as it may be
                for ended in cut:
                    await owner.record(ended)
        except ImpossibleEvent:
            if not left:
                raise
        else:
            return


async def name_what_goes_on(owner: Owner) -> None:
    """What steps of this life have started and left running when they were done. It may serve
    other runs too, so it is named and not stopped."""
    for step, left in left_running(owner.run.id).items():
        known = owner.run.steps.get(step)
        if known is None or known.status != "finished" or known.still_running == left:
            continue
        text = (
            f"Step {known.name!r} is done, and what it has started still runs: {', '.join(left)}. "
            "Stop it by hand, if nothing else needs it."
        )
        kind = "not_stoppable"
        await owner.record(AttentionRaised(item=step, kind=kind, text=text, still_running=left))


async def name_the_vanished(owner: Owner) -> None:
    """Steps that were carried out, and that the code has no more."""
    for step, past in owner.memory.vanished():
        text = f"Step {past.name!r} was carried out, and the agent's code has it no more."
        await owner.record(AttentionRaised(item=f"vanished-{step}"[:64], text=text))


async def name_policies_without_a_tool(owner: Owner) -> None:
    """Policies for names that no code mentions and no run has called: they protect nothing."""
    for name in owner.site.policy_names.unseen():
        text = (
            f"A policy is given for a tool {name!r}, and there is none of that name: it protects "
            "nothing. Spell it as the tool is called, or remove it: open(..., tools=...)."
        )
        await owner.record(AttentionRaised(item=named(LONG_IDS, "policy", name), text=text))


async def name_approved_and_never_called(owner: Owner) -> None:
    """Calls that a person has allowed, and that the agent never came to: its code was changed.
    Not those that somebody has overruled since, by saying something new."""
    for question, asked in list(owner.run.questions.items()):
        is_lost = asked.verdict == "approved" and asked.step not in owner.run.steps
        is_overruled = max(owner.run.instructions, default=0) > asked.settled_seq
        if not is_lost or is_overruled or asked.step in owner.memory.refused:
            continue
        why = "it was approved, and the agent's code did not come to it again: nothing was called"
        text = (
            f"{asked.tool!r} was approved and never called: the agent's code has it no more, or "
            "calls it otherwise. Nothing of it was begun. Do by hand what it was approved for, or "
            "start again."
        )
        said = CallRefused(step=asked.step, name=asked.tool, outcome="not_started", why=why)
        item = AttentionRaised(item=question, text=text)
        if await owner.record(together(said, item)):
            owner.memory.refused[asked.step] = said
