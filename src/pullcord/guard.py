"""Guards: over what an agent says, before anybody sees it (`Phrase`, `Pattern`, `Check`, `canary`),
and over a run that nobody is looking at (`Runaway`). Given to an `AgentConfig`, to `open`, to a
start.

Every guard over text has `on_hit`. Its default is the same for all of them: `"pause"`, so that a
person looks and resumes, which asks the model again, or cancels. `"cancel"` ends the run and
quarantines what it has said. Either way the match is shown to nobody."""

from collections.abc import Iterable
from hashlib import sha256

from pullcord.core.action_trail import Runaway
from pullcord.core.text.screening import Check, Guard, OnHit, Pattern, Phrase, Prompt
from pullcord.core.values import check_text
from pullcord.errors import InvalidInput

__all__ = ["Check", "Guard", "Pattern", "Phrase", "Prompt", "Runaway", "canary"]


def canary(
    system_prompt: str,
    *,
    protect: Iterable[str] = (),
    quotable: Iterable[str] = (),
    name: str = "canary",
    on_hit: OnHit = "pause",
) -> tuple[str, Prompt]:
    """Plant a canary in a system prompt, and return that prompt with the guard that watches it.

    The canary stands before the prompt and behind it. A model that recites its instructions is cut
    before their first character is shown: at the canary, or at the twelfth word in a row of the
    prompt, wherever it begins. Sentences in `protect` are found in every disguise that a `Phrase`
    is. Passages in `quotable` may be said: a greeting, a letter, a price list.

    The same prompt always gets the same canary: in every process, and after a restart.
    """
    check_text(system_prompt, field="system prompt", empty=False)
    digest = sha256(f"pullcord canary\n{name}\n{system_prompt}".encode()).hexdigest()
    token = "-".join((digest[:8], digest[8:16], digest[16:24], digest[24:32]))
    line = f"Internal document reference: {token}"
    planted = f"{line}\n\n{system_prompt.strip()}\n\n{line}\n"
    guard = Prompt(
        planted,
        system_prompt,
        token,
        _several(protect, "protect"),
        _several(quotable, "quotable"),
        name=name,
        on_hit=on_hit,
    )
    return planted, guard


def _several(given: Iterable[str], name: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidInput(
            f"{name}= takes several texts, and was given one. Nothing was changed. Write "
            f"{name}=[...]."
        )
    return tuple(given)
