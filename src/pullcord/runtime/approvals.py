"""Asking for somebody's word before a call, and holding it to exactly that call.

An approval is bound to the digest of the tool, its arguments, the run, the step and the policy.
It is a durable question: it survives restarts, is answered once, and expires.
"""

import inspect
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from pullcord.core.calls import Call
from pullcord.core.events import Answered, Event, QuestionAsked, QuestionWithdrawn
from pullcord.core.run import Run
from pullcord.core.values import Json, dump, load
from pullcord.errors import InvalidInput, NotDone
from pullcord.runtime.doors import Doors
from pullcord.runtime.identity import Identity, short_id
from pullcord.runtime.site import Notice
from pullcord.runtime.tools import Tool


class Granted(msgspec.Struct, frozen=True):
    """By which question a call is allowed, and with which arguments."""

    args: dict[str, Any]
    question: str = ""
    call: str = ""


class Check(Protocol):
    """Asks the tool's own functions about a call: quick, and nothing of it is recorded."""

    async def __call__(self, function: Any, call: Call, /) -> Any: ...


async def approved(
    doors: Doors, who: Identity, tool: Tool[..., Any], call: Call, check: Check
) -> Granted:
    """Wait until the call is allowed, and return with which arguments.

    Raises:
        NotDone: it was denied, it expired, it was withdrawn, or the world has changed since.
    """
    args, text = call.args, ""
    times = 0
    while True:
        times += 1
        digest = call_digest(doors.run.id, who.id, tool, args)
        question = short_id(tool.name, who.id, digest, times)
        if question not in doors.run.questions:
            await _ask(doors, who, tool, args, question, digest, text)
        try:
            await doors.until(lambda run, q=question: run.questions[q].status != "open")
        except BaseException:
            await _withdraw(doors, question)
            raise
        known = doors.run.questions[question]
        match known.verdict:
            case "approved":
                await _still_valid(tool, msgspec.structs.replace(call, args=args), check)
                return Granted(args, question, digest)
            case "edited":
                value, _ = await _answer(doors, known.settled_seq)
                args, text = _edited(tool, args, load(value))
            case "denied":
                _, reason = await _answer(doors, known.settled_seq)
                why = reason or "no reason given"
                raise NotDone(who.name, outcome="denied", why=why)
            case "expired":
                why = "nobody approved it in time"
                raise NotDone(who.name, outcome="not_started", why=why)
            case _:
                raise NotDone(who.name, outcome="not_started", why="redirected")


def call_digest(run_id: str, step: str, tool: Tool[..., Any], args: dict[str, Any]) -> str:
    """What an approval allows, and nothing else."""
    exact = [tool.name, args, run_id, step, tool.policy.digest]
    return sha256(dump(exact)).hexdigest()


async def _ask(
    doors: Doors,
    who: Identity,
    tool: Tool[..., Any],
    args: dict[str, Any],
    question: str,
    digest: str,
    text: str,
) -> None:
    site, policy = doors.site, tool.policy
    due_ms = site.clock.wall_ms() + round(policy.approve_within_s * 1000)
    details = {
        "tool": tool.name,
        "args": args,
        "effect": policy.effect,
        "can_be_undone": policy.undo is not None,
    }
    asked = QuestionAsked(
        question=question,
        kind="approval",
        text=text or f"May {tool.name} be called?",
        details=dump(details),
        step=who.id,
        due_ms=due_ms,
        tool=tool.name,
        call=digest,
    )
    await doors.begin(lambda run: [*_outdated(run, who.id), asked])
    site.set_timer(due_ms)
    notice = Notice(
        run_id=doors.run.id,
        question=question,
        kind="approval",
        text=asked.text,
        tool=tool.name,
        args=load(dump(args)),
        call=digest,
        expires_at_ms=due_ms,
    )
    site.notify(notice)


def _outdated(run: Run, step: str) -> list[Event]:
    """Cards about the same step that are about another call: its code or policy was changed."""
    return [
        QuestionWithdrawn(question=name, why="it is about a call that is no longer meant")
        for name, asked in run.questions.items()
        if asked.kind == "approval" and asked.step == step and asked.status == "open"
    ]


async def _withdraw(doors: Doors, question: str) -> None:
    """Nobody waits for the answer any more, and the run goes on without it."""
    known = doors.run.questions.get(question)
    if doors.gate.is_open and known is not None and known.status == "open":
        await doors.record(QuestionWithdrawn(question=question, why="the agent waits no longer"))


async def _answer(doors: Doors, seq: int) -> tuple[Json, str]:
    [record] = await doors.site.journal.read(doors.run.id, after_seq=seq - 1, limit=1)
    assert isinstance(record.event, Answered)
    return record.event.value, record.event.reason


def _edited(tool: Tool[..., Any], before: dict[str, Any], after: Any) -> tuple[dict[str, Any], str]:
    """The arguments to ask about next, and what to say of them. Ones that do not fit change
    nothing."""
    if not isinstance(after, dict):
        return before, "The arguments were not given by name; this is the call as it was."
    try:
        return tool.accept({**before, **after}), ""  # pyright: ignore[reportUnknownArgumentType]
    except InvalidInput as refused:
        return before, f"{refused} This is the call as it was."


async def _still_valid(tool: Tool[..., Any], call: Call, check: Check) -> None:
    """The world may have changed between the question and the answer."""
    if tool.policy.still_valid is None:
        return
    try:
        found = await check(tool.policy.still_valid, call)
    except Exception as error:
        found, why = False, f"{type(error).__name__}: {error}"
    else:
        why = "what it was approved for is no longer so"
    if inspect.isawaitable(found) or not found:
        raise NotDone(tool.name, outcome="not_started", why=why)
