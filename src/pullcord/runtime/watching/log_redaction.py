"""What this library logs, without what is secret, while a runtime that knows secrets is open."""

import logging
import traceback
from typing import Final

from pullcord.core.text.secrets import Secrets

LOGGERS: Final = (
    "pullcord",
    "pullcord.runtime",
    "pullcord.journal",
    "pullcord.agents",
    "pullcord.server",
    "pullcord.cli",
)
"""Every logger that this library writes to: a filter of a logger does not see those below it."""


class Redacted(logging.Filter):
    """Changes a record before any handler sees it: whatever formats it, the secret is not there.

    A record without one is left as it is. One with a traceback that has one keeps its text only.
    """

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def install(self) -> None:
        if self._secrets:
            for name in LOGGERS:
                logging.getLogger(name).addFilter(self)

    def remove(self) -> None:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if (sealed := self._secrets.screen(said)) != said:
            record.msg, record.args = sealed, ()
        if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
            where = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
            if (sealed := self._secrets.screen(where)) != where:
                record.exc_info, record.exc_text = None, sealed
        if record.stack_info:
            record.stack_info = self._secrets.screen(record.stack_info)
        return True
