"""What the demo's model says: a function of the conversation alone.

It keeps nothing in memory, so that whatever people do (redirect, edit, deny, pause over night,
kill the process) the next request is answered from what is in it.
"""

from collections.abc import Sequence
from typing import Any, Final

from pydantic_ai import messages as m

from pullcord.demo.memo import CHANNEL, TO, headline, memo, subject_of
from pullcord.demo.reading import Talk, read
from pullcord.demo.speech import tokens
from pullcord.testing.scripted import Answer, Call, Piece, Say, Think

_OVERHEAD: Final = 900  # tokens of instructions and descriptions of tools, in every request
_CHUNK: Final = 6
_FIRST: Final = (
    "Who is about to leave? Logins say who has stopped coming, seats who has stopped caring, "
    "revenue what it costs us. I want all three before I name anybody."
)
_BEFORE_WRITING: Final = (
    "The memo has to be short: how much, who, why, and what to do first. Names before "
    "percentages; somebody has to pick up a phone."
)


def answer(messages: list[m.ModelMessage]) -> Answer:
    """What it says to this."""
    talk = read(messages)
    left = talk.next_tool or "nothing"
    if talk.is_aside:
        return [_say(f"{talk.so_far} What comes next: {left}.")]
    if talk.is_at_its_limit:
        return [_say(f"I have to stop here. {talk.so_far} Missing: {left}.")]
    reply = [_say(talk.reply)] if talk.reply else []
    return [*reply, *_next(talk)]


def _next(talk: Talk) -> Sequence[Piece]:
    focus = talk.focus
    match talk.next_tool:
        case "fetch_customers" if talk.reply:
            words = f"I fetch the list of {focus.title}."
            return [_say(words), _call(talk, region=focus.region)]
        case "fetch_customers":
            words = f"I start with the customer list: {focus.title}."
            return [_think(_FIRST), _say(words), _call(talk, region=focus.region)]
        case "join_mrr":
            words = f"I have the list of {focus.title}. Next, what each of them pays."
            return [_say(words), _call(talk, region=focus.region)]
        case "score_churn":
            words = "Now I score each of them. It takes a few seconds."
            return [_say(words), _call(talk, region=focus.region)]
        case "post_to_channel":
            line = headline(focus)
            words = f"{line} {CHANNEL} should know that today."
            return [_say(words), _call(talk, channel=CHANNEL, text=line)]
        case "create_draft":
            text = memo(focus)
            call = _call(talk, subject=subject_of(focus), text=text)
            return [_think(_BEFORE_WRITING), _say(text), call]
        case "send_memo":
            words = "The draft is ready. Sending it is for you to allow."
            return [_say(words), _call(talk, to=TO, subject=subject_of(focus))]
        case _:
            return [_say(_ending(talk))]


def size(messages: Sequence[m.ModelMessage]) -> int:
    """How many tokens a request has, as far as anybody can tell."""
    parts = (part for message in messages for part in message.parts)
    return _OVERHEAD + sum(tokens(_text(part)) for part in parts)


def _ending(talk: Talk) -> str:
    names = ", ".join(one.name for one in talk.focus.at_risk) or "nobody"
    return f"The memo was {talk.fate}. At risk in {talk.focus.title}: {names}."


def _think(text: str) -> Think:
    return Think(text, chunk=_CHUNK)


def _say(text: str) -> Say:
    return Say(text, chunk=_CHUNK)


def _call(talk: Talk, **args: Any) -> Call:
    return Call(talk.next_tool, args, id=f"{talk.next_tool}-{talk.length}", chunk=64)


def _text(part: Any) -> str:
    found: Any = getattr(part, "content", None) or getattr(part, "args", None) or ""
    return found if isinstance(found, str) else str(found)
