"""The cord that stops an AI agent: pause, redirect, resume or cancel it without losing state.

So far: the journal that decides, and the thread that reaches what is in flight.
"""

from pullcord.core.commands import Answer, Cancel, Command, Pause, Redirect, Resume, Settle
from pullcord.core.decide import Ack
from pullcord.core.events import Event, Record
from pullcord.core.receipts import Receipt, receipt
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.errors import PullcordError
from pullcord.journal.journal import Cursor, Journal
from pullcord.journal.ledger import Append, Claim, Lease, Order
from pullcord.runtime.control import ControlThread
from pullcord.runtime.ownership import Ownership

__version__ = "0.1.0.dev0"

__all__ = [
    "Ack",
    "Answer",
    "Append",
    "Cancel",
    "Claim",
    "Command",
    "ControlThread",
    "Cursor",
    "Event",
    "Journal",
    "Lease",
    "Order",
    "Ownership",
    "Pause",
    "PullcordError",
    "Receipt",
    "Record",
    "Redirect",
    "Resume",
    "Run",
    "RunState",
    "Settle",
    "receipt",
]
