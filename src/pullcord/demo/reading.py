"""How the demo's model reads a conversation: what is wanted, and what was done about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_ai import messages as m

from pullcord.demo.focus import Focus
from pullcord.demo.memo import headline, subject_of

_TOOLS: Final = (
    "fetch_customers",
    "join_mrr",
    "score_churn",
    "post_to_channel",
    "create_draft",
    "send_memo",
)
_TRIES: Final = 2


@dataclass(frozen=True)
class CallMade:
    """A call that was made, and what its caller was told of it."""

    tool: str
    args: dict[str, Any]
    outcome: str  # success, failed, denied, interrupted or retried
    content: Any


@dataclass
class Talk:
    """One conversation, as far as the script wants to know it."""

    length: int = 0  # in messages
    focus: Focus = field(default_factory=Focus)
    is_under_way: bool = False  # it has answered in this turn
    reply: str = ""  # to what somebody has said since
    is_aside: bool = False
    is_at_its_limit: bool = False
    made: list[CallMade] = field(default_factory=list[CallMade])  # in this turn
    posted: set[str] = field(default_factory=set[str])  # on this thread

    @property
    def next_tool(self) -> str:
        """The first one that is still to be called. Empty: none is."""
        return next((tool for tool in _TOOLS if not self._is_settled(tool)), "")

    @property
    def so_far(self) -> str:
        done = [made.tool for made in self.made if made.outcome == "success"]
        return f"So far, about {self.focus.title}: {', '.join(done) or 'nothing yet'}."

    @property
    def fate(self) -> str:
        """What became of the memo: sent to whom, and as what, which somebody may have changed."""
        tries = [made for made in self.made if made.tool == "send_memo"]
        if not tries:
            return "not sent"
        said = str(tries[-1].content)
        return said if tries[-1].outcome == "success" else f"not sent ({said})"

    def _is_settled(self, tool: str) -> bool:
        """Whether it was done for what is wanted now, or there is no point in trying again."""
        tries = [made for made in self.made if made.tool == tool and self._is_meant(made)]
        if tool == "post_to_channel" and headline(self.focus) in self.posted:
            return True
        is_for_good = tool in ("post_to_channel", "send_memo")  # done once, or not to be repeated
        ends = {"success", "denied"} | ({"interrupted"} if is_for_good else set[str]())
        return any(made.outcome in ends for made in tries) or len(tries) >= _TRIES

    def _is_meant(self, made: CallMade) -> bool:
        match made.tool:
            case "post_to_channel" | "send_memo":
                return not str(made.content).startswith("not_started")
            case "create_draft":
                return made.args.get("subject") == subject_of(self.focus)
            case _:
                return made.args.get("region", "all") == self.focus.region


def read(messages: Sequence[m.ModelMessage]) -> Talk:
    """Take a conversation in. Each answer that calls nothing ends a turn, and so does a stop."""
    talk = Talk(length=len(messages))
    calls: dict[str, m.ToolCallPart] = {}
    for message in messages:
        if isinstance(message, m.ModelResponse):
            calls |= {call.tool_call_id: call for call in message.tool_calls}
            talk.is_under_way, talk.reply = True, ""
            if not message.tool_calls and message.state == "complete":
                _begin_anew(talk)
            continue
        for part in message.parts:
            match part:
                case m.ToolReturnPart() if part.tool_call_id in calls:
                    _take_result(talk, calls[part.tool_call_id], part.outcome, part.content)
                case m.UserPromptPart():
                    for words in _words(part.content):
                        _take_words(talk, words)
                case _:
                    pass
    return talk


def _begin_anew(talk: Talk) -> None:
    talk.made = []
    talk.is_under_way = talk.is_aside = talk.is_at_its_limit = False
    talk.reply = ""


def _take_result(talk: Talk, call: m.ToolCallPart, outcome: str, content: Any) -> None:
    made = CallMade(call.tool_name, call.args_as_dict(), outcome, content)
    talk.made.append(made)
    if made.tool == "post_to_channel" and outcome == "success":
        talk.posted.add(made.args.get("text", ""))


def _take_words(talk: Talk, words: str) -> None:
    if words.startswith("[The turn above"):
        _begin_anew(talk)
    elif words.startswith("[This is a side question"):
        talk.is_aside = True
    elif words.startswith("[A limit of this task is reached"):
        talk.is_at_its_limit = True
    elif not words.startswith("["):  # or else it is the runtime that speaks
        if talk.is_under_way:
            talk.reply = talk.focus.reply_to(words)
        talk.focus = talk.focus.told(words)


def _words(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (item for item in content if isinstance(item, str))
