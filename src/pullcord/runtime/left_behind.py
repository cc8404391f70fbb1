"""What an owner records about things that nobody will finish: steps, texts, steps out of code."""

from typing import Final, Protocol

from pullcord.core.events import AttentionRaised, Event, TextEnded
from pullcord.core.judging import judged
from pullcord.core.run import Run
from pullcord.errors import ImpossibleEvent
from pullcord.journal.store import joined
from pullcord.runtime.flight import together
from pullcord.runtime.memory import Memory
from pullcord.runtime.ownership import Wanted
from pullcord.runtime.site import Site

_LOOKS: Final = 5


class Owner(Protocol):
    """Who records it: a driver."""

    site: Site
    memory: Memory

    @property
    def run(self) -> Run: ...
    async def record(self, wanted: Wanted, /) -> list[Event]: ...


async def judge_what_was_begun(owner: Owner) -> None:
    """Judge what the owner before had begun."""
    for step in owner.run.open_steps():
        await owner.record(together(*judged(owner.run, step)))


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


async def name_the_vanished(owner: Owner) -> None:
    """Steps that were carried out, and that the code has no more."""
    for step, past in owner.memory.vanished():
        text = f"Step {past.name!r} was carried out, and the agent's code has it no more."
        await owner.record(AttentionRaised(item=f"vanished-{step}"[:64], text=text))
