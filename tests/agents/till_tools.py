"""A tool that needs somebody's word. Its module is light, so that its process starts at once."""

from pathlib import Path

import pullcord


@pullcord.tool(approve=pullcord.always)
def pay(path: str, amount: int) -> str:
    """Pay, if somebody allows it."""
    with Path(path).open("a") as file:
        file.write(f"paid {amount}\n")
    return f"paid {amount}"
