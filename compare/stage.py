"""What a peer's script is handed: the provider's address and log, a folder, and the tools' bodies.

The tools do the same in every framework; only how they are declared differs.
"""

import asyncio
import json
import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compare.provider import calls_of

TOOL_LINES = 40
LINE_GAP_S = 0.1
PATIENCE_S = 20.0


def ms_between(begin: float, end: float | None) -> float | str:
    """Milliseconds from one monotonic time to another, or "never" if it did not come."""
    return "never" if end is None else round((end - begin) * 1000, 1)


def words_in(text: str) -> int:
    """How many of the long answer's words a text holds."""
    return len(set(re.findall(r"word\d+", text)))


def short(text: object, limit: int = 140) -> str:
    """One line for a table cell."""
    line = " ".join(str(text).split()).replace("|", "/")
    return line if len(line) <= limit else line[: limit - 1] + "…"


class Stage:
    """One situation's surroundings. Tools write down that they began, into its folder."""

    def __init__(self, provider: str, label: str, folder: Path) -> None:
        self.provider, self.label, self.folder = provider, label, folder
        self.base_url = f"{provider}/{label}/v1"
        folder.mkdir(parents=True, exist_ok=True)

    def sub(self, name: str) -> "Stage":
        """A fresh stage for a second take of the same situation."""
        return Stage(self.provider, f"{self.label}-{name}", self.folder / name)

    # The provider's view

    async def log(self) -> list[dict[str, Any]]:
        """Every request under this label so far; the fields are those of `provider.Request`."""
        url = f"{self.provider}/{self.label}/log"
        return json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url).read()))

    async def settled(self) -> list[dict[str, Any]]:
        """The log once no answer is under way any more."""
        return await self.until_log(
            lambda log: all(
                r["ended_at"] or r["disconnected_at"] or r["status"] != 200 for r in log
            )
        )

    async def until_log(
        self, holds: Callable[[list[dict[str, Any]]], bool], patience_s: float = PATIENCE_S
    ) -> list[dict[str, Any]]:
        """The log once `holds` is true of it, or as it is when patience ends."""
        end = time.monotonic() + patience_s
        while True:
            log = await self.log()
            if holds(log) or time.monotonic() > end:
                return log
            await asyncio.sleep(0.02)  # the log is in another process: there is no event

    # What the tools leave behind

    def began(self, tool: str) -> int:
        """How many times a tool has begun, over all processes."""
        return self._lines("began.txt").count(tool)

    def line_times(self) -> list[float]:
        """When `slow_sync` wrote its lines."""
        return [float(line) for line in self._lines("slow_sync.txt")]

    def slow_ended_at(self) -> float | None:
        """When `slow_async` left its body, finished or cancelled."""
        times = self._lines("slow_async.txt")
        return float(times[-1]) if times else None

    async def until(self, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
        """Wait for something tools have written down; False if it does not come."""
        end = time.monotonic() + patience_s
        while not holds():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.005)
        return True

    async def lines_after(self, moment: float) -> int:
        """How many lines `slow_sync` writes after `moment`. Waits until it is silent."""
        await self.until(
            lambda: (
                len(times := self.line_times()) >= TOOL_LINES
                or time.monotonic() - max([*times, moment]) > 5 * LINE_GAP_S
            )
        )
        return sum(at > moment for at in self.line_times())

    # The tools' bodies

    def quick(self) -> str:
        """Return at once."""
        self._write("began.txt", "quick")
        return "quick-result"

    def slow_sync(self) -> str:
        """Write a line every 100 ms for four seconds."""
        self._write("began.txt", "slow_sync")
        for _ in range(TOOL_LINES):
            self._write("slow_sync.txt", str(time.monotonic()))
            time.sleep(LINE_GAP_S)
        return "slow-sync-result"

    async def slow_async(self) -> str:
        """Wait for four seconds, in a way that a cancel can end."""
        self._write("began.txt", "slow_async")
        try:
            await asyncio.sleep(TOOL_LINES * LINE_GAP_S)
        finally:
            self._write("slow_async.txt", str(time.monotonic()))
        return "slow-async-result"

    def send_mail(self) -> str:
        """Send a mail; declared as needing approval."""
        self._write("began.txt", "send_mail")
        return "mail-sent"

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def _write(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(line + "\n")


def told_running(given: str, lines_after: int) -> bool | None:
    """Whether the caller is told that something still runs; None if nothing does."""
    return "running" in given if lines_after else None


def told_of(log: list[dict[str, Any]], tool: str) -> str:
    """What the last request says about the last call of `tool`: its result, or that it is gone."""
    messages: list[dict[str, Any]] = log[-1]["messages"]
    calls = [
        call["id"]
        for message in messages
        for call in calls_of(message)
        if call["function"]["name"] == tool
    ]
    if not calls:
        return "nothing, the call is gone from the history"
    results = [m["content"] for m in messages if m.get("tool_call_id") == calls[-1]]
    return f"“{short(results[0])}”" if results else "the call without a result"
