"""What is asked in the same way of every peer: the next message, and a hundred random cancels."""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from compare.situations import NEXT, Values
from compare.stage import Stage, short

SEED = 4
TRIALS = 100
LATE_S = 1.0


async def next_message(stage: Stage, send: Callable[[str], Awaitable[Any]]) -> str:
    """Send the user's next message as the framework would; say how it was received."""
    before = len(await stage.log())
    raised = ""
    try:
        async with asyncio.timeout(15):
            await send(NEXT)
    except Exception as error:  # whatever a framework raises is the measurement
        raised = f"{type(error).__name__}: {short(error, 110)}"
    asked = (await stage.log())[before:]
    if any(request["status"] == 400 for request in asked):
        return f"**400**: {short(asked[-1]['error'].partition(':')[0])}"
    if raised:
        return f"refused: {raised}"
    return "accepted" if any(NEXT in str(r["messages"][-1]) for r in asked) else "not sent"


async def random_cancels(
    stage: Stage, way: str, trial: Callable[[float], Awaitable[tuple[float, float]]]
) -> Values:
    """Run `trial(wait_s)` a hundred times, one after the other.

    A trial starts a LONG stream, cancels `wait_s` after its first word was shown, and returns when
    it asked for the cancel and when it had control again. Each makes exactly one model request.
    """
    chance = random.Random(SEED)
    times: list[tuple[float, float]] = []
    until = time.monotonic() + 90  # late ones take six seconds each; stay within the time limit
    while len(times) < TRIALS and time.monotonic() < until:
        times.append(await trial(chance.uniform(0, 0.3)))
    log = await stage.settled()
    seen: list[float] = []
    late_returns = late_disconnects = lost = 0
    for (cancelled_at, returned_at), request in zip(times, log, strict=True):
        late_returns += returned_at - cancelled_at > LATE_S
        if request["disconnected_at"] is None:
            lost += 1
            continue
        seen.append((request["disconnected_at"] - cancelled_at) * 1000)
        late_disconnects += seen[-1] > LATE_S * 1000
    return {
        "way": way,
        "trials": len(times),
        "p50_ms": round(statistics.median(seen), 1) if seen else None,
        "max_ms": round(max(seen), 1) if seen else None,
        "late_returns": late_returns,
        "late_disconnects": late_disconnects,
        "lost": lost,
    }
