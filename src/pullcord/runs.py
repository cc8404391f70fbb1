"""What can be known of a run, and what its controls take and answer.

`Runtime.start` and `Runtime.get` return a `RunHandle`, `Runtime.list` a `Head` for each run.
`RunHandle.snapshot` returns the whole `Run`: its steps, questions, plans, instructions and
children. A control answers with an `Ack`; a stop leaves a `Receipt`. `Context.spawn` returns a
`ChildRun`, `Context.history` a `Turn` for each earlier run of the thread.
"""

from pullcord.core.acks import Ack
from pullcord.core.action_trail import Made, Paid, Trail
from pullcord.core.receipts import Receipt, StepLine
from pullcord.core.run import (
    Child,
    Cost,
    Deletion,
    Instruction,
    Plan,
    Question,
    Run,
    Step,
    Stop,
    Times,
)
from pullcord.core.states import RunState
from pullcord.journal.store import Head, Holder
from pullcord.journal.stored_runs.retention import Candidate
from pullcord.runtime.doors.child_runs import ChildRun
from pullcord.runtime.doors.thread_history import Said, Turn
from pullcord.runtime.forgetting import Forgetting, Which
from pullcord.runtime.handle import RunHandle, Signed

__all__ = [
    "Ack",
    "Candidate",
    "Child",
    "ChildRun",
    "Cost",
    "Deletion",
    "Forgetting",
    "Head",
    "Holder",
    "Instruction",
    "Made",
    "Paid",
    "Plan",
    "Question",
    "Receipt",
    "Run",
    "RunHandle",
    "RunState",
    "Said",
    "Signed",
    "Step",
    "StepLine",
    "Stop",
    "Times",
    "Trail",
    "Turn",
    "Which",
]
