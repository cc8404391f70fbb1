"""Asking somebody outside, durably: a person, an approver, a clock."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from pullcord.core.events import Answered, DoubtSettled, QuestionAsked
from pullcord.core.values import NULL, Json, dump, load
from pullcord.runtime.driver import Driver
from pullcord.runtime.identity import Identity, short_id
from pullcord.runtime.memory import Past


async def ask(driver: Driver, question: str, text: str, *, details: Json = NULL) -> Any:
    """Return the answer to a question, of this life or an earlier one.

    A redirect takes an open card off the table. An agent that reads the new instruction can end
    the matter; one that comes back to the question has it asked again, as a new card.
    """
    posed = question
    times = 1
    while True:
        asked = QuestionAsked(question=posed, text=text, details=details)
        answer = await answered(driver, asked)
        if answer is not None:
            return load(answer)
        times += 1
        posed = f"{question}-{times}"


async def ask_until_chosen(
    driver: Driver, question: str, text: str, choices: Sequence[str]
) -> tuple[str, Any]:
    """Ask until the answer is one of `choices`, or `{choice: something}`, and return both."""
    times = 0
    while True:
        times += 1
        posed = question if times == 1 else short_id(question, question, times)
        said = await ask(driver, posed, text, details=dump({"choices": list(choices)}))
        named = cast("dict[str, Any]", said) if isinstance(said, dict) else {str(said): None}
        if len(named) == 1 and next(iter(named)) in choices:
            return next(iter(named.items()))


async def ask_what_happened(driver: Driver, who: Identity, past: Past) -> Past:
    """Have a person say what became of a step that began and was never heard of again."""
    question = f"doubt-{who.id}-{past.attempt}"[:64]
    text = (
        f"Nobody knows whether step {who.name!r} happened: it began, and was cut off before it "
        'could say. It happened (happened, or {"happened": RESULT}), run it (run), or go on '
        "without it (skip)?"
    )
    mine = driver.run.steps.get(who.id)
    if mine is None or mine.status != "in_doubt":  # of the run this one was forked from, say
        choices = ("happened", "run", "skip")
        choice, result = await ask_until_chosen(driver, question, text, choices)
        return _settled(past, choice, dump(result))
    asked = QuestionAsked(question=question, kind="doubt", text=text, step=who.id)
    await answered(driver, asked)
    known = driver.run.steps[who.id]
    result = NULL
    if known.settled == "happened":
        [record] = await driver.site.journal.read(
            driver.run.id, after_seq=known.decided_seq - 1, limit=1
        )
        assert isinstance(record.event, DoubtSettled)
        result = record.event.result
    return _settled(past, known.settled, result)


def _settled(past: Past, choice: str, result: Json) -> Past:
    if choice == "happened":
        return msgspec.structs.replace(past, status="finished", result=result)
    return msgspec.structs.replace(past, skipped=choice == "skip", rerun=choice == "run")


async def answered(driver: Driver, asked: QuestionAsked) -> Json | None:
    """Put the question, unless it was put before, and return its answer. None: withdrawn."""
    name = asked.question
    if name in driver.memory.answers:
        return driver.memory.answers[name]
    if name not in driver.run.questions:
        await driver.begin(asked)
        if asked.due_ms:
            driver.site.set_timer(asked.due_ms)
    await driver.until(lambda run: run.questions[name].status != "open")
    known = driver.run.questions[name]
    if known.status == "withdrawn":
        return None
    [record] = await driver.site.journal.read(
        driver.run.id, after_seq=known.settled_seq - 1, limit=1
    )
    assert isinstance(record.event, Answered)
    return record.event.value
