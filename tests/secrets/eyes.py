"""What the tests of secrets share: a runtime that knows them, and eyes for what a run leaves."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import RunHandle, Runtime
from pullcord.core.events import Completed
from pullcord.core.text.secrets import Secrets
from pullcord.journal.store import LiveText
from tests.runs.observed_runs import BOUND_S, HASTY, events
from tests.secrets.vault import LOOSE, SECRETS, files_of, found_in

KNOWN = Secrets(SECRETS)
HIDDEN = KNOWN.seal(LOOSE)


@asynccontextmanager
async def vault(path: Path | str, **more: Any) -> AsyncGenerator[Runtime]:
    """A runtime that knows the secrets."""
    given: dict[str, Any] = {"secrets": SECRETS, "timing": HASTY, **more}
    async with (
        asyncio.timeout(BOUND_S + 5),
        pullcord.open(path, **given) as runtime,
        asyncio.timeout(BOUND_S),
    ):
        yield runtime


class Everything:
    """All that can be read of a run, by anybody: what is on disk while it goes on and afterwards,
    what is streamed, its receipt, what was logged."""

    def __init__(self, path: Path, log: pytest.LogCaptureFixture) -> None:
        self.path, self._log = path, log
        self._streamed: list[object] = []
        self._listening: list[asyncio.Task[None]] = []

    def listen(self, run: RunHandle) -> None:
        self._listening.append(asyncio.create_task(self._hear(run)))

    async def _hear(self, run: RunHandle) -> None:
        async with aclosing(run.events()) as stream:
            async for _, item in stream:
                self._streamed.append(item)

    async def of(self, runtime: Runtime, run: RunHandle) -> list[str]:
        """Which secrets are to be found. The run has ended."""
        await asyncio.wait(self._listening)
        live = "".join(item.text for item in self._streamed if isinstance(item, LiveText))
        records = await events(runtime, run.id)
        return found_in(
            *files_of(self.path),
            *self._streamed,
            live,
            *records,
            *(bytes(event.result) for event in records if isinstance(event, Completed)),
            await run.receipt(),
            await run.snapshot(),
            self._log.text,
            *(vars(record) for record in self._log.records),
        )
