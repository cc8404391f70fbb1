"""What the runtime of a command is opened with: its timing and its webhooks."""

import os
from typing import Any

from pullcord.errors import InvalidInput
from pullcord.runtime.hooks.webhook import Webhook
from pullcord.runtime.services import Timing


def timing_of(asked: Any) -> Timing:
    """A process of our own commands may be killed by the kill switch. `lease_s` of pullcord.toml
    says how long it keeps its runs when it cannot reach the store."""
    if asked.lease_s is None:
        return Timing(killable=True)
    return Timing(killable=True, lease_s=asked.lease_s)


def webhooks(asked: Any) -> list[Webhook]:
    """Those that are set for this command.

    Raises:
        InvalidInput: a secret is not in the environment, or a webhook cannot be used.
    """
    return [_made(**said) for said in asked.webhooks]


def _made(url: str, secret_env: Any, timeout_s: Any = 10.0) -> Webhook:
    names: list[Any] = [secret_env] if isinstance(secret_env, str) else list(secret_env)
    if missing := [name for name in names if not os.environ.get(str(name))]:
        raise InvalidInput(
            f"A webhook is signed with the secret in {missing[0]}, and there is no such variable "
            "in the environment. Nothing was started. Set it, or take the webhook away."
        )
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
        raise InvalidInput("timeout_s of a webhook is a number. Nothing was started.")
    return Webhook(url, [os.environ[str(name)] for name in names], timeout_s)
