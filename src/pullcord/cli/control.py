"""pause, resume, redirect, cancel, answer, approve, deny, settle, raise, signal: decided in the
store, by any process at all."""

import os
import sys
from importlib import import_module
from typing import Any, Final

import msgspec

from pullcord.cli.store import Desk, desk, whoami
from pullcord.cli.words import diff, line, receipt_lines
from pullcord.core.commands import (
    Answer,
    Approve,
    Cancel,
    Command,
    Deny,
    Pause,
    Raise,
    Redirect,
    Resume,
    Settle,
    Signal,
)
from pullcord.core.decide import Ack
from pullcord.core.events import Created, ItemRewritten
from pullcord.core.limits import parsed
from pullcord.core.states import NEEDS_OWNER, TERMINAL, RunState
from pullcord.core.values import NULL, dump
from pullcord.errors import InvalidInput
from pullcord.journal.reading import records_of

REFUSED: Final = 3
TIMED_OUT: Final = 4
_SAYS: Final = {
    "pause": {
        "pausing": "Pausing {run}. What is under way finishes first.",
        "paused": "Paused {run}.",
    },
    "resume": {"queued": "{run} goes on.", "running": "{run} goes on."},
    "cancel": {
        "cancelling": "Cancelling {run}. Nothing more starts; what is under way is being stopped.",
        "cancelled": "Cancelled {run}. What it had finished is kept.",
    },
}


_DONE: Final = {"answer": "Answered", "approve": "Approved", "deny": "Denied"}


def carry_out(asked: Any) -> int:
    with desk(asked) as here:
        asked.run = here.find(asked.run)
        before, now = here.run(asked.run)
        if asked.verb in ("answer", "approve", "deny"):
            asked.question = _question(asked.question, now.open_questions())
        wants = asked.verb == "resume" and not asked.detach and not here.is_driven(before)
        if wants:
            refuse_without_its_file(here, asked.run)
        ack = here.command(asked.run, _command(asked))
        may_be_driven = wants and ack.reason in ("not_paused", "cancelling")
        if not ack.holds and not may_be_driven:
            return _refused(asked, ack)
        head, run = here.run(asked.run)
        is_stop = asked.verb in ("pause", "cancel") and not run.ended
        if is_stop and run.state in NEEDS_OWNER and not here.is_driven(head):
            state = here.bring_to_rest(asked.run).state
            ack = msgspec.structs.replace(ack, state=state)
        if getattr(asked, "wait", False):
            return _wait(asked, here)
        head, run = here.run(asked.run)
        drive_here = wants and not run.ended and not here.is_driven(head)
        _say(asked, here, ack, drive_here=drive_here)
    if drive_here:
        drive: Any = import_module("pullcord.cli.drive")
        return drive.drive_here(asked)
    return 0


def _command(asked: Any) -> Command:
    who: Any = {"by": whoami(asked.by), "reason": asked.reason, "key": asked.key}
    match asked.verb:
        case "pause":
            return Pause(**who, now=asked.now)
        case "resume":
            return Resume(**who, instruction=asked.instruction)
        case "redirect":
            return Redirect(**who, instruction=asked.instruction)
        case "answer":
            return Answer(**who, question=asked.question, value=dump(value_of(asked.value)))
        case "approve":
            edited = asked.args is not None
            args = dump(value_of(asked.args)) if edited else NULL
            return Approve(**who, question=asked.question, edited=edited, args=args)
        case "deny":
            return Deny(**who, question=asked.question)
        case "settle":
            return Settle(**who, item=asked.item)
        case "raise":
            return Raise(**who, caps=parsed(asked.caps))
        case "signal":
            return Signal(**who, name=asked.name)
        case _:
            return Cancel(
                **who,
                now=asked.now,
                undo=not asked.no_undo,
                back_to=asked.back_to,
                keep_partial=not asked.discard_partial,
                quarantine=asked.quarantine,
            )


def _question(said: str, still_open: list[str]) -> str:
    """The open question that is meant, by as much of its id as makes it the only one."""
    found = [name for name in still_open if name.startswith(said)]
    return found[0] if len(found) == 1 else said


def value_of(text: str) -> Any:
    """JSON, or else the text as it is."""
    if text == "-":
        text = sys.stdin.read()
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if text.lstrip().startswith(("{", "[")):
            raise InvalidInput(f"{line(text)} is not JSON: {error}. Nothing was changed.") from None
        return text


def refuse_without_its_file(here: Desk, run_id: str) -> None:
    """Do not record that a run goes on here, if it cannot."""
    [record] = here.read(lambda view: records_of(view, run_id, 0, 1))
    target = record.event.target if isinstance(record.event, Created) else None
    if target and not os.path.isfile(target.rpartition(":")[0]):
        raise InvalidInput(
            f"Cannot go on with run {run_id} here: it was started from {target}, which is not "
            "there any more. Nothing was changed. Put it back, or only record it: "
            f"pullcord resume {run_id} --detach"
        )


def _refused(asked: Any, ack: Ack) -> int:
    if asked.json:
        _print_ack(asked, ack)
    else:
        print(ack.message, file=sys.stderr)
    return REFUSED


def _print_ack(asked: Any, ack: Ack) -> None:
    said = {
        "run": asked.run,
        "verdict": ack.verdict,
        "seq": ack.seq,
        "state": ack.state,
        "reason": ack.reason,
        "message": ack.message,
    }
    sys.stdout.write(to_json(said))


def _say(asked: Any, here: Desk, ack: Ack, *, drive_here: bool) -> None:
    if asked.json:
        return _print_ack(asked, ack)
    if drive_here:
        return None  # what follows tells what becomes of it
    if ack.verdict == "already":
        return print(f"{asked.run} is {ack.state} already (record {ack.seq}). Nothing was changed.")
    if getattr(asked, "instruction", None):
        _say_instruction(asked, here, ack)
    said = _SAYS.get(asked.verb, {}).get(ack.state)
    if said:
        print(said.format(run=asked.run))
    elif asked.verb in ("answer", "approve", "deny"):
        if getattr(asked, "args", None) is not None:
            print(f"Changed. Look at the call it is now: pullcord approvals {asked.run}")
        else:
            print(f"{_DONE[asked.verb]} {asked.question} of {asked.run}.")
        head, _ = here.run(asked.run)
        if head.state in NEEDS_OWNER and not here.is_driven(head):
            print(f"No process drives it. Drive it here: pullcord resume {asked.run}")
    elif asked.verb == "settle":
        print(f"Settled {asked.item} of {asked.run}.")
    elif asked.verb == "raise":
        goes_on = ", which goes on" if ack.state in ("queued", "running") else ""
        print(f"Raised the limits of {asked.run}{goes_on}.")
    elif asked.verb == "signal":
        print(f"Told {asked.run}: {line(asked.name)}.")
    return None


def _say_instruction(asked: Any, here: Desk, ack: Ack) -> None:
    written = here.read(lambda view: records_of(view, asked.run, ack.seq - 1, 2))
    rewritten = [r.event for r in written if isinstance(r.event, ItemRewritten)]
    if rewritten:
        print(diff(rewritten[0].before, rewritten[0].after))
    else:
        print(f"Queued for {asked.run}: “{line(asked.instruction)}”. It is handed over once.")


def _wait(asked: Any, here: Desk) -> int:
    at_rest = (*TERMINAL, RunState.PAUSED) if asked.verb == "pause" else tuple(TERMINAL)

    def rests() -> Any:
        _, run = here.run(asked.run)
        return run if run.state in at_rest else None

    run = here.wait(rests, asked.timeout_s)
    if run is None:
        _, run = here.run(asked.run)
        print(
            f"{asked.run} is still {run.state} after {asked.timeout_s:g} s. The request stands. "
            f"To hurry it: pullcord {asked.verb} {asked.run} --now",
            file=sys.stderr,
        )
        return TIMED_OUT
    made = here.receipt(asked.run)
    if asked.json:
        sys.stdout.write(to_json(made))
    else:
        print("\n".join(receipt_lines(made)))
    return 0 if run.state in (RunState.PAUSED, RunState.CANCELLED) else REFUSED


def to_json(value: Any) -> str:
    return bytes(dump(value)).decode() + "\n"
