"""Runs that a run has started, as it knows them."""

from typing import Any

from pullcord.errors import InvalidInput
from pullcord.runtime.driver import Driver
from pullcord.runtime.identity import Identity, Scope, named
from pullcord.runtime.outcome import outcome


class ChildRun:
    """A run that this one has started."""

    def __init__(self, driver: Driver, run_id: str) -> None:
        self._driver = driver
        self.run_id = run_id

    def __repr__(self) -> str:
        return f"<child run {self.run_id}>"

    async def result(self) -> Any:
        """Wait until it has ended and return its result.

        Raises:
            RunFailed, RunCancelled: it has none.
        """
        mine = self._driver.run.children.get(self.run_id)
        if mine is not None and mine.detached:
            raise InvalidInput(
                f"Cannot wait for {self.run_id}: it was started detached. Nothing was changed. "
                "Start it without detached=True."
            )
        if mine is not None and not self._driver.memory.children.get(self.run_id):
            await self._driver.until(lambda run: bool(run.children[self.run_id].state))
        return await outcome(self._driver.site.journal, self.run_id)


def child_of(parent: str, agent: str, key: str, scope: Scope) -> str:
    """The run that the first `spawn` with this key has started. `scope`: as it was then, new."""
    who = scope.step(f"spawn {agent}", (), key)
    return child_id(agent, parent, who, ids=scope.ids)


def child_id(agent: str, parent: str, who: Identity, *, ids: int) -> str:
    return named(ids, agent, parent, who.id, early_chars=16)  # unique in the whole store
