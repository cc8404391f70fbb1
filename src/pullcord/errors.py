"""Every error a caller can meet. Classes split on what the caller can do about it.

PullcordError
├── InvalidInput           what was handed in cannot be used; correct it and call again
│   ├── FamilyTooDeep      too many runs work for one another in one line
│   ├── InvalidId          not the shape of an id
│   ├── InvalidText        text that cannot be stored or shown
│   ├── Unstorable         a value that JSON cannot carry faithfully
│   └── SecretUnknown      a call names a secret that it cannot be given
├── RunNotFound            no run has this id
├── ThreadBusy             a run on this thread is still living: redirect it, queue, or wait
├── KillSwitchEngaged      nothing may start until somebody releases the switch
├── KillSwitchFailed       the switch could not be moved; the message says what is true now
├── AgentUnknown           this runtime was not given such an agent
├── NotEntered             a runtime was used and never entered: its store is not open
├── StartedInTool          a program has started itself in the process of one of its tools
├── NotReached             the run ended, and never came to the state waited for
├── RunFailed              the agent raised: its result cannot be had
├── RunCancelled           the run was cancelled: its result cannot be had
├── RunStopped             a limit ended the run before it had a result
├── RunForgotten           what was said and done in the run was deleted, on purpose
├── BudgetBusy             what is left of a shared budget is set aside for calls under way
├── ServerRefused          a server does not let this through, or is none of ours; nothing was done
├── ServerLost             no answer from a server: look whether it was done before trying again
├── StepError              a step raised; the same again whenever the agent is entered anew
│   └── NotDone            a tool call was denied, not started, or stopped
│       └── OutOfLimits    it was not started because a limit of the run is reached
└── JournalError
    ├── Conflict           another writer moved the run first: read it again, decide again
    ├── Fenced             this owner has lost the run: abandon it, write nothing more
    ├── ImpossibleEvent    the state table does not allow it: a bug in the caller
    ├── StorageFailed      disk full, I/O error, locked out: not acknowledged, try again later
    ├── StoreRefused       this file cannot serve as a store; the message says what to do
    ├── FormatUnknown      written by a newer build: upgrade before touching this run
    ├── ChainBroken        a record does not follow from the one before: keep the file as evidence
    └── JournalClosed      used after it was closed

A control that comes too late or is not allowed is not an error: it is an `Ack` that says so.
`Interrupted` is not an error either: it unwinds an agent, and no `except Exception` may stop it.
"""

from collections.abc import Iterable, Sequence
from typing import Literal


class Interrupted(BaseException):
    """The agent is being unwound: cancelled, parked, or given back. Let it pass; clean up only.

    Nothing is lost by it: whatever may still be done is done by whoever enters the agent again.
    """


class PullcordError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidInput(PullcordError):
    """What was handed in cannot be used. Nothing was changed."""


class InvalidId(InvalidInput):
    """Not the shape of an id. Nothing was looked up."""

    def __init__(self, value: object, *, kind: str) -> None:
        self.value, self.kind = value, kind
        shown = repr(value)
        one = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} id"
        super().__init__(
            f"{shown if len(shown) <= 80 else shown[:77] + '...'} is not {one}: "
            "ids are 1 to 64 letters, digits, '-' and '_', and begin with a letter or digit. "
            "Nothing was looked up."
        )


class InvalidText(InvalidInput):
    """Text that cannot be stored faithfully or shown safely. Nothing was changed."""

    def __init__(self, field: str, *, why: str) -> None:
        self.field, self.why = field, why
        super().__init__(f"The {field} cannot be used: {why}. Nothing was changed.")


class Unstorable(InvalidInput):
    """A value that JSON cannot carry faithfully. Nothing was written."""

    def __init__(self, path: str, *, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"The value at {path} cannot be stored: {why}. Nothing was written.")


class SecretUnknown(InvalidInput):
    """A call names a secret that it cannot be given. Nothing of it was begun."""

    def __init__(self, secret: str, *, tool: str, why: str) -> None:
        self.secret, self.tool = secret, tool
        called = f"{tool!r} was not called" if tool else "It was not done"
        super().__init__(
            f"{called}: it needs the secret {secret!r}, and {why}. Nothing of it was begun. Open "
            f"the store with secrets={{{secret!r}: ...}}."
        )


class RunNotFound(PullcordError):
    """No run has this id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"There is no run {run_id} in this store. "
            "Check that the store is the one the run was started in."
        )


class FamilyTooDeep(InvalidInput):
    """Too many runs work for one another in one line. Nothing was started."""

    def __init__(self, parent: str, *, depth: int) -> None:
        super().__init__(
            f"Cannot start a run under {parent}: it would be the {depth + 1:,}th below its root, "
            f"and {depth:,} are allowed. Nothing was started. Agents that start themselves again "
            "need an end; or start it detached=True, as a root of its own."
        )


class ThreadBusy(PullcordError):
    """A run on this thread is still living. Nothing was started."""

    def __init__(self, thread: str, *, run_id: str, state: str) -> None:
        self.thread, self.run_id, self.state = thread, run_id, state
        super().__init__(
            f"Cannot start a run on thread {thread}: run {run_id} on it is {state}. Nothing was "
            f'started. Tell that run (if_busy="redirect", or pullcord redirect {run_id} TEXT), '
            f'start after it (if_busy="queue"), or end it: pullcord cancel {run_id}'
        )


class KillSwitchEngaged(PullcordError):
    """Nothing may start. Nothing was started."""

    def __init__(self, said: str) -> None:
        self.said = said
        super().__init__(
            f"Nothing was started: {said}. Somebody has to release it first: "
            "pullcord kill-switch release"
        )


class KillSwitchFailed(PullcordError):
    """The switch could not be moved: it is where it was."""

    def __init__(self, what: str, *, path: str, why: str | None, now: str) -> None:
        super().__init__(f"The kill switch could not be {what}: {path}: {why}. {now}")


class AgentUnknown(PullcordError):
    """This runtime was not given such an agent. Nothing was started."""

    def __init__(self, agent: str, *, known: Iterable[str]) -> None:
        self.agent = agent
        names = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"Nobody here knows the agent {agent}; this runtime was given: {names}. Nothing was "
            f"started. Open it with agents={{{agent!r}: ...}}."
        )


class NotEntered(PullcordError):
    """A runtime was used and never entered. Nothing was started."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"Cannot {what}: this runtime was never entered, so its store is not open and nothing "
            "drives its runs. Nothing was started. Use it inside: async with runtime: ... (in a "
            "web app, in its lifespan)"
        )


class StartedInTool(PullcordError):
    """A runtime was used in the process of a tool. Nothing was started."""

    def __init__(self, *, imports: str) -> None:
        self.imports = imports
        if imports:
            why = f"the tool's process imports {imports}, and that starts the program again"
            instead = (
                "Start it only where it is run itself: "
                'if __name__ == "__main__": asyncio.run(main())'
            )
        else:
            why = "what it started would end with the tool"
            instead = "Do it in the agent; or declare run_in='thread', which cannot be stopped."
        super().__init__(
            f"A runtime cannot be used in the process of a tool: {why}. Nothing was started. "
            f"{instead}"
        )


class NotReached(PullcordError):
    """The run ended and never came to the state that was waited for."""

    def __init__(self, run_id: str, *, wanted: str, state: str) -> None:
        self.run_id, self.wanted, self.state = run_id, wanted, state
        super().__init__(
            f"Run {run_id} is not {wanted} and never will be: it is {state}. "
            f"See what it has done: pullcord receipt {run_id}"
        )


class RunFailed(PullcordError):
    """The agent raised. What it had finished is kept."""

    def __init__(self, run_id: str, *, error: str) -> None:
        self.run_id, self.error = run_id, error
        super().__init__(
            f"Run {run_id} failed: {error.removesuffix('.')}. What it had finished is kept. "
            f"Try again from there: pullcord fork {run_id}"
        )


class RunCancelled(PullcordError):
    """The run was cancelled. What it had finished is kept."""

    def __init__(self, run_id: str, *, by: str, reason: str) -> None:
        self.run_id, self.by, self.reason = run_id, by, reason
        super().__init__(
            f"Run {run_id} was cancelled by {by} ({reason or 'no reason given'}). What it had "
            f"finished is kept. See what that is: pullcord receipt {run_id}"
        )


class RunStopped(PullcordError):
    """A limit ended the run before it had a result. What it had finished is kept."""

    def __init__(self, run_id: str, *, leaves: Sequence[str]) -> None:
        self.run_id, self.leaves = run_id, tuple(leaves)
        super().__init__(
            f"Run {run_id} was stopped by its limits: {', '.join(leaves)}. What it had finished is "
            f"kept. Go on from there with more: pullcord fork {run_id} --limit ..."
        )


class RunForgotten(PullcordError):
    """What was said and done in the run was deleted on purpose. Nothing can go on from it."""

    def __init__(self, run_id: str, *, deleted: str, what: str) -> None:
        self.run_id, self.deleted = run_id, deleted
        super().__init__(
            f"Cannot {what} run {run_id}: its {deleted}. Nothing was changed. That it ran, and how "
            f"it ended, is kept: pullcord show {run_id}"
        )


class StepError(PullcordError):
    """A step raised. The first time `__cause__` is what it raised; later only the words remain.

    `happened`: `yes`, it had its effect, and only its result cannot be kept; `maybe`, it took too
    long, or its process vanished, and may have had it. Trying that again may do it twice. `at`:
    where in a sync tool's own code it was raised, if that is known.
    """

    def __init__(
        self, step: str, *, error: str, at: str = "", happened: Literal["", "yes", "maybe"] = ""
    ) -> None:
        self.step, self.error, self.at, self.happened = step, error, at, happened
        super().__init__(f"Step {step!r} failed: {error}" + (f" ({at})" if at else ""))


class NotDone(StepError):
    """A tool call that did not run to its end. `outcome` is one of the truths a model is told:

    `denied`: somebody said no. `not_started`: it never began. `interrupted`: it began, and was
    stopped. `unknown`: it began, and nobody knows.
    """

    def __init__(
        self,
        step: str,
        *,
        outcome: Literal["denied", "not_started", "interrupted", "unknown"],
        why: str,
    ) -> None:
        self.outcome, self.why = outcome, why
        super().__init__(step, error=f"{outcome.replace('_', ' ')}: {why}")


class OutOfLimits(NotDone):
    """A limit of the run is reached. Nothing more begins: return what there is."""

    def __init__(self, step: str, *, leaves: Sequence[str]) -> None:
        self.leaves = tuple(leaves)
        why = f"a limit of the run is reached: {', '.join(leaves)}"
        super().__init__(step, outcome="not_started", why=why)


class JournalError(PullcordError):
    """The journal could not do what was asked. The message says what is true now."""


class Conflict(JournalError):
    """Another writer moved the run first. Nothing was written."""

    def __init__(self, run_id: str, *, expected_seq: int, actual_seq: int) -> None:
        self.run_id, self.expected_seq, self.actual_seq = run_id, expected_seq, actual_seq
        super().__init__(
            f"Run {run_id} moved on: its journal ends at {actual_seq}, not at {expected_seq}. "
            "Nothing was written. Read the run again and decide again."
        )


class Fenced(JournalError):
    """This owner has lost the run. Nothing was written, and it must write nothing more."""

    def __init__(self, run_id: str, *, epoch: int | None, current_epoch: int, why: str) -> None:
        self.run_id, self.epoch, self.current_epoch = run_id, epoch, current_epoch
        held = "no epoch" if epoch is None else f"epoch {epoch}"
        super().__init__(
            f"Cannot write to run {run_id} with {held}: {why} (the run is at epoch "
            f"{current_epoch}). Nothing was written. Abandon the run; whoever owns it goes on."
        )


class BudgetBusy(PullcordError):
    """What is left of a shared budget is set aside for calls that are under way. Try again."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"Run {run_id} has to wait: what is left of its budget is set aside for calls that are "
            "under way. Nothing was changed. It goes on when they have ended."
        )


class ServerRefused(PullcordError):
    """A server does not let this through, or is not one of ours. Nothing was changed."""


class ServerLost(PullcordError):
    """A server could not be reached, or did not answer. What was asked of it may have been done."""

    def __init__(self, url: str, *, why: str, changes: bool) -> None:
        self.url, self.why = url, why
        maybe = " If it was reached, it may have been done: look before you try again."
        super().__init__(
            f"No answer from {url}: {why}.{maybe if changes else ''} Runs go on as they are; they "
            "do not depend on this connection."
        )


class ImpossibleEvent(JournalError):
    """An event that cannot follow from the run's state. Nothing was written."""

    def __init__(self, run_id: str, *, event: str, why: str) -> None:
        self.run_id, self.event, self.why = run_id, event, why
        super().__init__(
            f"'{event}' cannot happen to run {run_id}: {why}. Nothing was written. "
            "Decide from the run as it is now (pullcord.core.fold)."
        )


class StorageFailed(JournalError):
    """The storage below did not take the write. Nothing in it is acknowledged."""

    def __init__(self, what: str, *, path: str, why: str, instead: str) -> None:
        self.path, self.why = path, why
        super().__init__(
            f"{what} {path} failed: {why}. It is not acknowledged; everything acknowledged "
            f"before is safe. {instead}"
        )


class StoreRefused(JournalError):
    """This path cannot serve as a store. The file was not changed."""

    def __init__(self, path: str, *, why: str, instead: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"Cannot use {path} as a store: {why}. It was not changed. {instead}")


class FormatUnknown(JournalError):
    """A record this build does not know. The run is not claimed or changed by this build."""

    def __init__(self, what: str, *, found: str, known: str) -> None:
        self.what, self.found, self.known = what, found, known
        super().__init__(
            f"{what} has {found}, and this build knows only {known}. A newer pullcord wrote it. "
            "Nothing was changed. Upgrade pullcord here, or use the build that wrote it."
        )


class ChainBroken(JournalError):
    """A record is missing, changed or out of place. Nothing was changed."""

    def __init__(self, run_id: str, *, seq: int, why: str) -> None:
        self.run_id, self.seq, self.why = run_id, seq, why
        super().__init__(
            f"The journal of run {run_id} is damaged at record {seq}: {why}. Nothing was changed. "
            "Keep the file as evidence and restore the store from a copy."
        )


class JournalClosed(JournalError):
    """The journal was closed. Nothing was written."""

    def __init__(self) -> None:
        super().__init__("This journal is closed. Nothing was written. Open it again.")
