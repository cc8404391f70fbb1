"""Runs that a run has started, as it knows them."""

from typing import Final, Generic, NamedTuple

from pullcord.core.events import ChildBorn
from pullcord.core.states import RunState
from pullcord.errors import InvalidInput
from pullcord.runtime.agents import Result
from pullcord.runtime.doors.questions import ask_until_chosen
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.run_result import result_of
from pullcord.runtime.steps.identity import LONG_IDS, Identity, Scope, named
from pullcord.runtime.steps.memory import DETACHED

_IS_AN_ANSWER: Final = (RunState.COMPLETED, DETACHED)
"""What a child of an earlier run has come to, so that no other is started in its place."""


class ChildRun(Generic[Result]):
    """A run that this one has started, whose agent returns a `Result`."""

    def __init__(self, live: LiveRun, run_id: str) -> None:
        self._live = live
        self.run_id = run_id

    def __repr__(self) -> str:
        return f"<child run {self.run_id}>"

    async def result(self) -> Result:
        """Wait until it has ended and return its result.

        Raises:
            RunFailed, RunCancelled: it has none.
        """
        mine = self._live.run.children.get(self.run_id)
        known = self._live.memory.children.get(self.run_id)
        if known == DETACHED or (mine is not None and mine.detached):
            raise InvalidInput(
                f"Cannot wait for {self.run_id}: it was started detached. Nothing was changed. "
                "Start it without detached=True."
            )
        if mine is not None and not known:
            await self._live.until(lambda run: bool(run.children[self.run_id].state))
        return await result_of(self._live.services.journal, self.run_id)


class Known(NamedTuple):
    """A run that a `spawn` has started before: in this run, or in one that it goes on from."""

    run_id: str = ""
    is_the_same: bool = False  # it is the child; else a new one goes on from it


def known_child(live: LiveRun, agent: str, who: Identity) -> Known:
    """Return what this `spawn` has started before. A child that failed or was stopped, or whose
    work was undone, is no answer in a fork; but what it did once is not done again."""
    memory = live.memory
    for parent in (live.run.id, *memory.ancestors):
        child = child_id(agent, parent, who, ids=memory.ids)
        if child in memory.children or child in live.run.children:
            is_mine = parent == live.run.id
            return Known(child, is_mine or memory.children[child] in _IS_AN_ANSWER)
    return Known()


class Lineage(NamedTuple):
    """What a new child goes on from: which run, up to which record; and where it is spawned."""

    agent: str
    who: Identity
    elder: str | None = None
    at: int = 0
    ids: int = LONG_IDS

    def birth(self, child: str, *, detached: bool, final: bool) -> ChildBorn:
        """What its parent records."""
        return ChildBorn(
            child=child,
            detached=detached,
            agent=self.agent,
            final=final,
            scope=self.who.scope,
            place=self.who.place,
        )


async def lineage_of(live: LiveRun, agent: str, who: Identity, known: str) -> Lineage:
    """Return what the new child of this `spawn` goes on from: `known`, what it has started before,
    or one with another input. What that one did, or may have done, is known to the new one."""
    elder = known or await _changed(live, agent, who)
    if not elder:
        return Lineage(agent, who)
    journal = live.services.journal
    first = await journal.families.birth(elder, what="go on from")
    return Lineage(agent, who, elder, (await journal.head(elder)).seq, first.ids)


async def _changed(live: LiveRun, agent: str, who: Identity) -> str:
    """Return the child that a new one goes on from, where one with another input stood: the code
    was changed. Empty: it is started anew, because a person says so, or because the one before did
    nothing that may not be done twice."""
    before = live.memory.spawned.get((who.scope, agent, who.place))
    if before is None:
        return ""
    run = await live.services.journal.load(before)
    if not run.children and not any(step.effect == "once" for step in run.steps.values()):
        return ""
    text = (
        f"Agent {agent!r} was started here before with another input ({before}), and did what may "
        "not be done twice. Start it anew with the new input, which does all of it again (run), "
        "or let the new one go on from what that one did (continue)?"
    )
    asked = ask_until_chosen(live, f"changed-{who.id}"[:64], text, ("run", "continue"))
    return before if (await asked)[0] == "continue" else ""


def child_of(parent: str, agent: str, key: str, scope: Scope) -> str:
    """The run that the first `spawn` with this key has started. `scope`: as it was then, new."""
    who = scope.step(f"spawn {agent}", (), key)
    return child_id(agent, parent, who, ids=scope.ids)


def child_id(agent: str, parent: str, who: Identity, *, ids: int) -> str:
    return named(ids, agent, parent, who.id, early_chars=16)  # unique in the whole store
