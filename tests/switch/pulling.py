"""Engages and releases the kill switch as a server does."""

import asyncio
from typing import Final

from pullcord import Runtime
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import Scope, new_note
from pullcord.killswitch.pulled import Pulled

ALL: Final = Scope()


async def engage(runtime: Runtime, scope: Scope = ALL) -> Pulled:
    note = new_note(by="ana", reason="it went wild", via="test")
    return await asyncio.to_thread(
        pull, runtime.journal.kill_switch.flags, runtime.journal.side, scope, note
    )


async def release(runtime: Runtime, scope: Scope = ALL) -> None:
    await runtime.journal.kill_switch.release(scope, by="ana", reason="all is well", via="test")
