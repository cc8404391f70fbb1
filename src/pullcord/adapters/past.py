"""Reads a run from its records: its model requests, and the fate of each call."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from pullcord.core.events import Forgotten, Record
from pullcord.core.fold import replay
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.values import Json
from pullcord.runtime.doors.child_runs import child_of
from pullcord.runtime.doors.model_request import STEP, key_of, shown_before
from pullcord.runtime.doors.thread_history import Turn, turn_of
from pullcord.runtime.steps.identity import Scope, named
from pullcord.runtime.steps.memory import Memory

_LET_DIE: Final = "Do not go on with it unless you are asked to."


class PastRequest(msgspec.Struct, frozen=True):
    """A model request that began: `new` is its stored part, `answer` the model's answer."""

    key: str
    new: Json
    answer: Json | None = None


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """The fate of a call, for a model: its result, or words that say why there is none.

    `is_error`: the model hears of it as an error. `raised`: the tool's own error, in words.
    """

    outcome: Literal["completed", "failed", "denied", "not_started", "interrupted", "unknown"]
    words: str = ""
    result: Json | None = None
    is_error: bool = False
    raised: str = ""

    @property
    def text(self) -> str:
        """The outcome, followed by the words that explain it."""
        return f"{self.outcome}: {self.words}"


class PastRun:
    """A run on the thread before this one, or this one so far.

    `says`: the live text of each part, for a run that goes on.
    """

    def __init__(self, records: Sequence[Record], *, says: dict[str, str] | None = None) -> None:
        self._records = records
        self.is_forgotten = isinstance(records[0].event, Forgotten)
        self._run = Run(id=records[0].run_id) if self.is_forgotten else self._replayed()
        self._memory = Memory.of(records)
        self._memory.texts |= {part: (text, False) for part, text in (says or {}).items()}
        self._goes_on = says is not None

    def _replayed(self) -> Run:
        return replay(self._records[0].run_id, self._records)

    @property
    def turn(self) -> Turn:
        """Its input, its words, its actions and its result."""
        return turn_of(self._run, self._records)

    @property
    def requests(self) -> "Sequence[PastRequest]":
        """The model requests that it began, in order."""
        return requests_in(self._memory)

    @property
    def keeps_partial(self) -> bool:
        """Whether cut text belongs to the thread. A cancel may have dropped it."""
        return self._run.cancel is None or self._run.cancel.keep_partial

    def kept(self, key: str) -> Json | None:
        """Return the value that it kept under this key, or None."""
        return self._memory.values.get(key)

    def shown(self, key: str) -> str:
        """Return the text that people saw of a cut answer."""
        return shown_before(self._memory, key)

    def step_id(self, readable: str, *parts: object) -> str:
        """Return the id that `AgentRun.step_id` made of these parts in that run."""
        return named(self._memory.ids, readable, *parts)

    def fate(self, *steps: str, question: str = "", spawned: str = "") -> Fate:
        """Return the fate of the first of these steps that began or was refused.

        If there is none, return `fate_elsewhere`.
        """
        run, memory = self._run, self._memory
        step = next((one for one in steps if one in memory.steps or one in memory.refused), "")
        past, known = memory.steps.get(step), run.steps.get(step)
        if refused := memory.refused.get(step):
            is_error = refused.outcome != "denied"
            return Fate(outcome=refused.outcome, words=refused.why, is_error=is_error)
        if past is None or known is None or not known.began:
            return self.fate_elsewhere(question=question, spawned=spawned)
        if past.status == "started" and not run.ended:
            return Fate(outcome="unknown", words="it is still under way.")
        if known.undo == "undone":
            words = "and it was undone when the run was cancelled."
            return Fate(outcome="completed", words=words, is_error=True)
        if past.status == "finished":
            return Fate(outcome="completed", result=past.result)
        if past.status == "failed":
            return Fate(outcome="failed", words=past.error, is_error=True, raised=past.error)
        if past.late is not None:
            return Fate(outcome="completed", result=past.late)
        if past.status == "interrupted":
            words = "it was stopped; it may have done a part of its work."
            return Fate(outcome="interrupted", words=words)
        return Fate(outcome="unknown", words="nobody knows whether it happened.")

    def fate_elsewhere(self, *, question: str = "", spawned: str = "") -> Fate:
        """Return the fate of a call that is not a step.

        It was a question to people outside, or it started a run (`spawned` is the key of that), or
        it never began.
        """
        memory = self._memory
        asked = [n for n in self._run.questions if n == question or n.startswith(f"{question}-")]
        if question and (named := [name for name in asked if name in memory.answers]):
            return Fate(outcome="completed", result=memory.answers[named[-1]])
        if question and asked:
            words = "it was to be done elsewhere, and nobody has said what became of it."
            return Fate(outcome="unknown", words=words)
        for child, agent in memory.born.items():
            if spawned and child == child_of(self._run.id, agent, spawned, Scope(ids=memory.ids)):
                return _fate_of_child(memory.children[child])
        return Fate(outcome="not_started", words="the run was stopped before this call.")

    @property
    def remark(self) -> str:
        """The remark about its end. Empty: it completed, or goes on."""
        run = self._run
        if run.state is RunState.COMPLETED or self._goes_on:
            return ""
        if run.cancel is not None:
            why = f" ({run.cancel.reason})" if run.cancel.reason else ""
            undone = [step.name for step in run.steps.values() if step.undo == "undone"]
            gone = f" What these had done was undone: {', '.join(undone)}." if undone else ""
            return f"[The turn above was stopped by {run.cancel.by}{why}.{gone} {_LET_DIE}]"
        if run.state is RunState.STOPPED and run.reached is not None:
            return f"[The turn above was ended by its limits: {', '.join(run.reached.leaves)}.]"
        if run.state is RunState.FAILED:
            return f"[The turn above ended with an error: {run.error}]"
        return ""


def _fate_of_child(state: str) -> Fate:
    match state:
        case RunState.COMPLETED:
            words = "it was done, but the run was stopped before its answer was read."
            return Fate(outcome="completed", words=words)
        case RunState.FAILED:
            return Fate(outcome="failed", words="it ended with an error.")
        case _:
            words = "it was stopped; it may have done a part of its work."
            return Fate(outcome="interrupted", words=words)


def requests_in(memory: Memory) -> list[PastRequest]:
    """Return the model requests that a run began, in order."""
    return [
        PastRequest(key_of(step), past.args, past.result if past.status == "finished" else None)
        for step, past in memory.steps.items()
        if past.name == "model" and step.startswith(STEP)
    ]
