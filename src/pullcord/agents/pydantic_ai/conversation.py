"""What a run and those before it on its thread have said, as the messages of a conversation."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from pydantic_ai import ModelRetry
from pydantic_ai import messages as m
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed

from pullcord.agents.pydantic_ai.messages import (
    Messages,
    apply_delta,
    delta,
    mended,
    response_of,
    return_of,
)
from pullcord.agents.pydantic_ai.outcomes import said_in
from pullcord.core.events import Created, Event, Forgotten, InstructionSettled, Record
from pullcord.core.fold import replay
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.values import Json, load
from pullcord.journal.journal import Journal
from pullcord.runtime.childruns import child_of
from pullcord.runtime.driver import Driver
from pullcord.runtime.history import earlier_runs, turn_of
from pullcord.runtime.identity import Scope, named
from pullcord.runtime.memory import Memory, Past
from pullcord.runtime.modelling import shown_before, step_of

_FORGOTTEN: Final = "[What was said and done here before was deleted on request.]"
_LET_DIE: Final = "Do not go on with it unless you are asked to."


class Conversation:
    """The messages of one run, as far as its journal has them, and what people said meanwhile."""

    def __init__(self, driver: Driver, known: Messages) -> None:
        self._driver = driver
        self.known = known
        self.number = 0  # of the request that is being made, or was made last
        self._taken: list[int] = []
        self._unsent: Messages = []
        for number, past in requests_in(driver.memory):
            self.number = number
            apply_delta(self.known, past.args)
            if past.status == "finished":
                self.known.append(response_of(past.result))
        self.is_taken_up = self.number > 0  # its last request is still to be asked once more
        if self.is_taken_up and self._past and self._past.status == "finished":
            self.known.pop()  # it is answered from memory

    @property
    def _past(self) -> Past | None:
        return self._driver.memory.steps.get(step_of(self.number))

    @property
    def has_begun(self) -> bool:
        return self.number > 0

    @property
    def answered(self) -> int:
        """How many requests were made before the one that is made next."""
        return self.number - 1 if self.is_taken_up else self.number

    def told(self) -> list[str]:
        """What people have said and the model has not read; from here on it is in the next
        request, and delivered when that is recorded."""
        queued = {n: i for n, i in self._driver.run.instructions.items() if i.status == "queued"}
        new = [number for number in queued if number not in self._taken]
        self._taken += new
        return [queued[number].text for number in new]

    def settles(self, run: Run) -> list[Event]:
        """What is delivered together with the next request."""
        return [
            InstructionSettled(instruction=number, outcome="delivered")
            for number in self._taken
            if run.instructions[number].status == "queued"
        ]

    def next_request(self, messages: Sequence[m.ModelMessage]) -> Json:
        """Number the next request, and return what is new in it. The first one of a run that was
        taken up is the last one of its life before; what is known is what that one has stored,
        which may be the same in other messages."""
        if self.is_taken_up and self._past is not None:
            self.is_taken_up = False
            return self._past.args
        self.number += 1
        self._unsent = []
        self._taken = [
            n for n in self._taken if self._driver.run.instructions[n].status == "queued"
        ]
        return delta(self.known, messages)

    def was_never_sent(self, known: Messages) -> None:
        """The request was not even begun: nothing of it is stored, and it goes into the next."""
        self.number -= 1
        self._unsent, self.known = self.known, known

    @property
    def so_far(self) -> Messages:
        """The conversation, also what no journal has yet."""
        return list(self._unsent or self.known)


def requests_in(memory: Memory) -> Iterable[tuple[int, Past]]:
    """The requests that a run has made, in order."""
    for step, past in memory.steps.items():
        if past.name == "model" and step.startswith("model-"):
            yield int(step.removeprefix("model-")), past


def end_after(number: int) -> str:
    """Under which name the messages after the n-th answer are remembered, if it was the last one.
    Somebody may have said something since, and then it was not."""
    return f"messages-at-the-end-{number}"


def call_step(number: int, call_id: str, *, ids: int, approved: bool = False) -> str:
    """The step that a call of the n-th answer is."""
    return named(ids, "", "call", number, call_id, *(["approved"] if approved else []))


def spawn_key(number: int, call_id: str) -> str:
    """What the run is known by that a call of the n-th answer has started."""
    return f"{number}-{call_id}"


def external_question(tool: str, number: int, call_id: str, *, ids: int) -> str:
    """What somebody outside is asked who carries out a call of the n-th answer."""
    return named(ids, tool, "external", number, call_id)


async def before(journal: Journal, run: Run) -> Messages:
    """What was said on this thread before a run; and of a fork, before the run it goes on from."""
    known: Messages = []
    for records in await earlier_runs(journal, run):
        known = mended(retold(known, records))
    return known


def retold(
    known: Messages, records: Sequence[Record], *, live: dict[str, str] | None = None
) -> Messages:
    """A run as messages, after those that were there before it. `live`: it goes on, and this is
    what it is saying."""
    if isinstance(records[0].event, Forgotten):
        return [*known, m.ModelRequest([m.UserPromptPart(_FORGOTTEN)])]
    run = replay(records[0].run_id, records)
    memory = Memory.of(records)
    memory.texts |= {part: (text, False) for part, text in (live or {}).items()}
    known = list(known)
    born = records[0].event
    assert isinstance(born, Created)
    last: tuple[int, Past] | None = None
    for number, past in requests_in(memory):
        last = number, past
        apply_delta(known, past.args)
        if past.status == "finished":
            known.append(response_of(past.result))
    if last is None:
        known += _plain(run, records)
        closing: list[m.ModelRequestPart] = []
    else:
        if (end := end_after(last[0])) in memory.values:
            apply_delta(known, memory.values[end])
            return known
        closing = _closed(known, run, memory, *last)
    if note := _note(run, is_live=live is not None):
        closing.append(m.UserPromptPart(note))
    if closing:
        known.append(m.ModelRequest(closing))
    return known


def _plain(run: Run, records: Sequence[Record]) -> Messages:
    """A run that never came to ask a model: what it was given, and what it said."""
    turn = turn_of(run, records)
    told: Messages = []
    if turn.input is not None:
        told.append(m.ModelRequest([m.UserPromptPart(as_prompt(turn.input))]))
    words = [said.text for said in turn.said] or ([str(turn.result)] if turn.result else [])
    if words:
        told.append(m.ModelResponse([m.TextPart("\n\n".join(words))]))
    return told


def _closed(
    known: Messages, run: Run, memory: Memory, number: int, past: Past
) -> list[m.ModelRequestPart]:
    """What ends a conversation that was cut: what was shown, and what became of each call."""
    keep = run.cancel is None or run.cancel.keep_partial
    if past.status != "finished":
        if keep and (shown := shown_before(memory, number)):
            known.append(m.ModelResponse([m.TextPart(shown)], state="interrupted"))
        return []
    answer = known[-1]
    assert isinstance(answer, m.ModelResponse)
    fates = [_fate(run, memory, number, call) for call in answer.tool_calls]
    more = [part for call in answer.tool_calls for part in also_said(memory, number, call)]
    return [*fates, *more]


def _fate(run: Run, memory: Memory, number: int, call: m.ToolCallPart) -> m.ToolReturnPart:
    """The result of a call, as the model is told it: one of five truths, or what it gave."""
    ids = [call_step(number, call.tool_call_id, ids=memory.ids, approved=a) for a in (True, False)]
    step = next((one for one in ids if one in memory.steps or one in memory.refused), "")
    past, known = memory.steps.get(step), run.steps.get(step)
    if refused := memory.refused.get(step):
        outcome = "denied" if refused.outcome == "denied" else "failed"
        return _told(call, f"{refused.outcome}: {refused.why}", outcome)
    if past is None or known is None or not known.began:
        return _fate_elsewhere(run, memory, number, call)
    if past.status == "started" and not run.ended:
        return _told(call, "unknown: it is still under way.", "interrupted")
    if known.undo == "undone":
        return _told(call, "completed: and it was undone when the run was cancelled.", "failed")
    if past.status == "finished":
        return returned(call, load(past.result))
    if past.status == "failed":
        return _told_failed(run, memory, number, call, past.error)
    if past.late is not None:
        return returned(call, load(past.late))
    if past.status == "interrupted":
        text = "interrupted: it was stopped; it may have done a part of its work."
        return _told(call, text, "interrupted")
    return _told(call, "unknown: nobody knows whether it happened.", "interrupted")


def _told_failed(
    run: Run, memory: Memory, number: int, call: m.ToolCallPart, error: str
) -> m.ToolReturnPart:
    match said_in(error):
        case ModelRetry(message=message) | ToolFailed(message=message):
            return _told(call, message, "failed")
        case ApprovalRequired() | CallDeferred():  # it only said that it is for others to decide
            return _fate_elsewhere(run, memory, number, call)
        case _:
            return _told(call, f"failed: {error}", "failed")


def _fate_elsewhere(
    run: Run, memory: Memory, number: int, call: m.ToolCallPart
) -> m.ToolReturnPart:
    """A call that is no step: another agent carries it out, or somebody outside; or it is none."""
    asked = external_question(call.tool_name, number, call.tool_call_id, ids=memory.ids)
    names = [name for name in run.questions if name == asked or name.startswith(f"{asked}-")]
    if answered := [name for name in names if name in memory.answers]:
        return returned(call, load(memory.answers[answered[-1]]))
    if names:
        text = "unknown: it was to be done elsewhere, and nobody has said what became of it."
        return _told(call, text, "interrupted")
    key = spawn_key(number, call.tool_call_id)
    for child, agent in memory.born.items():
        if child == child_of(run.id, agent, key, Scope(ids=memory.ids)):
            return _told(call, _fate_of_child(memory.children[child]), "interrupted")
    return _told(call, "not_started: the run was stopped before this call.", "interrupted")


def _fate_of_child(state: str) -> str:
    match state:
        case RunState.COMPLETED:
            return "completed: it was done, but the run was stopped before its answer was read."
        case RunState.FAILED:
            return "failed: it ended with an error."
        case _:
            return "interrupted: it was stopped; it may have done a part of its work."


def returned(call: m.ToolCallPart, stored: Any) -> m.ToolReturnPart:
    """What a finished call gave, from what was stored of it."""
    given = return_of(stored)
    if not isinstance(given, m.ToolReturn):
        return m.ToolReturnPart(call.tool_name, given, call.tool_call_id)
    content: Any = given.return_value  # pyright: ignore[reportUnknownMemberType]
    return m.ToolReturnPart(call.tool_name, content, call.tool_call_id, metadata=given.metadata)


def also_said(memory: Memory, number: int, call: m.ToolCallPart) -> list[m.ModelRequestPart]:
    """What a finished call has for the model beside its result."""
    for approved in (True, False):
        step = call_step(number, call.tool_call_id, ids=memory.ids, approved=approved)
        past = memory.steps.get(step)
        given = return_of(load(past.result)) if past and past.status == "finished" else None
        if isinstance(given, m.ToolReturn) and given.content:
            return [m.UserPromptPart(given.content)]
    return []


def _told(call: m.ToolCallPart, text: str, outcome: Any) -> m.ToolReturnPart:
    return m.ToolReturnPart(call.tool_name, text, call.tool_call_id, outcome=outcome)


def _note(run: Run, *, is_live: bool) -> str:
    """The one true remark about how a turn ended, if it was not by its own answer."""
    if run.state is RunState.COMPLETED or is_live:
        return ""
    if run.cancel is not None:
        why = f" ({run.cancel.reason})" if run.cancel.reason else ""
        undone = [step.name for step in run.steps.values() if step.undo == "undone"]
        gone = f" What these had done was undone: {', '.join(undone)}." if undone else ""
        return f"[The turn above was stopped by {run.cancel.by}{why}.{gone} {_LET_DIE}]"
    if run.state is RunState.STOPPED and run.reached is not None:
        return f"[The turn above was ended by its limits: {', '.join(run.reached.leaves)}.]"
    if run.state is RunState.FAILED:
        return f"[The turn above ended with an error: {run.error}]"
    return ""


def as_prompt(given: Any) -> Any:
    """What a run was given, as a prompt: text, or a list of texts; else its JSON."""
    match given:
        case str():
            return given
        case {"prompt": prompt}:
            return as_prompt(prompt)
        case list() if all(isinstance(item, str) for item in given):  # pyright: ignore[reportUnknownVariableType]
            return given  # pyright: ignore[reportUnknownVariableType]
        case None:
            return ""
        case _:
            return msgspec.json.encode(given).decode()
