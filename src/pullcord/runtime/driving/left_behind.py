"""Records the remains that nobody will finish: steps, texts, and steps that left the code."""

import asyncio
from collections.abc import Mapping
from typing import Final, TypeAlias

from pullcord.core.events import AttentionRaised, CallRefused, TextEnded
from pullcord.core.judging import judged, left_by_finished, lost_calls
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.undo import undo_item
from pullcord.errors import ImpossibleEvent
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Claim
from pullcord.journal.store import joined
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.ownership import together
from pullcord.runtime.processes.started_work import StartedWork, is_any_known, left_running
from pullcord.runtime.steps.identity import LONG_IDS, named

_LOOKS: Final = 5
Left: TypeAlias = Mapping[StartedWork, tuple[str, ...]]


async def judge_what_was_begun(owner: LiveRun, claim: Claim) -> None:
    """Judge the steps that the last owner had begun, once it has let go of them."""
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


async def end_texts(owner: LiveRun) -> None:
    """Record each unended part of text as cut at its last character.

    A stopped writer may add a piece between our read and our record. The journal then refuses the
    record, because it would lose text. The next attempt includes the piece.
    """
    for left in reversed(range(_LOOKS)):
        live = await owner.services.journal.live_text.unended(owner.run.id)
        try:
            cut = [
                TextEnded(part=part, text=text, complete=False, step=owner.run.step_of_output(part))
                for part, text in joined(live).items()
            ]
            if len(cut) < 2 or not await owner.record(together(*cut)):  # otherwise one record each
                for ended in cut:
                    await owner.record(ended)
        except ImpossibleEvent:
            if not left:
                raise
        else:
            return


async def name_what_goes_on(journal: Journal, run: Run) -> None:
    """Name the work that this run, or an ended child of it, has left running in this process.

    It may serve other runs too, so it is not stopped. This needs no licence, because a stop of a
    run at rest takes effect without its owner.
    """
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
    """Call `name_what_goes_on` if the record says that the run was stopped."""
    if is_any_known(lambda one: one.store == journal.path):
        run = await journal.load(run_id)
        if run.state in (RunState.PAUSED, RunState.CANCELLED):
            await name_what_goes_on(journal, run)


def _is_over(run: Run) -> bool:
    return run.ended or run.state is RunState.PAUSED


def _untold(run: Run, found: Left) -> list[AttentionRaised]:
    """Return an item for each piece of this run's work that is not named yet.

    A step under way is left out: it will be judged with the work that it has started.
    """
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


async def name_the_vanished(owner: LiveRun) -> None:
    """Name the steps that were carried out and are no longer in the code."""
    for step, past in owner.memory.vanished():
        text = f"Step {past.name!r} was carried out, and the agent's code has it no more."
        await owner.record(AttentionRaised(item=f"vanished-{step}"[:64], text=text))


async def name_policies_without_a_tool(owner: LiveRun) -> None:
    """Name policies that protect nothing: no code mentions their names, no run has called them."""
    for name in owner.services.policy_names.unseen():
        text = (
            f"A policy is given for a tool {name!r}, and there is none of that name: it protects "
            "nothing. Spell it as the tool is called, or remove it: open(..., tools=...)."
        )
        await owner.record(AttentionRaised(item=named(LONG_IDS, "policy", name), text=text))


async def name_approved_and_never_called(owner: LiveRun) -> None:
    """Name approved calls that the agent never made, because its code was changed.

    Calls that a later instruction overruled are left out.
    """
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
