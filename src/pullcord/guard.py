"""Guards: over what an agent says, before anybody sees it (`Phrase`, `Pattern`, `Check`, `canary`),
and over a run that nobody is looking at (`Runaway`). Given to an `Agent`, to `open`, to a start."""

from hashlib import sha256

from pullcord.core.screening import Check, Guard, OnHit, Pattern, Phrase
from pullcord.core.trail import Runaway
from pullcord.core.values import check_text

__all__ = ["Check", "Guard", "Pattern", "Phrase", "Runaway", "canary"]


def canary(
    system_prompt: str, *, name: str = "canary", on_hit: OnHit = "cancel"
) -> tuple[str, Phrase]:
    """Plant a canary in a system prompt, and return that prompt with the guard that watches it.

    A model that repeats its instructions repeats the canary, and is cut before anybody has seen
    it. The same prompt always gets the same canary: in every process, and after a restart.
    """
    check_text(system_prompt, field="system prompt", empty=False)
    digest = sha256(f"pullcord canary\n{name}\n{system_prompt}".encode()).hexdigest()
    token = "-".join((digest[:8], digest[8:16], digest[16:24], digest[24:32]))
    planted = f"{system_prompt.rstrip()}\n\nInternal document reference: {token}\n"
    return planted, Phrase(token, name=name, on_hit=on_hit)
