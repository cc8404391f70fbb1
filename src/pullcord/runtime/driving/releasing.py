"""Runs the releases that an agent has deferred, last one first, however its run ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pullcord.core.events import AttentionRaised, Released
from pullcord.errors import Fenced, Interrupted
from pullcord.runtime.driving.host_calls import HostCalls
from pullcord.runtime.driving.left_behind import name_what_goes_on
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.steps.failures import described

_LAST_S: Final = 0.05


class Releasing:
    """Runs all releases. It names one that fails or hangs, and goes on with the others."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._call: HostCalls | None = None
        self._is_hurried = self._is_left = False
        self.is_over = False
        self.broke: Exception | None = None  # an error of ours, not of a release
        live.later(self._go_through())

    def hurry(self) -> None:
        """Wait for no release any longer."""
        self._is_hurried = True
        if self._call:
            self._call.cut()

    def leave(self) -> None:
        """Cut the release under way, for the kill switch. It is called again later."""
        self._is_left = True
        if self._call:
            self._call.cut()

    async def _go_through(self) -> None:
        try:
            for defer, name in reversed(list(self._live.run.defers.items())):
                await self._live.licensed()
                if self._is_left or self._live.refusal():
                    return
                error = await self._release(defer, name)
                if error and self._is_left and not self._goes_on:
                    await name_what_goes_on(self._live.services.journal, self._live.run)
                    return
                if error:
                    text = f"{name!r} could not be released: {error}"
                    await self._live.record(AttentionRaised(item=defer, text=text))
                await self._live.record(Released(defer=defer, error=error))
        except Fenced:
            pass  # the run's new owner calls the releases
        except Exception as error:
            self.broke = error
        finally:
            self.is_over = True
            self._live.news()

    @property
    def _goes_on(self) -> bool:
        """Whether the release under way ignores being cut. It is not called again beside itself."""
        return self._call is not None and bool(self._call.left)

    async def _release(self, defer: str, name: str) -> str:
        """Call one release, and return its error as text, or an empty text."""
        if defer not in self._live.defers:
            return "LookupError: the agent does not say any more how"
        seconds = _LAST_S if self._is_hurried else self._live.services.timing.release_s
        release = self._live.defers[defer]
        call = self._call = HostCalls(self._live, defer, f"release {name!r}", release)
        _, failed = await call.call(_awaited(release), within_s=seconds)
        if isinstance(failed, asyncio.CancelledError):
            return f"CancelledError: there was no more time for it{call.said}"
        if failed is not None and not isinstance(failed, Exception | Interrupted):
            raise failed
        return f"{described(failed)}{call.said}" if failed else ""


async def _awaited(release: Callable[[], Awaitable[object]]) -> object:
    return await release()
