"""The controls: decided where the runs are, by any process at all."""

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from pullcord.cli.arguments import text_of
from pullcord.cli.as_json import print_ack, print_refusal, print_said, to_json
from pullcord.cli.parser import REFUSED, TIMED_OUT
from pullcord.cli.reach import reach
from pullcord.cli.verbs import command_of, said_of
from pullcord.client.run_access import RunAccess
from pullcord.core.acks import Ack
from pullcord.core.states import NEEDS_OWNER, TERMINAL, RunState
from pullcord.errors import InvalidInput
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli.commands import drive
    from pullcord.cli.render import run_text
else:
    drive = lazy_import("pullcord.cli.commands.drive")
    run_text = lazy_import("pullcord.cli.render.run_text")

_SAYS: Final = {
    "pause": {
        "pausing": "Pausing {run}. What is under way finishes first.",
        "paused": "Paused {run}.",
    },
    "resume": {"queued": "{run} goes on.", "running": "{run} goes on."},
    "cancel": {
        "cancelling": "Cancelling {run}. Nothing more starts; what is under way is being stopped. ",
        "cancelled": "Cancelled {run}. ",
    },
    "raise": {
        "queued": "Raised the limits of {run}, which goes on.",
        "running": "Raised the limits of {run}, which goes on.",
    },
}
# What only some verbs need is loaded by them: a control must feel instant.


def carry_out(asked: Any) -> int:
    if getattr(asked, "instruction", None):
        asked.instruction = text_of(asked.instruction)
    with reach(asked) as access:
        asked.run = access.find(asked.run)
        if hasattr(asked, "question"):
            still_open = access.questions(asked.run)
            asked.question = _question(asked.question, list(still_open))
            asked.call = still_open.get(asked.question, "")
        may_drive = asked.verb == "resume" and not asked.server and not asked.detach
        wants = may_drive and not access.glance(asked.run).driven
        if wants:
            refuse_without_its_file(access, asked.run)
        ack = access.command(asked.run, command_of(asked))
        may_be_driven = wants and ack.reason in ("not_paused", "cancelling")
        if not ack.holds and not may_be_driven:
            print_refusal(asked, ack)
            return REFUSED
        if getattr(asked, "wait", False):
            return _wait(asked, access)
        drive_here = wants and _is_left_alone(access, asked.run)
        if still := _still(asked, access, ack):
            return _not_moving(asked, ack, still)
        _say(asked, access, ack, drive_here=drive_here)
    if drive_here:
        return drive.drive_here(asked)
    return 0


def _is_left_alone(access: RunAccess, run_id: str) -> bool:
    seen = access.glance(run_id)
    return seen.state not in TERMINAL and not seen.driven


def _question(said: str, still_open: list[str]) -> str:
    """The open question that is meant, by as much of its id as makes it the only one."""
    found = [name for name in still_open if name.startswith(said)]
    return found[0] if len(found) == 1 else said


def refuse_without_its_file(access: RunAccess, run_id: str) -> None:
    """Do not record that a run goes on here, if it cannot."""
    [record] = access.records(run_id, 0, 1)
    target = getattr(record.event, "target", None)
    if target and not os.path.isfile(target.rpartition(":")[0]):
        raise InvalidInput(
            f"Cannot go on with run {run_id} here: it was started from {target}, which is not "
            "there any more. Nothing was changed. Put it back, or only record it: "
            f"pullcord resume {run_id} --detach"
        )


def _say(asked: Any, access: RunAccess, ack: Ack, *, drive_here: bool) -> None:
    if asked.json:
        return print_ack(asked, ack)
    if drive_here:
        return None  # what follows tells what becomes of it
    if ack.verdict == "already":
        as_it_is = f"{asked.run} is {ack.state} already (record {ack.seq}). Nothing was changed."
        return print(said_of(asked, already=True) or as_it_is)
    if getattr(asked, "instruction", None):
        _say_instruction(asked, access, ack)
    said = _SAYS.get(asked.verb, {}).get(ack.state)
    if said:
        more = _kept(asked) if asked.verb == "cancel" else ""
        print(f"{said.format(run=asked.run)}{more}")
        if asked.verb == "cancel":
            _say_if_alone(asked, access)
    elif done := said_of(asked):
        print(done)
        if hasattr(asked, "question"):
            _say_if_alone(asked, access)
    return None


def _still(asked: Any, access: RunAccess, ack: Ack) -> str:
    """Why a stop will not take hold for now: the process that has to see to it does not move."""
    is_pending = asked.verb in ("pause", "cancel") and ack.state in NEEDS_OWNER
    return access.glance(asked.run).still if is_pending else ""


def _not_moving(asked: Any, ack: Ack, still: str) -> int:
    if asked.json:
        print_ack(asked, ack)
    print(
        f"{asked.run} is {ack.state}, and has not answered: {still}. The request stands: it counts "
        f"when that goes on. Until then nothing of it is stopped. To wait: pullcord {asked.verb} "
        f"{asked.run} --wait",
        file=sys.stderr,
    )
    return TIMED_OUT


def _kept(asked: Any) -> str:
    """What becomes of what a cancelled run had finished: a process may have undone it by now."""
    if not asked.undo:
        return "What it had finished is kept."
    since = f" of what came after {asked.back_to}" if asked.back_to else ""
    return f"What can be undone{since} is taken back, and the rest is kept."


def _say_if_alone(asked: Any, access: RunAccess) -> None:
    if access.glance(asked.run).is_alone:
        verb, what = ("undo", "undo") if asked.verb == "cancel" else ("resume", "drive")
        print(  # one that has parked it takes it up in a moment
            "No process drives it just now. If none that knows its agent is open, "
            f"{what} it here: pullcord {verb} {asked.run}"
        )


def _say_instruction(asked: Any, access: RunAccess, ack: Ack) -> None:
    written = access.records(asked.run, ack.seq - 1, 2)
    rewritten: list[Any] = [r.event for r in written if type(r.event).__name__ == "ItemRewritten"]
    if rewritten:
        print(run_text.diff(rewritten[0].before, rewritten[0].after))
    else:
        told = run_text.line(asked.instruction)
        print(f"Queued for {asked.run}: “{told}”. It is handed over once.")


def _wait(asked: Any, access: RunAccess) -> int:
    at_rest = (*TERMINAL, RunState.PAUSED) if asked.verb == "pause" else tuple(TERMINAL)

    def rests() -> RunState | None:
        state = access.glance(asked.run).state
        return state if state in at_rest else None

    state = access.wait(asked.run, rests, asked.timeout_s)
    if state is None:
        return _timed_out(asked, access.glance(asked.run).state)
    made = access.receipt(asked.run)
    print_said(asked, made, run_text.receipt_lines(made))
    return 0 if state in (RunState.PAUSED, RunState.CANCELLED) else REFUSED


def _timed_out(asked: Any, state: RunState) -> int:
    said = (
        f"{asked.run} is still {state} after {asked.timeout_s:g} s. The request stands. "
        f"To hurry it: pullcord {asked.verb} {asked.run} --now"
    )
    if asked.json:
        sys.stdout.write(to_json({"error": "TimedOut", "message": said}))
    else:
        print(said, file=sys.stderr)
    return TIMED_OUT
