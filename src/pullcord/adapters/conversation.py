"""Stores the messages of a conversation, reads them back and goes on from them.

With each model request a run stores only the new part: how many earlier messages stay, and the
messages that follow them. The answer is the outcome of that step. So a journal grows with the
conversation, and one read restores the whole.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from pullcord.adapters.past import PastRequest, PastRun
from pullcord.adapters.run import AgentRun
from pullcord.core.values import Json
from pullcord.errors import OutOfLimits
from pullcord.runtime.doors.model_request import InstructionArrived

M = TypeVar("M")
_FORGOTTEN: Final = "[What was said and done here before was deleted on request.]"
CUT: Final = "[Your answer above was cut off here: the user has something to say.]"
_ASIDE: Final = (
    "[This is a side question about the work above, which it does not change. "
    "Answer it from what is known so far; nothing is done for it. End by saying in one sentence "
    "how far that work has got.]"
)
_LAST_WORD: Final = (
    "[A limit of this task is reached: {reached}. Nothing more can be done, and no tool can be "
    "called. Say what was found and done so far, and what is missing.]"
)


class Dialect(Protocol[M]):
    """How a framework writes messages. Each adapter has one; `Conversation` does the rest."""

    def dump(self, messages: Sequence[M], /) -> bytes:
        """Return the messages as a JSON list."""
        ...

    def load(self, stored: bytes, /) -> list[M]:
        """Return the messages of a JSON list."""
        ...

    def answer(self, stored: Json, /) -> list[M]:
        """Return the messages that a stored answer of the model adds."""
        ...

    def prompt(self, given: Any, /) -> list[M]:
        """Return the input of a run as messages of a person."""
        ...

    def spoken(self, text: str, /, *, was_cut: bool) -> list[M]:
        """Return text of the agent as messages of the model."""
        ...

    def closed(self, past: PastRun, last: PastRequest | None, remark: str, /) -> list[M]:
        """Return the messages that close a turn without an end of its own.

        They are the fate of each call in its last answer, if that came, and the remark about its
        end, if there is one.
        """
        ...

    def mended(self, messages: Sequence[M], /) -> list[M]:
        """Return the conversation valid for every provider: each call with exactly one result."""
        ...


class Conversation(Generic[M]):
    """The messages of one run, as its journal has them, and people's new instructions.

    An adapter makes one from `known_before`, and passes `goes_on` a function that enters its
    framework. Its wrapper of the framework's model asks for each answer like this:

        before = list(talk.known)
        args = talk.next_request(messages)
        request = Request(key=talk.key, args=args, delivers=talk.delivers, ...)
        try:
            stored = await run.ask_model(request)
        except (InstructionArrived, OutOfLimits):
            if not run.has_asked(talk.key):
                talk.was_never_sent(before)
            raise
        talk.known += dialect.answer(stored)

    Before it enters the framework or makes a request, the adapter puts the news (`told`) behind the
    messages. It does not if the conversation `is_taken_up`: then it repeats the last request as is.
    """

    def __init__(self, run: AgentRun, dialect: Dialect[M], known: list[M]) -> None:
        self._run, self._dialect = run, dialect
        self.known = known
        self.number = 0  # of the current or last request
        self._taken: list[int] = []
        self._unsent: list[M] = []
        self._last: PastRequest | None = None
        unanswered = len(known)
        for self._last in run.requests:
            self.number = int(self._last.key)
            apply_delta(self.known, self._last.new, dialect)
            unanswered = len(self.known)
            if self._last.answer is not None:
                self.known += dialect.answer(self._last.answer)
        self.is_taken_up = self._last is not None  # its last request has not been repeated yet
        del self.known[unanswered:]  # memory answers that request

    @property
    def key(self) -> str:
        """The key of the current or last request."""
        return str(self.number)

    @property
    def has_begun(self) -> bool:
        return self.number > 0

    @property
    def answered(self) -> int:
        """The number of requests before the next one."""
        return self.number - 1 if self.is_taken_up else self.number

    def told(self) -> list[str]:
        """Return people's instructions that the model has not read.

        The next request carries them, and its record marks them as delivered.
        """
        new = self._run.told()
        self._taken += new
        return list(new.values())

    @property
    def delivers(self) -> list[int]:
        """The instructions that the next request delivers."""
        return self._taken

    def next_request(self, messages: Sequence[M]) -> Json:
        """Number the next request, and return its new part: `Request.args`.

        After the answer, the caller appends the answer's messages to `known`. In a run that was
        taken up, the first request repeats the last one of the earlier life. Then `known` is the
        stored form of that request, which may say the same in other messages.
        """
        if self.is_taken_up and self._last is not None:
            self.is_taken_up = False
            return self._last.new
        self.number += 1
        self._unsent = []
        self._taken = self._run.undelivered(self._taken)
        return delta(self.known, messages, self._dialect)

    def was_never_sent(self, known: list[M]) -> None:
        """Take back a request that never began (see `AgentRun.has_asked`).

        The journal has nothing of it, and its messages go into the next request. `known` is the
        list from before `next_request`.
        """
        self.number -= 1
        self._unsent, self.known = self.known, known

    @property
    def so_far(self) -> list[M]:
        """The whole conversation, also the part that the journal does not have yet."""
        return list(self._unsent or self.known)

    async def ends_with(self, messages: Sequence[M]) -> None:
        """Keep the messages after the last answer, which no request will carry."""
        end = _end_after(self.key)
        if not self._run.has_kept(end):
            await self._run.keep(end, delta(self.known, messages, self._dialect))

    async def goes_on(
        self,
        piece: Callable[[Any, list[M]], Awaitable[tuple[list[M], Any]]],
        *,
        prompt: Any,
        last_word: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Return the agent's result, once it is done and has read every instruction.

        `piece` runs the agent from messages, with a new prompt or none, and returns all messages
        and the result. It lets `InstructionArrived` and `OutOfLimits` pass; this method then calls
        it again with the whole conversation. `prompt` is the input of the run, used if the run has
        not begun. Later prompts are lists of texts. When a limit is reached, this method returns
        the result of `last_word` instead.
        """
        history = list(self.known)
        if self.has_begun:
            prompt = None
        elif self._run.is_aside:
            prompt = [_ASIDE, *(prompt if isinstance(prompt, list) else [prompt])]
        while True:
            if self._run.limits_reached:
                return await last_word()
            try:
                history, result = await piece(prompt, history)
            except OutOfLimits:
                continue
            except InstructionArrived as told:
                history, prompt = self.so_far, None
                if told.shown:
                    history += self._dialect.spoken(told.shown, was_cut=True)
                    prompt = [CUT, *self.told()]
                continue
            if not self._run.is_told:
                await self.ends_with(history)
                return result
            prompt = self.told()

    async def for_last_word(self, given: Any) -> list[M]:
        """Return the messages of the last request, when limits are reached (`Request.wraps_up`).

        They are the whole conversation, what people have said since, and the instruction to end.
        Afterwards `is_taken_up` says whether an earlier life began this request.
        """
        self.is_taken_up = self._run.has_last_word
        if self.is_taken_up:
            return list(self.known)
        messages = await known_now(self._run, self._dialect) or self._dialect.prompt(given)
        self._run.tell_again(self._taken)
        if news := self.told():
            messages = [*messages, *self._dialect.prompt(news)]
        reached = ", ".join(self._run.limits_reached)
        return [*messages, *self._dialect.prompt(_LAST_WORD.format(reached=reached))]


async def known_before(run: AgentRun, dialect: Dialect[M]) -> list[M]:
    """Return the messages before a run.

    They come from its thread and, for a question aside, from the run that it is about. A child has
    none.
    """
    if run.is_child:
        return []
    known: list[M] = []
    for past in await run.earlier():
        known = dialect.mended(retold(known, past, dialect))
    source = await run.source() if run.is_aside else None
    return dialect.mended(retold(known, source, dialect)) if source else known


async def known_now(run: AgentRun, dialect: Dialect[M]) -> list[M]:
    """Return `known_before` and the messages of the run itself, each call with its fate.

    A last word uses it, because it comes after everything else.
    """
    known = await known_before(run, dialect)
    return dialect.mended(retold(known, await run.so_far(), dialect))


def retold(known: Sequence[M], past: PastRun, dialect: Dialect[M]) -> list[M]:
    """Return `known`, followed by a past run as messages."""
    if past.is_forgotten:
        return [*known, *dialect.prompt(_FORGOTTEN)]
    known = list(known)
    last: PastRequest | None = None
    for last in past.requests:
        apply_delta(known, last.new, dialect)
        if last.answer is not None:
            known += dialect.answer(last.answer)
    if last is None:
        turn = past.turn
        known += dialect.prompt(turn.input) if turn.input is not None else []
        words = [said.text for said in turn.said] or ([str(turn.result)] if turn.result else [])
        known += dialect.spoken("\n\n".join(words), was_cut=False) if words else []
    elif (end := past.kept(_end_after(last.key))) is not None:
        apply_delta(known, end, dialect)
        return known
    elif last.answer is None and past.keeps_partial and (shown := past.shown(last.key)):
        known += dialect.spoken(shown, was_cut=True)
    answered = last if last is not None and last.answer is not None else None
    return [*known, *dialect.closed(past, answered, past.remark)]


class _Delta(msgspec.Struct):
    keep: int
    new: msgspec.Raw


def delta(known: list[M], messages: Sequence[M], dialect: Dialect[M]) -> Json:
    """Return the new part of `messages` as the journal stores it. `known` becomes `messages`."""
    keep = 0
    for before, now in zip(known, messages, strict=False):
        if before is not now and before != now:
            break
        keep += 1
    new = list(messages[keep:])
    known[:] = messages
    return msgspec.Raw(msgspec.json.encode(_Delta(keep, msgspec.Raw(dialect.dump(new)))))


def apply_delta(known: list[M], stored: Json, dialect: Dialect[M]) -> None:
    """Change `known` to the messages of the request that stored this."""
    found = msgspec.json.decode(stored, type=_Delta)
    known[found.keep :] = dialect.load(bytes(found.new))


def _end_after(key: str) -> str:
    """Return the key of the messages that are kept after this answer, if it was the last.

    If a person has given an instruction since, it was not.
    """
    return f"messages-at-the-end-{key}"
