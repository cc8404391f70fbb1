"""A receipt in words: a line for each heading that has steps, then the actor, times and cost."""

from collections.abc import Iterator

import msgspec

from pullcord.core.receipts import Receipt
from pullcord.core.show import words


class ReceiptLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a receipt: its subject, then names of steps, a sentence, or both."""

    word: str
    heading: str = ""  # its field in a `Receipt`; empty: the line is no heading
    sign: str = ""
    tone: str = ""  # its colour, where there are colours: that of a state
    names: tuple[str, ...] = ()
    says: str = ""


def receipt_words(made: Receipt) -> tuple[ReceiptLine, ...]:
    """Return the lines of a receipt, as every surface shows them."""
    return (*_headings(made), *_facts(made))


def _headings(made: Receipt) -> Iterator[ReceiptLine]:
    is_empty = True
    for name, sign, word, tone in words.HEADINGS:
        if names := getattr(made, name):
            is_empty = False
            yield ReceiptLine(
                heading=name, word=word, sign=sign, tone=tone, names=names, says=_about(name)
            )
    if is_empty:
        answered = any(line.model and line.heading == "done" for line in made.steps)
        says = "it answered; nothing else was done" if answered else "nothing"
        yield ReceiptLine(heading="done", word="done", sign="✓", says=says)


def _about(heading: str) -> str:
    return "done, and nothing says how to undo it" if heading == "no_undo" else ""


def _facts(made: Receipt) -> Iterator[ReceiptLine]:
    if made.by:
        reason = f" “{made.reason}”" if made.reason else ""
        yield ReceiptLine(word="stopped by", says=words.by_whom(made.by, made.source)[3:] + reason)
    if made.effect_at_ms:
        yield ReceiptLine(word="in effect", says=_in_effect(made))
    if made.error:
        yield ReceiptLine(word="error", says=words.short(made.error, 1000))
    for line in made.steps:
        if line.heading == "failed" and line.error:
            yield ReceiptLine(word="error", says=f"{line.name}: {words.short(line.error, 400)}")
        if line.still_running:
            yield ReceiptLine(
                word="still running", says=f"{line.name}: {', '.join(line.still_running)}"
            )
    for text in made.attention:
        yield ReceiptLine(word="to look at", says=words.short(text, 1000))
    if made.partial_text:
        yield ReceiptLine(word="partial text", says=_partial(made))
    if made.used:
        yield ReceiptLine(word="limits", says=", ".join(made.used))
    spent = msgspec.structs.asdict(made.times)
    yield ReceiptLine(word="time", says=words.times(spent))
    if cost := _cost(made):
        yield ReceiptLine(word="cost", says=cost)
    if made.detached:
        yield ReceiptLine(word="lives on", says=", ".join(f"run {name}" for name in made.detached))


def _in_effect(made: Receipt) -> str:
    took = f"{words.duration(made.effect_at_ms - made.asked_at_ms)} after it was asked"
    if made.rung == "abandoned" or made.still_running:
        return f"{took}, but for what is still running"
    return f"{took}: {words.RUNG[made.rung]}" if made.rung else took


def _partial(made: Receipt) -> str:
    """Return the number of parts that were cut, and how they begin unless that is withheld."""
    known = [words.short(text, 70) for text in made.partial_text[:3] if text]
    cut = "part was" if len(made.partial_text) == 1 else "parts were"
    said = f"{len(made.partial_text)} {cut} cut"
    return f"{said}: {', '.join(f'“{text}”' for text in known)}" if known else said


def _cost(made: Receipt) -> str:
    cost = made.cost
    if not (cost.usd_micros or cost.unknown_calls or cost.tokens_in or cost.tokens_out):
        return ""
    price = words.price(cost.usd_micros, cost.unknown_calls)
    return ", ".join(filter(None, (price, words.tokens(cost.tokens_in, cost.tokens_out))))
