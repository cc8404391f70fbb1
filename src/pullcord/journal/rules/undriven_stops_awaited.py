"""Performs the steps of `stopping` in an event loop."""

import asyncio
from typing import Any, TypeVar

from pullcord.errors import PullcordError
from pullcord.journal.rules.undriven_stops import Outside, Read, Steps, Write
from pullcord.journal.writer import Writer

T = TypeVar("T")


async def performed(steps: Steps[T], writer: Writer) -> T:
    """Perform the steps in order, and return their result."""
    result: Any = None
    trouble: PullcordError | None = None
    while True:
        try:
            step = steps.send(result) if trouble is None else steps.throw(trouble)
        except StopIteration as end:
            return end.value
        result, trouble = None, None
        try:
            match step:
                case Write(job):
                    result = await writer.write(job)
                case Read(job):
                    result = await writer.read(job)
                case Outside(job):
                    result = await asyncio.to_thread(job)
        except PullcordError as error:
            trouble = error
