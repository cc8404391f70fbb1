"""ps, show, watch, receipt: look at runs and change nothing."""

import json
import sys
import time
from typing import Any, Final

import msgspec

from pullcord.cli.control import to_json
from pullcord.cli.store import Desk, desk
from pullcord.cli.words import (
    SIGN,
    call,
    clock,
    coloured,
    diff,
    line,
    offers,
    plain,
    plan_lines,
    receipt_lines,
    state,
    step_lines,
    times,
    why,
)
from pullcord.core.events import (
    TAGS,
    Answered,
    Asked,
    Completed,
    Created,
    Failed,
    ItemRewritten,
    ItemStarted,
    Paused,
    QuestionAsked,
    Record,
    Redirected,
    Spent,
    StepFailed,
    StepFinished,
    StepInterrupted,
    StepStarted,
    StepUndone,
    Stopped,
    TextEnded,
    UndoFailed,
    UndoStarted,
    encode_event,
)
from pullcord.core.limits import caps_in, progress
from pullcord.core.run import Run, Times
from pullcord.core.states import LIVING, NEEDS_OWNER, TABLE, TERMINAL, RunState
from pullcord.core.values import load as value_of
from pullcord.core.withhold import as_viewed
from pullcord.errors import InvalidInput
from pullcord.journal.reading import START, Cursor, existing, records_of, stream
from pullcord.journal.snapshots import load
from pullcord.journal.store import Head, LiveText, View

_THEN: Final = {
    "stop": "it stops",
    "wrap_up": "it gives a last answer and stops",
    "pause_and_ask": "it pauses and asks",
}


def carry_out(asked: Any) -> int:
    with desk(asked) as here:
        if asked.verb != "ps":
            asked.run = here.find(asked.run)
        match asked.verb:
            case "ps":
                return _ps(asked, here)
            case "show":
                return _show(asked, here)
            case "receipt":
                return _receipt(asked, here)
            case _:
                return _watch(asked, here)


def _ps(asked: Any, here: Desk) -> int:
    states = RunState if asked.all else LIVING

    def look(view: View) -> list[tuple[Head, Run]]:
        heads = view.heads(states=states, thread=None, before=None, limit=asked.limit)
        return [(head, load(view, head)) for head in heads]

    found = here.read(look)
    now = here.now_ms()
    if asked.json:
        rows = [_as_row(here, head, run, now) for head, run in found]
        print(json.dumps(rows))
        return 0
    if not found:
        print("No runs." if asked.all else "No runs that have not ended (pullcord ps --all).")
    for head, run in found:
        needs = "" if _is_cared_for(here, head) else "  nobody drives it ·"
        name = TABLE[run.state].label
        print(
            f"{coloured(SIGN[run.state], '1')} {name:<11}{run.id:<14} {run.agent:<18} "
            f"{clock(_times(here, head, run, now).working_ms):>8}{needs}{why(run)}"
        )
    return 0


def _as_row(here: Desk, head: Head, run: Run, now_ms: int) -> dict[str, Any]:
    spent = _times(here, head, run, now_ms)
    return {
        "run": run.id,
        "agent": run.agent,
        "thread": run.thread,
        "parent": run.parent,
        "state": run.state,
        "seq": run.seq,
        "driven": here.is_driven(head),
        "working_ms": spent.working_ms,
        "waiting_ms": spent.waiting_ms,
        "paused_ms": spent.paused_ms,
        "created_at_ms": run.created_at_ms,
    }


def _times(here: Desk, head: Head, run: Run, now_ms: int) -> Times:
    """Where the time went. The clock of a run whose process died stopped with its last record."""
    return run.times_at(now_ms if _is_cared_for(here, head) else run.steady_ms)


def _is_cared_for(here: Desk, head: Head) -> bool:
    return head.state not in NEEDS_OWNER or here.is_driven(head)


def _show(asked: Any, here: Desk) -> int:
    head, run = here.run(asked.run)
    records = here.read(lambda view: records_of(view, asked.run))
    now = here.now_ms()
    if asked.json:
        is_hidden = run.cancel is not None and run.cancel.quarantine
        shown = _as_row(here, head, run, now) | {"says": TABLE[run.state].says}
        if run.limits:
            shown |= {
                "used": msgspec.to_builtins(here.used(run.id)),
                "limits": str(run.limits.condition),
            }
        if not is_hidden and isinstance(records[run.state_seq - 1].event, Completed | Stopped):
            shown["result"] = _as_json(records[run.state_seq - 1])["event"].get("result")
        if not is_hidden:
            shown["run_state"] = msgspec.to_builtins(run, str_keys=True)
        if asked.records:
            shown["records"] = [_as_json(_visible(run, record)) for record in records]
        sys.stdout.write(to_json(shown))
        return 0
    print(f"{state(run.state)}{why(run)}   {run.id} · {run.agent} · thread {run.thread}")
    if run.limits and (used := progress(run.limits.condition, here.used(run.id))):
        print(f"{' · '.join(used)}, then {_THEN[run.limits.then]}.")
    if run.pause and run.pause.frozen:
        frozen = ", ".join(run.pause.frozen)
        print(f"Frozen, and kept only as long as its process lives: {line(frozen)}")
    print(f"{TABLE[run.state].says}   {times(_times(here, head, run, now))}")
    if not _is_cared_for(here, head):
        print(nobody(run, records))
    if run.cancel and run.cancel.quarantine:
        print("It is quarantined: what it said and found is kept as evidence, and not shown.")
        return 0
    if isinstance(end := records[run.state_seq - 1].event, Completed | Stopped):
        _section("result", [f"  {plain(json.dumps(value_of(end.result), ensure_ascii=False))}"])
    _section("plan", list(plan_lines(run)))
    _section("steps", list(step_lines(run)))
    _section("questions", _questions(run))
    _section(
        "instructions",
        [f"  {n:>4} {told.status:<10}“{line(told.text)}”" for n, told in run.instructions.items()],
    )
    _section(
        "children",
        [f"  {name} · {child.state or 'living'}" for name, child in run.children.items()],
    )
    _section("look at", [f"  {item}: {line(text)}" for item, text in run.attention.items()])
    if asked.records:
        _section("journal", [f"  {_told(_visible(run, record))}" for record in records])
    is_alone = not _is_cared_for(here, head)
    if run.pause and run.pause.limits and not run.ended:
        _section(
            "raise a limit",
            [f"  pullcord raise {run.id} {cap}=..." for cap in caps_in(run.pause.limits)],
        )
    _section("now", [f"  {command}" for command in offers(run, is_alone=is_alone)])
    return 0


def nobody(run: Run, records: list[Record]) -> str:
    """Say that no process drives a run, and how to have one do it."""
    born = records[0].event
    if isinstance(born, Created) and born.target:
        return f"No process drives it. Drive it here: pullcord resume {run.id}"
    return (
        f"No process knows {run.agent}. Start one with "
        f"pullcord.open(STORE, agents={{{run.agent!r}: ...}})."
    )


def _section(title: str, lines: list[str]) -> None:
    if lines:
        print(f"\n{coloured(title, '1')}")
        print("\n".join(lines))


def _questions(run: Run) -> list[str]:
    lines: list[str] = []
    for name in run.open_questions():
        known = run.questions[name]
        lines.append(f"  ? {line(known.text, 200)}")
        if known.kind == "approval":
            lines.append(f"      pullcord approvals {run.id}")
        elif known.kind != "timer":
            lines.append(f"      pullcord answer {run.id} {name} VALUE")
    return lines


def _receipt(asked: Any, here: Desk) -> int:
    made = here.receipt(asked.run)
    if asked.json:
        sys.stdout.write(to_json(made))
    else:
        print("\n".join(receipt_lines(made)))
    return 0


def _watch(asked: Any, here: Desk) -> int:
    after = _cursor(asked.after)
    _, run = here.run(asked.run)
    telling = Telling(run.id, as_json=asked.json)
    listener = here.store.listen()
    try:
        while True:
            for after, item in here.read(lambda view, at=after: stream(view, asked.run, at)):
                telling.tell(after, _visible(run, item) if isinstance(item, Record) else item)
                if isinstance(item, Record) and TAGS[type(item.event)] in TERMINAL:
                    return 0
            sys.stdout.flush()
            listener.wait(5.0)
            run = here.read(lambda view: load(view, existing(view, asked.run)))
    finally:
        listener.close()


def _cursor(text: str) -> Cursor:
    seq, _, pos = text.partition(".")
    try:
        return Cursor(int(seq), int(pos or 0)) if text else START
    except ValueError:
        raise InvalidInput(
            f"{text!r} is not a place in a run: it looks like 12 or 12.3. Nothing was shown."
        ) from None


def _visible(run: Run, record: Record) -> Record:
    hide = run.cancel is not None and run.cancel.quarantine
    return msgspec.structs.replace(record, event=as_viewed(record.event, hide=hide))


def _as_json(record: Record) -> dict[str, Any]:
    event = json.loads(encode_event(record.event))
    return {"seq": record.seq, "at_ms": record.at_ms, "epoch": record.epoch, "event": event}


class Telling:
    """A run, told line by line as it happens."""

    def __init__(self, run_id: str, *, as_json: bool = False) -> None:
        self._run_id = run_id
        self._as_json = as_json
        self._live: dict[str, int] = {}  # how much of each part was told as it came
        self._is_midline = False
        self._part = ""  # whose text was told last
        self.last_words = ""  # the last thing that was said whole

    def tell(self, cursor: Cursor, item: Record | LiveText) -> None:
        if self._as_json:
            shown: dict[str, Any] = {"id": str(cursor), "run": self._run_id}
            if isinstance(item, Record):
                shown |= _as_json(item)
            else:
                shown |= {"part": item.part, "offset": item.offset, "text": item.text}
            return print(json.dumps(shown), flush=True)
        if isinstance(item, LiveText):
            self._turn_to(item.part)
            self._live[item.part] = item.offset + len(item.text)
            self._is_midline = not item.text.endswith("\n")
            print(_spoken(item.part, item.text), end="", flush=True)
        elif isinstance(item.event, TextEnded):
            self._text_ended(item.event)
        else:
            self.end_line()
            print(_told(item), flush=True)
        return None

    def _text_ended(self, event: TextEnded) -> None:
        if event.complete and not event.step:
            self.last_words = event.text
        is_said = self._live.get(event.part) == len(event.text)
        if is_said and event.complete and event.part != self._part:
            return  # somebody else is speaking by now
        self._turn_to(event.part)
        if rest := event.text[self._live.get(event.part, 0) :]:
            print(_spoken(event.part, rest), end="")
            self._is_midline = not rest.endswith("\n")
        if not event.complete:
            print(coloured(" ■ cut here", "2"), end="")
            self._is_midline = True
        self.end_line()

    def _turn_to(self, part: str) -> None:
        """Two that speak do not speak in one line."""
        if part != self._part:
            self.end_line()
            self._part = part

    def end_line(self) -> None:
        """Something else comes next, here or elsewhere."""
        if self._is_midline:
            print(flush=True)
        self._is_midline = False


def _spoken(part: str, text: str) -> str:
    """What was said, as it is; what was only thought, fainter."""
    return coloured(plain(text), "2") if part.startswith("think-") else plain(text)


def _told(record: Record) -> str:
    """One record in one line."""
    event = record.event
    when = time.strftime("%H:%M:%S", time.localtime(record.at_ms / 1000))
    return f"{coloured(f'{record.seq:>4} {when}', '2')}  {_words(event)}"


def _bill(spent: Spent) -> str:
    """What a call has cost, as far as anybody knows."""
    about = "about " if spent.estimated else ""
    read, wrote = ("?" if n is None else f"{n:,}" for n in (spent.tokens_in, spent.tokens_out))
    cost = "cost unknown"
    if spent.cost_usd_micros is not None:
        cost = f"${spent.cost_usd_micros / 1e6:.4f}"
    return f"{about}{read} tokens read, {wrote} written, {cost}"


def _words(event: Any) -> str:
    name = TAGS[type(event)].replace("_", " ")
    match event:
        case ItemRewritten():
            return f"{name}\n{diff(event.before, event.after)}"
        case StepStarted(model=model) if model:
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            return f"◆ asking {line(model)}{again}"
        case StepFinished(step=step) if step.startswith("model-"):
            return "◆ answered"
        case Spent():
            return f"  {_bill(event)}"
        case StepStarted():
            return f"● {line(event.name)}" + (
                f" (attempt {event.attempt})" if event.attempt > 1 else ""
            )
        case StepFinished():
            return f"✓ {line(json.dumps(value_of(event.result)), 60)}"
        case StepFailed() | Failed():
            return f"✕ {name}: {line(event.error, 1000)}"
        case ItemStarted():
            return f"▸ {line(event.text)}"
        case QuestionAsked(kind="approval"):
            said: Any = value_of(event.details) or {}
            return f"? may it be done: {call(event.tool, said.get('args'))} [{event.question}]"
        case Answered(verdict=verdict) if verdict:
            reason = f" “{line(event.reason)}”" if event.reason else ""
            return f"{verdict} by {plain(event.by)} [{event.question}]{reason}"
        case UndoStarted():
            again = f" (attempt {event.attempt}, after {line(event.error)})" if event.error else ""
            return f"↶ undoing {event.step}{again}"
        case StepUndone():
            return f"↶ undone {event.step}"
        case UndoFailed():
            return f"✕ {event.step} could not be undone: {line(event.error, 1000)}"
        case StepInterrupted(rung=rung):
            return f"■ stopped{f' ({rung})' if rung else ''}"
        case Paused(frozen=frozen) if frozen:
            return f"{name} · frozen as long as its process lives: {line(', '.join(frozen))}"
        case QuestionAsked():
            return f"? {line(event.text, 200)} [{event.question}]"
        case Redirected():
            return f"↪ {plain(event.by)}: “{line(event.instruction)}”"
        case Stopped():
            return f"⊘ stopped by its limits: {', '.join(event.leaves)}"
        case Completed():
            return f"✓ completed {line(json.dumps(value_of(event.result)), 60)}"
        case TextEnded():
            return f"“{line(event.text)}”" + ("" if event.complete else " ■ cut here")
        case Asked():
            reason = f" “{line(event.reason)}”" if event.reason else ""
            return f"{name} by {plain(event.by)}{reason}"
        case _:
            return name
