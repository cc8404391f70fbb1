"""How much of a campaign to run, and from which seed."""

import os
import random
from typing import Final

FULL: Final = os.environ.get("PULLCORD_CAMPAIGN") == "full"


def fresh_seed() -> int:
    """A seed to draw from, printed so that a failure can be had again with PULLCORD_SEED=..."""
    seed = int(os.environ.get("PULLCORD_SEED") or random.SystemRandom().randrange(2**32))
    print(f"again with: PULLCORD_SEED={seed}")
    return seed
