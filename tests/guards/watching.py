"""Eyes for both ends: all that viewers can get hold of, and what only the journal has."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import msgspec

from pullcord import RunHandle, RunState, Runtime
from pullcord.core.events import GuardTripped, Paused, Record, TextEnded
from pullcord.core.text.phrases import disguises
from pullcord.core.text.screening import Guards, Phrase
from pullcord.journal.store import LiveText
from tests.cli.terminal import Terminal
from tests.guards.disguises import SECRET
from tests.runs.observed_runs import happened

_ANY = Guards([Phrase(SECRET)])


class Viewer:
    """Somebody who looks at a run: everything, as it comes."""

    def __init__(self) -> None:
        self.bytes = b""
        self.live: dict[str, str] = {}
        self.has_seen_text = asyncio.Event()
        self.ended: dict[str, str] = {}

    async def watch(self, run: RunHandle) -> "Viewer":
        """Until it has ended, or is paused; if it is that already, up to there."""
        now = await run.snapshot()
        upto = now.seq if now.state is RunState.PAUSED else 0
        async with aclosing(run.events()) as stream:
            async for _, item in stream:
                self.bytes += msgspec.json.encode(item)
                if isinstance(item, LiveText):
                    self.live[item.part] = self.live.get(item.part, "") + item.text
                    self.has_seen_text.set()
                elif isinstance(item.event, TextEnded):
                    self.ended[item.event.part] = item.event.text
                elif isinstance(item.event, Paused) and not upto:
                    break
                if isinstance(item, Record) and item.seq == upto:
                    break
        return self


async def seen_by_all(runtime: Runtime, run: RunHandle) -> bytes:
    """What somebody can get hold of who comes later."""
    late = await Viewer().watch(run)
    seen = late.bytes + msgspec.json.encode(await run.snapshot())
    return seen + msgspec.json.encode(await run.receipt())


def seen_in_the_terminal(path: Path, run: RunHandle, *, ended: bool = True) -> bytes:
    """The same, for somebody with a command line."""
    pullcord = Terminal(path.parent)
    said = [pullcord("show", run.id, "--records"), pullcord("show", run.id, "--records", "--json")]
    said += [pullcord("receipt", run.id)]
    said += [pullcord("watch", run.id, "--json")] if ended else []
    return "".join(one.out + one.err for one in said).encode()


def assert_clean(*seen: bytes | str) -> None:
    """Nothing of the secret, in no disguise, not even a piece of eight letters."""
    for one in seen:
        text = one if isinstance(one, str) else one.decode()
        assert _ANY.hit_in(text) is None
        folded = text.casefold()
        for shape in (SECRET, *disguises(SECRET)):
            for n in range(len(shape) - 8):
                assert shape[n : n + 8].casefold() not in folded, shape[n : n + 8]


async def evidence(runtime: Runtime, run: RunHandle) -> GuardTripped:
    """What the journal has kept: once."""
    [tripped] = await happened(runtime, run.id, GuardTripped)
    return tripped
