"""Loads a module when something in it is first used, so that a command that needs none of it starts
sooner.

Type checkers and the test of the architecture read the same import beside it::

    if TYPE_CHECKING:
        from pullcord.journal.postgres import address
    else:
        address = lazy_import("pullcord.journal.postgres.address")
"""

from importlib import import_module
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def lazy_import(name: str) -> ModuleType:
    return _Lazy(name)
