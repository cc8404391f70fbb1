"""Telling whoever wanted to be told that something waits for an answer."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from pullcord.core.sealed import sealed
from pullcord.core.secrets import Secrets
from pullcord.runtime.site import Notice

_log: Final = logging.getLogger("pullcord.runtime")
Notify: TypeAlias = Callable[[Notice], object]


async def tell(notify: Notify, notice: Notice, secrets: Secrets, *, within_s: float) -> None:
    """Call the hook, and wait for it if it is async. One that fails harms nobody."""
    try:
        told = notify(sealed(notice, secrets))
        if inspect.isawaitable(told):
            async with asyncio.timeout(within_s):
                await told
    except Exception:  # whoever is told badly must not harm the run
        _log.exception("A notification hook failed.")
