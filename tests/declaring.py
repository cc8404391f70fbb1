"""Tools whose keywords are known only when a test runs: a type checker cannot follow these."""

from typing import Any, Final

import pullcord

declared_as: Final[Any] = pullcord.tool
