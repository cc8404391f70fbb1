"""What must hold of a conversation wherever it was interrupted, each as a sentence when broken."""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pydantic_ai import messages as m

from pullcord import RunState
from pullcord.agents.pydantic_ai import check_messages
from pullcord.agents.pydantic_ai.messages import response_of
from pullcord.agents.pydantic_ai.watched_model import GO_ON
from pullcord.core.events import (
    AttentionRaised,
    CancelRequested,
    DoubtSettled,
    PauseRequested,
    QuestionAsked,
    Record,
    Redirected,
    Resumed,
    StepFinished,
    StepStarted,
    TextEnded,
)
from pullcord.core.run import spoken_part
from pullcord.core.values import load
from pullcord.journal.store import LiveText
from tests.agents.interrupted_conversation import (
    NEXT_PROMPT,
    NEXT_RUN,
    PAUSES,
    PROMPT,
    RESTARTS,
    RUN,
    Happened,
)

_VOLATILE = {"timestamp", "run_id", "conversation_id", "metadata", "model_id"}


def bare(messages: Sequence[m.ModelMessage]) -> Any:
    """Messages as the model reads them: without times and the ids of runs."""
    return _without(m.ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        items: Any = value.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return {key: _without(kept) for key, kept in items if key not in _VOLATILE}
    if isinstance(value, list):
        return [_without(kept) for kept in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def broken_laws(interrupted: Happened, alone: Happened) -> list[str]:
    """Every law that this conversation breaks; `alone` is the one that nobody interrupted."""
    laws = (_ends, _valid, _tools, _prompt, _shown, _cut, _history, _still, _redirected, _same)
    return [*interrupted.errors, *(f for law in laws for f in law(interrupted, alone))]


def _ends(interrupted: Happened, alone: Happened) -> Iterator[str]:
    wanted = RunState.COMPLETED
    if interrupted.is_cancelled:
        wanted = RunState.CANCELLED
    run = interrupted.runs[RUN]
    if run.state is not wanted:
        yield f"it ended {run.state}, not {wanted}: {run.error}"
    if wanted is RunState.COMPLETED and interrupted.results.get(RUN) != interrupted.script.result(
        len(interrupted.heard)
    ):
        yield f"its result is {interrupted.results.get(RUN)!r}, and {interrupted.heard} was heard"
    after = interrupted.runs[NEXT_RUN]
    if after.state is not RunState.COMPLETED:
        yield f"the next turn ended {after.state}: {after.error}"
    for record in interrupted.records:
        if isinstance(record.event, AttentionRaised) and "Nobody knows" not in record.event.text:
            yield f"somebody is called for: {record.event}"


def _valid(interrupted: Happened, alone: Happened) -> Iterator[str]:
    for number, request in enumerate(interrupted.requests):
        for wrong in check_messages(request):
            yield f"request {number}: {wrong}"
    for wrong in check_messages(interrupted.history):
        yield f"the history: {wrong}"


def _tools(interrupted: Happened, alone: Happened) -> Iterator[str]:
    for call, times in Counter(interrupted.did).items():
        if times > 1:
            yield f"{call} was carried out {times} times"
    calls: dict[str, str] = {}
    gave: dict[str, tuple[int, Any]] = {}
    for record in interrupted.records:
        match record.event:
            case StepStarted(tool=tool) if tool:
                calls[record.event.step] = record.event.digest
            case StepFinished(step=step) | DoubtSettled(step=step, choice="happened"):
                if step in calls:
                    gave[calls[step]] = record.seq, load(record.event.result)
            case _:
                pass
    begun = _requests_begun_before(interrupted)
    for call, (seq, given) in gave.items():
        if call not in interrupted.did:
            yield f"{call} is called finished, and was not carried out"
        for number, request in enumerate(interrupted.requests[begun(seq) :], start=begun(seq)):
            found = [part for part in _returns(request) if part.tool_call_id == call]
            if len(found) != 1:
                yield f"request {number} has {len(found)} results of {call}"
            elif not _is_what_came(given, found[0].content):
                yield f"request {number}: {call} gave {given}, and not {found[0].content!r}"


def _requests_begun_before(interrupted: Happened) -> Callable[[int], int]:
    """How many requests had been begun at a record. (One that is begun may never be sent.)"""
    begun = [
        record.seq
        for record in interrupted.records
        if isinstance(record.event, StepStarted) and record.event.name == "model"
    ]
    return lambda seq: bisect_left(begun, seq)


def _returns(messages: Sequence[m.ModelMessage]) -> Iterator[m.ToolReturnPart]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, m.ToolReturnPart):
                yield part


def _is_what_came(given: Any, told: Any) -> bool:
    match given:
        case {"return": {"return_value": value}} | {"return": value}:
            return told == value
        case {"retry": why}:
            return told == why
        case _:
            return told == given


def _prompt(interrupted: Happened, alone: Happened) -> Iterator[str]:
    turn = 1  # of the conversation; it never goes back to an earlier one
    for number, request in enumerate([*interrupted.requests, interrupted.history]):
        texts = _user_texts(request)
        times = texts.count(PROMPT), texts.count(NEXT_PROMPT)
        turn = max(turn, times[1] + 1)
        if times != ((1, 0), (1, 1))[turn - 1]:
            yield f"request {number} has the prompts {times} times"
    if turn != 2:
        yield "the next prompt never came to the model"


def _user_texts(messages: Sequence[m.ModelMessage]) -> list[Any]:
    texts: list[Any] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, m.UserPromptPart):
                texts += [part.content] if isinstance(part.content, str) else list(part.content)
    return texts


def _shown(interrupted: Happened, alone: Happened) -> Iterator[str]:
    """What people saw is in the journal, and all of an answer is shown, once."""
    ended = {r.event.part: r.event for r in interrupted.records if isinstance(r.event, TextEnded)}
    live: dict[str, str] = {}
    for item in interrupted.shown:
        if isinstance(item, LiveText):
            if item.offset != len(live.get(item.part, "")):
                yield f"{item.part} was shown with a gap or twice: {item}"
            live[item.part] = live.get(item.part, "") + item.text
    for part, text in live.items():
        if part not in ended:
            yield f"{part} was shown and is not in the journal"
        elif not ended[part].text.startswith(text):
            yield f"{part} showed {text!r}, and the journal has {ended[part].text!r}"
    for step, attempt, answer in _answers(interrupted):
        for index, part in enumerate(answer.parts):
            if isinstance(part, m.TextPart | m.ThinkingPart):
                yield from _whole(interrupted, step, attempt, index, part, ended)


def _whole(
    interrupted: Happened,
    step: str,
    attempt: int,
    index: int,
    part: m.TextPart | m.ThinkingPart,
    ended: dict[str, TextEnded],
) -> Iterator[str]:
    thought = isinstance(part, m.ThinkingPart)
    names = [spoken_part(step, n, index, thought=thought) for n in range(1, attempt + 1)]
    last = names[-1]
    pieces = [ended[name] for name in (last, f"{last}-rest") if name in ended]
    text = "".join(piece.text for piece in pieces)
    earlier = "".join(ended[name].text for name in names[:-1] if name in ended)
    if part.content not in (text, earlier + text):
        if interrupted.runs[RUN].state is not RunState.CANCELLED or not part.content.startswith(
            text
        ):
            yield f"{last}: {part.content!r} was shown as {text!r} after {earlier!r}"
    elif not pieces or not pieces[-1].complete:
        left = (*RESTARTS, "pause, parked")  # then it was said to be cut, and is not
        was_left = interrupted.mode in left or interrupted.then in left
        if interrupted.runs[RUN].state is not RunState.CANCELLED and not was_left:
            yield f"{last} is whole, and not called complete"


def _cut(interrupted: Happened, alone: Happened) -> Iterator[str]:
    """What was shown of an answer that never came to its end is in the conversation, as it was."""
    ended = {step for step, _, _ in _answers(interrupted)}
    shown: dict[str, dict[str, str]] = {}
    for record in interrupted.records:
        event = record.event
        if isinstance(event, TextEnded) and event.part.startswith("say-"):
            step, attempt, _ = event.part[4:].removesuffix("-rest").rsplit("-", 2)
            if step not in ended:
                of_step = shown.setdefault(step, {})
                of_step[attempt] = of_step.get(attempt, "") + event.text
    kept = [
        part.content
        for message in interrupted.history
        if isinstance(message, m.ModelResponse) and message.state == "interrupted"
        for part in message.parts
        if isinstance(part, m.TextPart)
    ]
    for step, attempts in shown.items():
        if list(attempts.values())[-1] not in kept:
            yield f"{step} was cut, had shown {attempts}, and the history has {kept}"
    if len(kept) > len(shown):
        yield f"the history has {kept}, and {shown} was shown"


def _answers(interrupted: Happened) -> Iterator[tuple[str, int, m.ModelResponse]]:
    """The answers that came to their end."""
    models = {
        r.event.step
        for r in interrupted.records
        if isinstance(r.event, StepStarted) and r.event.name == "model"
    }
    for record in interrupted.records:
        if isinstance(record.event, StepFinished) and record.event.step in models:
            yield record.event.step, record.event.attempt, response_of(record.event.result)


def _history(interrupted: Happened, alone: Happened) -> Iterator[str]:
    """Of an answer that was cut there is at most its text: no call, no thinking."""
    whole = [
        *(_part(part) for _, _, answer in _answers(interrupted) for part in answer.parts),
        *(_part(p) for r in alone.history[-1:] for p in r.parts),
        *(_part(p) for r in alone.history for p in r.parts),
    ]
    for name, messages in (("history", interrupted.history), *enumerate(interrupted.requests)):
        going_on = messages[-2] if GO_ON in _user_texts(messages[-1:]) else None
        for message in messages:
            if not isinstance(message, m.ModelResponse):
                continue
            cut = message.state == "interrupted"
            for part in message.parts:
                if cut and not isinstance(part, m.TextPart):
                    yield f"{name}: {part} is in an answer that was cut"
                if cut or name == "history" or _part(part) in whole:
                    continue
                if message is going_on and any(_is_cut_of(part, said) for said in whole):
                    continue  # what was shown of an answer that was cut, for the model to go on
                yield f"{name}: nobody said {part}"


def _part(part: Any) -> tuple[str, str, str]:
    if isinstance(part, m.ToolCallPart):
        return part.part_kind, part.tool_call_id, part.args_as_json_str()
    return part.part_kind, getattr(part, "content", ""), getattr(part, "signature", "") or ""


def _is_cut_of(part: m.ModelResponsePart, said: tuple[str, str, str]) -> bool:
    return isinstance(part, m.TextPart) and said[0] == "text" and said[1].startswith(part.content)


def _still(interrupted: Happened, alone: Happened) -> Iterator[str]:
    """Nothing begins and nothing is shown between a pause and its resume, or after a cancel."""
    held = ""
    for item in interrupted.shown:
        event = item.event if isinstance(item, Record) else None
        if isinstance(event, PauseRequested | CancelRequested):
            held = type(event).__name__
        elif isinstance(event, Resumed):
            held = ""
        elif held and (isinstance(item, LiveText) or isinstance(event, StepStarted)):
            yield f"after {held}: {item}"


def _redirected(interrupted: Happened, alone: Happened) -> Iterator[str]:
    """What was said is in every request begun after it, once and in order, and nowhere twice."""
    begun = _requests_begun_before(interrupted)
    silent = ""
    words: list[str] = []
    for record in interrupted.records:
        if isinstance(record.event, Redirected):
            silent = record.event.instruction
            words.append(silent)
            yield from _heard(interrupted, silent, begun(record.seq))
        elif isinstance(record.event, StepStarted) and silent:
            if record.event.tool and record.event.attempt == 1:  # or a person said: run it
                yield f"{record.event.digest} was begun after {silent} was said"
            elif not record.event.tool:
                silent = ""
        elif isinstance(record.event, QuestionAsked) and silent and record.event.kind != "doubt":
            yield f"{record.event.question} was put after {silent} was said"
    for number, request in enumerate(interrupted.requests):
        said = _said(request)
        found = [word for word in words if word in said]
        if sorted(found, key=said.index) != found:
            yield f"request {number}: what was said is out of order"
    last = begun(interrupted.records[-1].seq)
    for number, instruction in interrupted.runs[RUN].instructions.items():
        if instruction.status == "returned":
            if begun(number) < last and not interrupted.is_cancelled:
                yield f"instruction {number} is returned, and a request was begun after it"
        elif instruction.status != "delivered":
            yield f"instruction {number} is {instruction.status}"


def _heard(interrupted: Happened, word: str, begun: int) -> Iterator[str]:
    wanted = int(word in interrupted.heard)
    for number, request in enumerate(interrupted.requests):
        times = _said(request).count(word)
        if times > 1 or (number >= begun and times != wanted):
            yield f"request {number} has {word} {times} times"
    times = _said(interrupted.history).count(word)
    if times != wanted:
        yield f"the history has {word} {times} times"


def _said(messages: Sequence[m.ModelMessage]) -> str:
    return json.dumps(bare(messages))


def _same(interrupted: Happened, alone: Happened) -> Iterator[str]:
    """A pause or a restart changes nothing that the model is sent, nor what tools do."""
    if any(
        mode and mode not in (*PAUSES, *RESTARTS) for mode in (interrupted.mode, interrupted.then)
    ):
        return
    if all(mode in (*PAUSES, "shutdown", None) for mode in (interrupted.mode, interrupted.then)):
        mine, theirs = _sequence(interrupted), _sequence(alone)
        if mine != theirs:
            n = next(
                (n for n, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]),
                -1,
            )
            yield f"the requests are others, from number {n} of {len(mine)} and {len(theirs)}"
    if sorted(interrupted.did) != sorted(alone.did):
        yield f"tools did {interrupted.did}"


def _sequence(interrupted: Happened) -> list[Any]:
    """The requests, without those that only repeat the one before, or have it gone on with: an
    attempt was cut."""
    found: list[Any] = []
    for request in interrupted.requests:
        asked = bare(request[:-2] if GO_ON in _user_texts(request[-1:]) else request)
        if not found or asked != found[-1]:
            found.append(asked)
    return found
