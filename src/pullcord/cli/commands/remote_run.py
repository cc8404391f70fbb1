"""run, fork, continue, aside, undo on a server: it drives, and we follow. Ctrl-C only stops the
following."""

import sys
from contextlib import redirect_stdout
from typing import Any

from pullcord.cli.arguments import text_of, value_of
from pullcord.cli.as_json import print_ack, print_refusal, print_said, to_json
from pullcord.cli.parser import FAILED, INTERRUPTED, REFUSED
from pullcord.cli.reach import reach
from pullcord.cli.render.narration import Narration, point_out
from pullcord.cli.render.run_text import receipt_lines
from pullcord.cli.run_end import tell_end
from pullcord.cli.verbs import command_of
from pullcord.client.run_access import RunAccess
from pullcord.core.events import Completed, Created, TextEnded
from pullcord.core.fold import replay
from pullcord.core.limits import parsed
from pullcord.core.states import RunState
from pullcord.core.undo import is_anything_left_to_undo
from pullcord.core.values import load
from pullcord.errors import InvalidInput
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import START


def carry_out(asked: Any) -> int:
    with reach(asked) as access:
        if asked.verb == "undo":
            return _undo(asked, access)
        if asked.verb == "run":
            run_id = access.begin("run", None, _start(asked))
        else:
            asked.run = access.find(asked.run)
            run_id = access.begin(asked.verb, asked.run, _next(asked))
            print(f"Started {run_id} from {asked.run}.", file=sys.stderr)
            if asked.detach:
                print(to_json({"run": run_id}).rstrip() if asked.json else run_id)
                return 0
        status = _follow(asked, access, run_id)
        is_aside = asked.verb == "aside" and not asked.json
        if is_aside and access.glance(asked.run).state is RunState.PAUSED:
            again = f"Go on with it: pullcord resume {asked.run}"
            print(f"{asked.run} is paused as before. {again}")
        return status


def _start(asked: Any) -> dict[str, Any]:
    if ".py:" in asked.target:
        raise InvalidInput(
            f"{asked.target} is a file, and a server starts only the agents that it was given. "
            "Nothing was started. Name one of them: pullcord run NAME; or drive the file here, on "
            "a store: --store"
        )
    return {
        "agent": asked.target,
        "input": value_of(asked.input),
        "run_id": asked.run_id,
        "thread": asked.thread,
        "model": asked.model,
        "limits": parsed(asked.limit),
        "on_exhausted": asked.on_exhausted,
    }


def _next(asked: Any) -> dict[str, Any]:
    match asked.verb:
        case "fork":
            instruction = asked.instruction
            return {
                "at": asked.at,
                "instruction": text_of(instruction) if instruction is not None else None,
                "limits": parsed(asked.limit),
                "on_exhausted": asked.on_exhausted,
            }
        case "aside":
            return {"question": text_of(asked.question)}
        case _:
            return {"input": None if asked.input is None else value_of(asked.input)}


def _undo(asked: Any, access: RunAccess) -> int:
    asked.run = access.find(asked.run)
    ack = access.command(asked.run, command_of(asked))
    if not ack.holds:
        print_refusal(asked, ack)
        return REFUSED
    [born] = access.records(asked.run, 0, 1)
    if asked.detach:
        if asked.json:
            print_ack(asked, ack)
        elif isinstance(born.event, Created):
            print(f"Recorded. A process that knows {born.event.agent} undoes it.")
        return 0

    def undone() -> bool | None:
        run = replay(asked.run, access.records(asked.run))
        return None if is_anything_left_to_undo(run) else True

    access.wait(asked.run, undone, None)
    made = access.receipt(asked.run)
    print_said(asked, made, receipt_lines(made))
    return FAILED if made.could_not_undo else 0


def _follow(asked: Any, access: RunAccess, run_id: str) -> int:
    telling = Narration(run_id, as_json=asked.json)
    if not asked.json:
        print(f"{run_id} started. To stop it: pullcord cancel {run_id}", file=sys.stderr)
    try:
        for place, item in access.stream(run_id, START):
            is_text = isinstance(item, LiveText) or isinstance(item.event, TextEnded)
            if asked.json or is_text:
                telling.tell(place, item)
            else:
                telling.end_line()
                with redirect_stdout(sys.stderr):
                    telling.tell(place, item)
            point_out(asked, run_id, item)
    except KeyboardInterrupt:
        telling.end_line()
        print(
            f"It goes on without you. Follow it again: pullcord watch {run_id}; to stop it: "
            f"pullcord cancel {run_id}",
            file=sys.stderr,
        )
        return INTERRUPTED
    sys.stdout.flush()
    records = access.records(run_id)
    ended = replay(run_id, records)
    end = records[ended.state_seq - 1].event
    result = load(end.result) if isinstance(end, Completed) else None
    return tell_end(asked, ended, result, telling.last_words)
