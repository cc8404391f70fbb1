"""Saying something that comes in pieces: sealed, guarded, and only then shown."""

from collections.abc import AsyncIterable
from typing import Final

from pullcord.core.events import TextEnded
from pullcord.core.text.stream_sealer import Sealer
from pullcord.errors import InvalidText
from pullcord.runtime.driving.guard_verdicts import trip, withheld_from
from pullcord.runtime.driving.live_run import LiveRun

_COALESCE_CHARS: Final = 4096
_PART_MAX_CHARS: Final = 2**21  # a part is one record when it has ended


async def say_as_it_comes(live: LiveRun, part: str, chunks: AsyncIterable[str]) -> str:
    """Show what comes, as early as it is known to hold nothing secret and nothing guarded against,
    and return all of it.

    Raises:
        NotDone: a guard has cut it, and somebody has let the run go on.
        Interrupted: the run is being unwound.
    """
    seal, screen, shown, count = Sealer(live.services.secrets), live.guards.screen(), "", 0

    async def show(text: str) -> None:
        nonlocal shown
        for start in range(0, len(text), _COALESCE_CHARS):
            piece = text[start : start + _COALESCE_CHARS]
            await live.say(part, piece, offset=len(shown))
            shown += piece
        if screen.hit:
            await trip(live, screen.hit, part=part)
            if shown:
                await live.record(TextEnded(part=part, text=shown, complete=False))
            await live.stand_still()
            raise withheld_from(live, part)

    async for chunk in chunks:
        count += len(chunk)
        if count > _PART_MAX_CHARS:
            why = f"one part may have {_PART_MAX_CHARS:,} characters; go on in another"
            raise InvalidText("streamed text", why=why)
        await show(screen.feed(seal.feed(chunk)))
    await show(screen.feed(seal.end()) + screen.end())
    await live.begin(TextEnded(part=part, text=shown))
    return shown
