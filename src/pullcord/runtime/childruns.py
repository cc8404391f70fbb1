"""Runs that a run has started, as it knows them."""

from typing import Any

from pullcord.errors import InvalidInput
from pullcord.runtime.driver import Driver
from pullcord.runtime.identity import Identity, Scope, short_id
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


def child_of(parent: str, agent: str, key: str, *, scope: str = "") -> str:
    """The run that the first `spawn` with this key has started."""
    return child_id(agent, parent, Scope(scope).step(f"spawn {agent}", (), key))


def child_id(agent: str, parent: str, who: Identity) -> str:
    return short_id(agent, parent, who.id, chars=16)  # unique in the whole store
