"""Saying something that comes in pieces: sealed, guarded, and only then shown."""

from collections.abc import AsyncIterable
from typing import Final

from pullcord.core.events import TextEnded
from pullcord.core.sealer import Sealer
from pullcord.errors import InvalidText
from pullcord.runtime.doors import Doors
from pullcord.runtime.guarding import trip, withheld_from

_COALESCE_CHARS: Final = 4096
_PART_MAX_CHARS: Final = 2**21  # a part is one record when it has ended


async def say_as_it_comes(doors: Doors, part: str, chunks: AsyncIterable[str]) -> str:
    """Show what comes, as early as it is known to hold nothing secret and nothing guarded against,
    and return all of it.

    Raises:
        NotDone: a guard has cut it, and somebody has let the run go on.
        Interrupted: the run is being unwound.
    """
    seal, screen, shown, count = Sealer(doors.site.secrets), doors.guards.screen(), "", 0

    async def show(text: str) -> None:
        nonlocal shown
        for start in range(0, len(text), _COALESCE_CHARS):
            piece = text[start : start + _COALESCE_CHARS]
            await doors.say(part, piece, offset=len(shown))
            shown += piece
        if screen.hit:
            await trip(doors, screen.hit, part=part)
            if shown:
                await doors.record(TextEnded(part=part, text=shown, complete=False))
            await doors.stand_still()
            raise withheld_from(doors, part)

    async for chunk in chunks:
        count += len(chunk)
        if count > _PART_MAX_CHARS:
            why = f"one part may have {_PART_MAX_CHARS:,} characters; go on in another"
            raise InvalidText("streamed text", why=why)
        await show(screen.feed(seal.feed(chunk)))
    await show(screen.feed(seal.end()) + screen.end())
    await doors.begin(TextEnded(part=part, text=shown))
    return shown
