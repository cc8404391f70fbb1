"""Hooks: who is told when a run moves into work or out of it, and when it waits for an answer.

    pullcord.open(path, agents=..., on_stop=[tell_the_board, Webhook(url, secret)])

What a hook was to be told survives a crash: it is told at least once, in order, from where it was,
by one process at a time. A hook that fails, hangs or blocks delays no agent and no stop.
"""

from pullcord.core.notices import Moved, Notice
from pullcord.runtime.hooks.webhook import Webhook

__all__ = ["Moved", "Notice", "Webhook"]
