"""The command `pullcord` as a process: while it loads nothing is collected, and if it was brief it
leaves without tidying up what the kernel takes back anyway. Together a sixth of a control's time.
"""

import gc
import os
import sys
from importlib import import_module
from typing import Any, NoReturn


def command() -> NoReturn:
    """Carry out what is asked for, and end with its status."""
    gc.disable()  # before anything is loaded; whoever lives longer enables it again
    command: Any = import_module("pullcord.cli.main")
    status: int = command.main()
    if gc.isenabled():  # agents were driven here: what they have left to be done at the end is done
        sys.exit(status)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
