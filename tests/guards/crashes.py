"""A run that a guard stops, for somebody who kills its process meanwhile."""

from pullcord import AgentConfig, RunState, Runtime
from pullcord.guard import Phrase
from pullcord.journal.journal import Journal
from pullcord.testing.crashing import Witness
from tests.guards.disguises import SECRET
from tests.guards.leaks import MODELS

STOPPED = (RunState.PAUSED, RunState.CANCELLED)


def paused() -> AgentConfig:
    return MODELS["text"]([Phrase(SECRET, name="harbour", on_hit="pause")])


def cancelled() -> AgentConfig:
    return MODELS["the arguments of a call"]([Phrase(SECRET, name="harbour", on_hit="cancel")])


async def _until_stopped(journal: Journal, agent: AgentConfig) -> None:
    async with Runtime(journal, agents={"agent": agent}) as runtime:
        run = await runtime.start("agent", "go on", run_id="r1")
        await run.wait_for(*STOPPED)


async def until_paused(journal: Journal, witness: Witness) -> None:
    await _until_stopped(journal, paused())


async def until_cancelled(journal: Journal, witness: Witness) -> None:
    await _until_stopped(journal, cancelled())
