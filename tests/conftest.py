"""Settings every test shares: campaigns are seeded samples unless PULLCORD_CAMPAIGN=full."""

import os

from hypothesis import HealthCheck, settings

FULL = os.environ.get("PULLCORD_CAMPAIGN") == "full"

settings.register_profile(
    "sample",
    deadline=None,  # machines are shared: only a hang is a failure
    derandomize=True,  # the same examples everywhere; `make soak` draws new ones
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "full",
    deadline=None,
    max_examples=500,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("full" if FULL else "sample")
