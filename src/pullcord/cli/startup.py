"""The command `pullcord` as a process: while it loads nothing is collected, and if it was brief it
leaves without tidying up what the kernel takes back anyway. A control must feel instant.
"""

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli import main as cli
else:
    cli = lazy_import("pullcord.cli.main")


def command() -> NoReturn:
    """Carry out what is asked for, and end with its status."""
    gc.disable()  # before anything is loaded; whoever lives longer enables it again
    status: int = cli.main()
    if gc.isenabled():  # it was not brief: what was left to be done at the end is done
        sys.exit(status)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
