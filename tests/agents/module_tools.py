"""Tools at the top of a module, as another process finds them."""

import os
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_ai import BinaryContent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.exceptions import ToolFailed

import pullcord
from pullcord import ToolContext
from tests.agents.light_tools import append, lines, wipe


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Guest(BaseModel):
    name: str
    born: date


@dataclass
class Table:
    seats: int


class Booking(BaseModel):
    guests: list[Guest]
    on: date
    seats: int


def book(guests: list[Guest], on: date, size: Size, table: Table, note: str = "none") -> Booking:
    """Book a table."""
    said = [guests[0].born.year, on.year, size.name, table.seats, note]
    assert said == [1999, 2026, "LARGE", 4, "none"], said
    return Booking(guests=guests, on=on, seats=table.seats)


def take_bytes(blob: bytes) -> int:
    """Count bytes."""
    assert isinstance(blob, bytes)
    return len(blob)


def sum_up(**numbers: int) -> int:
    """Add what is given."""
    return sum(numbers.values())


def draw(path: str) -> BinaryContent:
    """Draw a picture."""
    append(path, "drawn")
    return BinaryContent(b"\x00\xffpng", media_type="image/png")


def explain(path: str) -> Any:
    """Give more than a result."""
    append(path, "explained")
    return ToolReturn("short", content=["long"], metadata={"for": "the application"})


def try_again(path: str) -> str:
    """Ask for another try, once."""
    append(path, "tried")
    if len(lines(Path(path))) == 1:
        raise ModelRetry("the door was closed: knock first")
    return "open"


def give_up(path: str) -> str:
    """Say that it cannot be done."""
    append(path, "gave up")
    raise ToolFailed("no such door")


# --- declared as ours ---


@pullcord.tool(undo=wipe)
async def stamp(ctx: ToolContext, path: str, guest: Guest) -> dict[str, Any]:
    """Stamp something in the loop."""
    append(path, f"{guest.born.year} {ctx.run_id} {ctx.deps}")
    return {"in": os.getpid()}


def make_desk() -> dict[str, int]:
    return {"made_in": os.getpid()}


def looks_at_desk(context: RunContext[dict[str, int]], what: str) -> str:
    """Say whether its `deps` were made in its own process, and which call it is."""
    is_own = context.deps["made_in"] == os.getpid()
    return f"{what} {context.tool_name} {'made here' if is_own else 'made elsewhere'}"


async def waits_elsewhere() -> int:
    return os.getpid()
