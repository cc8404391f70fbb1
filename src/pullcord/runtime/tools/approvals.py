"""Asks a person to approve a call, and binds the approval to exactly that call.

The digest of an approval covers the tool, its arguments, the run, the step and the policy. An
approval is a durable question: it survives restarts, is answered once, and expires.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

import msgspec

from pullcord.core.calls import Call
from pullcord.core.events import Answered, CallRefused, Event, QuestionAsked, QuestionWithdrawn
from pullcord.core.run import Question, Run
from pullcord.core.values import dump, load
from pullcord.errors import Interrupted, InvalidInput, NotDone
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.policy import Tool
from pullcord.runtime.steps.identity import Identity, named

_REDIRECTED: Final = "redirected"


class ApprovalGrant(msgspec.Struct, frozen=True):
    """The question that allowed a call, and the arguments that it allowed."""

    args: dict[str, Any]
    question: str = ""
    call: str = ""


CallChecks: TypeAlias = Callable[[Any, Call], Awaitable[Any]]
"""Asks the tool's own functions about a call. They are quick, and nothing is recorded."""


async def approved(
    live: LiveRun,
    who: Identity,
    tool: Tool[..., Any],
    call: Call,
    check: CallChecks,
    is_overtaken: Callable[[Run], bool],
) -> ApprovalGrant:
    """Wait until the call is allowed, and return the allowed arguments.

    `is_overtaken` says whether the journal would refuse the call's intent because of a redirect.

    Raises:
        NotDone: it was denied, expired or withdrawn, or is no longer valid.
    """
    args, text = call.args, ""
    times = 0
    while True:
        times += 1
        digest = call_digest(live.run.id, who.id, tool, args)
        question = named(live.memory.ids, tool.name, who.id, digest, times)
        known = live.run.questions.get(question)
        if known is not None and known.why:
            continue  # withdrawn in an earlier life, and asked once more
        if known is None:
            await _ask(live, who, tool, args, question, digest, text, is_overtaken)
        known = await _answered(live, question)
        if known.why:
            continue  # the card was withdrawn, but the agent still wants the call
        match known.verdict:
            case "approved":
                await _still_valid(live, who, tool, msgspec.structs.replace(call, args=args), check)
                return ApprovalGrant(args, question, digest)
            case "edited":
                answer = await live.event_at(known.settled_seq, Answered)
                args, text = _edited(tool, args, load(answer.value))
            case "denied":
                answer = await live.event_at(known.settled_seq, Answered)
                raise await _refused(live, who, "denied", answer.reason or "no reason given")
            case "expired":
                raise await _refused(live, who, "not_started", "nobody approved it in time")
            case _:
                raise await _refused(live, who, "not_started", _REDIRECTED)


async def _answered(live: LiveRun, question: str) -> Question:
    """Wait for the answer. If the agent stops waiting, withdraw the card."""
    try:
        await live.until(lambda run: run.questions[question].status != "open")
    except asyncio.CancelledError:
        taking_back = asyncio.ensure_future(_take_back(live, question))
        await asyncio.shield(taking_back)
        raise
    return live.run.questions[question]


async def _take_back(live: LiveRun, question: str) -> None:
    with suppress(Interrupted):  # the run is unwound: it asks again, or withdraws the card
        while True:
            await live.gate.passes()
            if live.run.questions[question].status != "open":
                return
            gone = QuestionWithdrawn(question=question, why="the agent waits no longer")
            with live.busy():
                if await live.record(gone):
                    return
            await live.moved()


async def _refused(
    live: LiveRun, who: Identity, outcome: Literal["denied", "not_started"], why: str
) -> NotDone:
    """Record the refusal, so that every later life gives the agent the same answer."""
    known = live.run.steps.get(who.id)
    said = "unknown" if known is not None and known.began else outcome
    await live.begin(CallRefused(step=who.id, name=who.name, outcome=said, why=why))
    return NotDone(who.name, outcome=said, why=why)


async def withdraw_cards(live: LiveRun, who: Identity) -> None:
    """Withdraw the cards about this call, which needs no approval any more."""
    if _outdated(live, live.run, who):
        await live.begin(lambda run: _outdated(live, run, who))


def call_digest(run_id: str, step: str, tool: Tool[..., Any], args: dict[str, Any]) -> str:
    """Return the digest of exactly the call that an approval allows."""
    exact = [tool.name, args, run_id, step, tool.policy.digest]
    return sha256(dump(exact)).hexdigest()


async def _ask(
    live: LiveRun,
    who: Identity,
    tool: Tool[..., Any],
    args: dict[str, Any],
    question: str,
    digest: str,
    text: str,
    is_overtaken: Callable[[Run], bool],
) -> None:
    """Put the card.

    Raises:
        NotDone: a redirect came first, and the refusal is recorded in the card's place.
    """
    services, policy = live.services, tool.policy
    due_ms = await services.journal.clock.now_ms() + round(policy.approve_within_s * 1000)
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
        place=place_of(who, live.memory.ids),
    )
    refused = CallRefused(step=who.id, name=who.name, outcome="not_started", why=_REDIRECTED)

    def card(run: Run) -> list[Event]:
        # The append decides, not a look before it: a redirect withdraws the cards that it finds.
        # One put behind it would ask about a call that can never begin.
        # (tests/agents/test_a_card_is_not_put_behind_a_redirect.py)
        return [refused] if is_overtaken(run) else [*_outdated(live, run, who), asked]

    *_, recorded = await live.begin(card)
    if isinstance(recorded, CallRefused):
        raise NotDone(who.name, outcome="not_started", why=_REDIRECTED)
    services.set_timer(due_ms)


def place_of(who: Identity, ids: int) -> str:
    """Return the call's place in the agent's code, whatever its arguments."""
    return named(ids, "", who.scope, who.name, who.place)


def _outdated(live: LiveRun, run: Run, who: Identity) -> list[Event]:
    """Return withdrawals of cards about another call at the same place.

    The code or the policy was changed. A card stays if its call was made in this life too: then
    that call has only moved.
    """
    place = place_of(who, live.memory.ids)
    return [
        QuestionWithdrawn(question=name, why="it is about a call that is no longer meant")
        for name, asked in run.questions.items()
        if asked.kind == "approval" and asked.status == "open"
        if asked.step == who.id or (asked.place == place and asked.step not in live.tools)
    ]


def _edited(tool: Tool[..., Any], before: dict[str, Any], after: Any) -> tuple[dict[str, Any], str]:
    """Return the next arguments to ask about, and a remark on them. Unfit ones change nothing."""
    if not isinstance(after, dict):  # (old journals may have it; no command makes it now)
        return before, "The arguments were not given by name; this is the call as it was."
    try:
        return tool.accept({**before, **after}), ""  # pyright: ignore[reportUnknownArgumentType]
    except InvalidInput as refused:
        return before, f"{refused} This is the call as it was."


async def _still_valid(
    live: LiveRun, who: Identity, tool: Tool[..., Any], call: Call, check: CallChecks
) -> None:
    """Refuse the call if it is no longer valid at the time of the answer."""
    if tool.policy.still_valid is None:
        return
    try:
        found = await check(tool.policy.still_valid, call)
    except Exception as error:
        found, why = False, f"{type(error).__name__}: {error}"
    else:
        why = "what it was approved for is no longer so"
    if inspect.isawaitable(found) or not found:
        raise await _refused(live, who, "not_started", why)
