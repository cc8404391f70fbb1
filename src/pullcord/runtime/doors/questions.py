"""Asking somebody outside, durably: a person, an approver, a clock."""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from pullcord.core.events import Answered, DoubtSettled, Event, QuestionAsked
from pullcord.core.run import Run
from pullcord.core.values import NULL, Json, dump, load
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.steps.identity import Identity, named
from pullcord.runtime.steps.memory import DOUBTS, Past, chosen, settled

DOUBT: Final = ("happened", "run", "skip")


async def ask_outside(live: LiveRun, question: str, text: str, *, details: Json = NULL) -> Any:
    """Return the answer to a question, of this life or an earlier one.

    A redirect takes an open card off the table. An agent that reads the new instruction can end
    the matter; one that comes back to the question has it asked again, as a new card.
    """
    posed = question
    times = 1
    while True:
        asked = QuestionAsked(question=posed, text=text, details=details)
        answer = await answered(live, asked)
        if answer is not None:
            return load(answer)
        times += 1
        posed = f"{question}-{times}"


async def ask_until_chosen(
    live: LiveRun, question: str, text: str, choices: Sequence[str]
) -> tuple[str, Any]:
    """Ask until the answer is one of `choices`, or `{choice: something}`, and return both."""
    times, why = 0, ""
    while True:
        times += 1
        posed = question if times == 1 else named(live.memory.ids, question, question, times)
        details = dump({"choices": list(choices)})
        said = await ask_outside(live, posed, f"{why}{text}", details=details)
        why = _not_understood(said, choices)
        given = cast("dict[str, Any]", said) if isinstance(said, dict) else {str(said): None}
        if len(given) == 1 and next(iter(given)) in choices:
            return next(iter(given.items()))


def _not_understood(said: Any, choices: Sequence[str]) -> str:
    """Return why the same is asked again, as the beginning of the next question."""
    shown = said if isinstance(said, str) else bytes(dump(said)).decode()
    cut = f"{shown[:60]}…" if len(shown) > 60 else shown
    return f"The answer “{cut}” is none of {', '.join(choices)}. "


async def ask_what_happened(live: LiveRun, who: Identity, past: Past) -> Past:
    """Have a person say what became of a step that began and was never heard of again."""
    question = f"doubt-{who.id}-{past.attempt}"[:64]
    why = f" ({past.error})" if past.error else ""
    text = (
        f"Nobody knows whether step {who.name!r} happened: it began, and was cut off before it "
        f"could say{why}. "
        'It happened (happened, or {"happened": RESULT}), run it (run), or go on '
        "without it (skip)?"
    )
    mine = live.run.steps.get(who.id)
    if mine is None or mine.status != "in_doubt":
        choice, result = await ask_until_chosen(live, question, text, DOUBT)
        return settled(past, choice, dump(result))
    asked = QuestionAsked(question=question, kind="doubt", text=text, step=who.id)
    await answered(live, asked)
    known = live.run.steps[who.id]
    result = NULL
    if known.settled == "happened":
        result = (await live.event_at(known.decided_seq, DoubtSettled)).result
    return settled(past, known.settled, result)


async def ask_about_inherited(live: LiveRun, step: str) -> Past:
    """Have a person say what became of the steps of which the run that this one goes on from knows
    no more than that they happened, or may have: of all of them, on one card. Returns `step`."""
    async with live.one_card:
        times, why = 0, ""
        while step in (doubts := live.memory.doubts()):
            times += 1
            posed = DOUBTS if times == 1 else f"{DOUBTS}-again-{times}"
            text, details = f"{why}{_about(doubts)}", dump(_listed(doubts))
            said = await ask_outside(live, posed, text, details=details)
            why = _not_understood(said, DOUBT)
            for one, past in doubts.items():
                choice, result = chosen(said, one)
                if choice in DOUBT:
                    why = ""
                    live.memory.steps[one] = settled(past, choice, dump(result))
    return live.memory.steps[step]


def _about(doubts: dict[str, Past]) -> str:
    each = "; ".join(f"{past.name!r} {_known_of(past)}" for past in doubts.values())
    if len(doubts) == 1:
        return (
            f"Before this run goes on: step {each}. It happened (happened, or "
            '{"happened": RESULT}), run it (run), or go on without it (skip)?'
        )
    return (
        f"Before this run goes on, {len(doubts)} steps of the run before it: {each}. For each: it "
        'happened (happened, or {"happened": RESULT}), run it (run), or go on without it (skip)? '
        'By the id of the step, {"STEP": "happened"}; or one word for all of them.'
    )


def _known_of(past: Past) -> str:
    why = f" ({past.error})" if past.error else ""
    return f"{'did happen' if past.happened == 'yes' else 'may have happened'}{why}"


def _listed(doubts: dict[str, Past]) -> dict[str, Any]:
    """For surfaces: which steps, and which answers. One alone is answered as it is."""
    if len(doubts) == 1:
        return {"choices": DOUBT}
    listed = [
        {"step": step, "name": past.name, "known": _known_of(past), "args": load(past.args)}
        for step, past in doubts.items()
    ]
    return {"choices": DOUBT, "doubts": listed}


async def answered(
    live: LiveRun, asked: QuestionAsked, *, with_it: Callable[[Run], list[Event]] | None = None
) -> Json | None:
    """Put the question, unless it was put before, and return its answer. None: withdrawn.

    `with_it`: what is recorded together with the question. It may raise, and nothing is put.
    """
    name = asked.question
    if name in live.memory.answers:
        return live.memory.answers[name]
    if name not in live.run.questions:
        await live.begin(lambda run: [*(with_it(run) if with_it else ()), asked])
        if asked.due_ms:
            live.services.set_timer(asked.due_ms)
    await live.until(lambda run: run.questions[name].status != "open")
    known = live.run.questions[name]
    if known.status == "withdrawn":
        return None
    return (await live.event_at(known.settled_seq, Answered)).value
