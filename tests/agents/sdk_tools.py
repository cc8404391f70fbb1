"""Function tools of the OpenAI Agents SDK, where their decorator puts them: at the top."""

import os

from agents import function_tool
from pydantic import BaseModel


class Order(BaseModel):
    """What is ordered."""

    name: str


@function_tool
def whoami(name: str) -> str:
    """Say in which process it runs."""
    return f"{name} in {os.getpid()}"


@function_tool
def take(order: Order) -> str:
    """Take an order."""
    return f"{order.name} in {os.getpid()}"
