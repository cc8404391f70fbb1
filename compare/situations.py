"""What is compared: the situations, and what is measured in each.

A peer's function of the same name returns a value for every measure, or `{"unsupported": "why, in
one sentence"}`. Nothing is guessed: what was not measured is left out and shows as a dash.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

Values: TypeAlias = dict[str, str | int | float | bool | None]

WORDS_BEFORE: Final = 90  # of 300: shown to the user when the interrupt comes
NEXT: Final = "NEXT please"  # the user's message afterwards

_NEXT = "the user's next message is"


@dataclass(frozen=True)
class Situation:
    """One thing that happens to a running agent. Keys of `measures` are keys of the result."""

    name: str
    sentence: str
    measures: dict[str, str]
    limit_s: float = 45


SITUATIONS: Final = (
    Situation(
        "cancel_stream",
        "Cancel after 90 of 300 streamed words.",
        {
            "way": "asked with",
            "disconnect_ms": "provider sees the disconnect after",
            "returned_ms": "caller has control again after",
            "words_after": "words still sent after the cancel",
            "words_kept": "words of the cut answer in the stored history",
            "words_sent": "words of it in the next request",
            "next_message": _NEXT,
        },
    ),
    Situation(
        "cancel_call",
        "Cancel a model call that does not stream and does not answer.",
        {
            "way": "asked with",
            "disconnect_ms": "provider sees the disconnect after",
            "returned_ms": "caller has control again after",
            "next_message": _NEXT,
        },
    ),
    Situation(
        "cancel_sync_tool",
        "Cancel during a plain `def` tool that writes a line every 100 ms for 4 s (5 are written).",
        {
            "way": "asked with",
            "returned_ms": "caller has control again after",
            "lines_after": "lines written after that",
            "caller_gets": "what the caller is given",
            "told": "that includes that it is still running",
            "model_told": "what the model is told of the call",
            "next_message": _NEXT,
        },
    ),
    Situation(
        "cancel_parallel",
        "Cancel when one of two parallel tools has finished and the other (async) has not.",
        {
            "way": "asked with",
            "slow_ended_ms": "the unfinished tool has ended after",
            "finished_kept": "finished result in the request of the next message",
            "next_message": _NEXT,
            "resume_starts": "starts of the finished tool if resumed instead (1: not repeated)",
        },
    ),
    Situation(
        "pause_stream",
        "Pause after 90 of 300 streamed words.",
        {
            "way": "asked with",
            "quiet_ms": "nothing more is shown after",
            "words_after": "words shown after the pause",
            "then": "and the run is then",
        },
    ),
    Situation(
        "redirect_stream",
        "A new instruction after 90 of 300 streamed words, without cancelling the run.",
        {
            "way": "asked with",
            "seen": "reaches the model",
            "seen_ms": "in a request begun after",
            "words_after": "words of the old answer sent after it",
        },
    ),
    Situation(
        "kill_one_answer",
        "kill -9 during the second of two tools called in one answer; then a restart.",
        {
            "way": "restarted with",
            "quick_starts": "starts of the finished tool (1: not repeated)",
            "slow_starts": "starts of the tool that was cut (1: not repeated)",
            "asked": "anybody asked before it ran again",
            "outcome": "the restart ends with",
        },
        60,
    ),
    Situation(
        "kill_two_answers",
        "The same with the two tools called in two answers, one after the other.",
        {
            "way": "restarted with",
            "quick_starts": "starts of the finished tool (1: not repeated)",
            "slow_starts": "starts of the tool that was cut (1: not repeated)",
            "asked": "anybody asked before it ran again",
            "outcome": "the restart ends with",
        },
        60,
    ),
    Situation(
        "approval_message",
        "The user writes something else while a tool call waits for approval.",
        {
            "way": "asked with",
            "next_message": "the message is",
            "denied_first": "the message is, if the app denies the call along with it",
            "model_told": "what the model is told of the waiting call",
            "tool_ran": "the tool ran without approval",
        },
    ),
    Situation(
        "random_cancels",
        "100 cancels at random moments within 0.3 s of a stream's first word.",
        {
            "way": "asked with",
            "trials": "trials",
            "p50_ms": "disconnect, median",
            "max_ms": "disconnect, worst of those seen",
            "late_returns": "caller has control again only after more than 1 s",
            "late_disconnects": "disconnect only after more than 1 s",
            "lost": "no disconnect at all: the answer was sent to its end",
            "lost_untimed": "the same with `stream_chunk_timeout=None` in another 100",
        },
        200,
    ),
)

BY_NAME: Final = {situation.name: situation for situation in SITUATIONS}
