"""The flag of the kill switch: a file whose existence counts.

A full disk cannot keep it from being seen, and what cannot be read counts as raised.
"""

import os


def is_raised(path: str) -> bool:
    """Whether nothing may start. An empty path: there is no switch here."""
    if not path:
        return False
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
