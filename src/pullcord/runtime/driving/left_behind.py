"""What an owner records about things that nobody will finish: steps, texts, steps out of code."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

from pullcord.core.events import AttentionRaised, CallRefused, Event, TextEnded
from pullcord.core.judging import judged, left_by_finished, lost_calls
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.undo import undo_item
from pullcord.errors import ImpossibleEvent
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Claim
from pullcord.journal.store import joined
from pullcord.runtime.ownership import Wanted, together
from pullcord.runtime.processes.started_work import StartedWork, is_any_known, left_running
from pullcord.runtime.services import Services
from pullcord.runtime.steps.identity import LONG_IDS, named
from pullcord.runtime.steps.memory import Memory

_LOOKS: Final = 5
Left: TypeAlias = Mapping[StartedWork, tuple[str, ...]]


class Owner(Protocol):
    """Who records it: a `LiveRun`."""

    services: Services
    memory: Memory

    @property
    def run(self) -> Run: ...
    async def record(self, wanted: Wanted, /) -> list[Event]: ...


async def judge_what_was_begun(owner: Owner, claim: Claim) -> None:
    """Judge what the owner before had begun, when it has let go of it."""
    before, left = await owner.services.journal.queue.let_go_by(claim)
    lost = lost_calls(owner.run, before)
    if lost:
        await owner.record(together(*lost))
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
        live = await owner.services.journal.live_text.unended(owner.run.id)
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


async def name_what_goes_on(journal: Journal, run: Run) -> None:
    """Name what was started for this run, or for one that worked for it and is over, and was left
    running in this process. It may serve other runs too, so it is not stopped. A stop of a run
    that rests takes hold without its owner: this needs no licence."""
    has_family = bool(run.children)

    def is_of_it(one: StartedWork) -> bool:
        return one.store == journal.path and (has_family or one.run_id == run.id)

    if not is_any_known(is_of_it):
        return
    found = left_running(asyncio.get_running_loop())
    found = {of: left for of, left in found.items() if is_of_it(of)}
    runs = [run]
    if any(of.run_id != run.id for of in found):
        runs += [one for one, _ in await journal.families.members(run.id) if _is_over(one)]
    for one in runs:
        for item in _untold(one, found):
            await journal.witness.remark(one.id, item)


async def name_if_stopped(journal: Journal, run_id: str) -> None:
    """The same, if the record says that somebody has stopped the run."""
    if is_any_known(lambda one: one.store == journal.path):
        run = await journal.load(run_id)
        if run.state in (RunState.PAUSED, RunState.CANCELLED):
            await name_what_goes_on(journal, run)


def _is_over(run: Run) -> bool:
    return run.ended or run.state is RunState.PAUSED


def _untold(run: Run, found: Left) -> list[AttentionRaised]:
    """What of all this is the run's, and is not named yet. A step that is under way is still to
    be judged, with what it has started."""
    items: dict[str, AttentionRaised] = {}
    for of, left in found.items():
        known = run.steps.get(of.step)
        if of.run_id != run.id or (not of.what and (known is None or known.status == "started")):
            continue
        said = "".join(f"{run.attention.get(i, '')}." for i in (of.step, undo_item(of.step)))
        if all(f"{name}," in said or f"{name}." in said for name in left):
            continue
        before = known.still_running if known and known.rung == "abandoned" else ()
        if of.step in items:
            before = items[of.step].still_running
        left = tuple(dict.fromkeys((*before, *left)))
        what = of.what or f"step {known.name!r}" if known else of.what
        text = (
            f"{what[0].upper()}{what[1:]} is over, and what it has started still runs: "
            f"{', '.join(left)}. Stop it by hand, if nothing else needs it."
        )
        items[of.step] = AttentionRaised(
            item=of.step, kind="not_stoppable", text=text, still_running=left
        )
    return list(items.values())


async def name_the_vanished(owner: Owner) -> None:
    """Steps that were carried out, and that the code has no more."""
    for step, past in owner.memory.vanished():
        text = f"Step {past.name!r} was carried out, and the agent's code has it no more."
        await owner.record(AttentionRaised(item=f"vanished-{step}"[:64], text=text))


async def name_policies_without_a_tool(owner: Owner) -> None:
    """Policies for names that no code mentions and no run has called: they protect nothing."""
    for name in owner.services.policy_names.unseen():
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
