"""What someone asks of a run. Imperative; may be refused. Who, why and when-seen travel with it.

A command is the one source of its verb. Its route, the body of that, its words on the command line
and their help are made of it: the first line of its docstring says what it does, the lines after it
what may be relied upon, and those that begin with `pullcord` are examples.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from pullcord.core.values import NULL, VALUE_MAX_BYTES, Json, check_id, check_line, check_text
from pullcord.errors import InvalidInput, InvalidText, Unstorable

KEY_MAX_CHARS: Final = 200
TITLE_MAX_CHARS: Final = 100

Source: TypeAlias = Literal[
    "person",
    "operator",
    "limit",
    "guard",
    "watchdog",
    "shutdown",
    "parent",
    "clock",
    "policy",
    "kill_switch",
]
Right: TypeAlias = Literal["view", "stop", "control", "approve", "admin"]
Id: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


def _says(what: str) -> msgspec.Meta:
    """Say of a field what it means, on every surface where it can be said."""
    return msgspec.Meta(description=what)


class _Command(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"
):
    """Every command says who asks and why.

    `key` makes it safe to send again: the same key gets the same answer, for ever, and the same
    key with another body is rejected. `seen_seq` is the last record the asker had seen; if
    somebody has controlled the run since, it is rejected as stale instead of surprising anyone.
    """

    verb: ClassVar[str]
    right: ClassVar[Right] = "control"  # what whoever asks needs to have
    wider: ClassVar[tuple[tuple[str, Right], ...]] = ()  # fields that need more, if they are said
    done: ClassVar[str] = ""  # what is said of it in a terminal when it holds
    already: ClassVar[str] = ""  # and when it held before; empty: the state of the run says it

    by: str
    reason: str = ""
    source: Source = "person"
    via: str = ""  # the surface it came by, and how whoever asks was known there
    key: str | None = None
    seen_seq: int | None = None


class Pause(_Command, frozen=True, kw_only=True, tag="pause"):
    """Stop a run at its next checkpoint and keep everything it has done.

    Steps already begun are finished and recorded; no new step begins. The answer comes when the
    request is safely in the journal. Pausing a paused run does nothing and succeeds.

    pullcord pause 7f3a --reason "wrong repository" --wait
    """

    verb = "pause"
    right = "stop"

    now: Annotated[bool, _says("do not wait for steps that may be begun again")] = False


class Resume(_Command, frozen=True, kw_only=True, tag="resume"):
    """Go on with a run from where it stopped, context kept.

    INSTRUCTION is something new to know, as with redirect; - reads it from standard input.
    What was finished is not done again. If no living process drives the run it is driven
    right here, provided that it was started with `pullcord run`; --detach only records it.
    With --server it is the server that drives.

    pullcord resume 7f3a
    pullcord resume 7f3a "summarise and stop"
    """

    verb = "resume"
    right = "stop"
    wider = (("instruction", "control"),)

    instruction: Text | None = None


class Redirect(_Command, frozen=True, kw_only=True, tag="redirect"):
    """Give a run new information: it rewrites what comes next.

    If the run has a plan, its next item that has not begun is rewritten, shown as a diff.
    Otherwise the agent is handed the instruction the next time it asks. Delivered once, or
    returned; never lost. What the agent makes of it is its own. - reads INSTRUCTION from
    standard input.

    pullcord redirect 7f3a "score EU customers only"
    """

    verb = "redirect"

    instruction: Text


class Cancel(_Command, frozen=True, kw_only=True, tag="cancel"):
    """Stop a run for good and keep what it has done.

    From the record of the request on nothing starts, ever. What is under way is stopped, with
    all that it has started. What says how it is undone is undone, newest first. Finished work
    and partial text stay in the thread. With --wait, prints the receipt when the cancel is in
    effect. A run that is quarantined, and those of its children that still live, are shown to
    nobody; a child that had ended before stays readable: look at it, and forget it if it must
    go.

    pullcord cancel 7f3a --reason "too expensive" --wait
    """

    verb = "cancel"
    right = "stop"
    wider = (("quarantine", "control"),)

    now: Annotated[bool, _says("the second press: do not wait for the polite way")] = False
    undo: Annotated[bool, _says("undo what can be undone")] = True
    back_to: Annotated[str, _says("keep this step and what came before it")] = ""
    keep_partial: Annotated[bool, _says("keep partial text in the thread")] = True
    quarantine: Annotated[bool, _says("keep all of it only as evidence")] = False


class Answer(_Command, frozen=True, kw_only=True, tag="answer"):
    """Answer an open question of a run.

    VALUE is JSON, or else text; - reads it from standard input. Of several answers the first
    counts. A step in doubt is answered with happened, run or skip.

    pullcord answer 7f3a go-ade2 yes
    pullcord answer 7f3a doubt-charge-1f-1 happened
    """

    verb = "answer"
    done = "Answered {question} of {run}."

    question: Id
    value: Json = NULL


class Approve(_Command, frozen=True, kw_only=True, tag="approve"):
    """Allow one call of a run: the one that was shown, and no other.

    `pullcord approvals` shows it.

    pullcord approve 7f3a pay-403d
    """

    verb = "approve"
    right = "approve"
    done = "Approved {question} of {run}."

    question: Id
    call: Annotated[str, _says("the digest of the call that was shown")] = ""


class Edit(_Command, frozen=True, kw_only=True, tag="edit"):
    """Put other arguments in the place of those of a call that waits to be allowed.

    ARGS is JSON: an object; - reads it from standard input. Nothing is allowed by it: the run
    asks anew, about the call as it is then.

    pullcord edit 7f3a pay-403d '{"eur": 5}'
    """

    verb = "edit"
    right = "approve"
    done = "The tool is asked to take them. The call as it is then: pullcord approvals {run}"

    question: Id
    args: Json
    call: Annotated[str, _says("the digest of the call that was shown")] = ""


class Deny(_Command, frozen=True, kw_only=True, tag="deny"):
    """Do not allow a call of a run. The agent is told the reason and goes on.

    A call that was denied, or that nobody allowed in time, never begins.

    pullcord deny 7f3a pay-403d --reason "too much"
    """

    verb = "deny"
    right = "approve"
    done = "Denied {question} of {run}."

    question: Id


class Undo(_Command, frozen=True, kw_only=True, tag="undo"):
    """Undo what a cancelled or failed run has left behind; also to try it again.

    Newest first: all that says how it is undone, only STEP, or what came after --back-to.
    It is done right here if the run was started with `pullcord run`, or by a process that
    knows its agent; --detach only records it.

    pullcord undo 7f3a
    pullcord undo 7f3a draft-1f2e
    pullcord undo 7f3a --back-to a-1
    """

    verb = "undo"

    step: str = ""
    back_to: Annotated[str, _says("keep this step and what came before it")] = ""


class Settle(_Command, frozen=True, kw_only=True, tag="settle"):
    """Say that an attention item of a run is dealt with.

    It is taken from the list, and who said so is recorded. Nothing else is done. Possible
    also after the run has ended.

    pullcord settle 7f3a charge-1f2e
    """

    verb = "settle"
    done = "Settled {item} of {run}."

    item: Id


class Raise(_Command, frozen=True, kw_only=True, tag="raise"):
    """Let a run use more: other caps instead of those it has.

    A run that was paused because it had reached one of them goes on. CAP=VALUE: steps,
    tool_calls, tokens, usd, working_s, as far as its limits have them.

    pullcord raise 7f3a steps=80
    pullcord raise 7f3a usd=5 steps=200
    """

    verb = "raise"
    right = "approve"
    done = "Raised the limits of {run}."

    caps: dict[str, float]


class Signal(_Command, frozen=True, kw_only=True, tag="signal"):
    """Tell a run that what one of its limits waits for has happened: External(NAME).

    From then on that condition is true. A run whose limits do not have it refuses.

    pullcord signal 7f3a enough
    """

    verb = "signal"
    done = "Told {run}: {name}."

    name: Text


class Rename(_Command, frozen=True, kw_only=True, tag="rename"):
    """Give a run a title, by which people tell it from others.

    It stands beside the run wherever runs are shown, and nothing else changes. Possible also
    after the run has ended. An empty TITLE takes it away.

    pullcord rename 7f3a "churn in May, EU only"
    """

    verb = "rename"
    done = "Renamed {run}: “{title}”."
    already = "{run} has that title already."

    title: Annotated[str, msgspec.Meta(max_length=TITLE_MAX_CHARS, description="one line")]


Command: TypeAlias = (
    Pause
    | Resume
    | Redirect
    | Cancel
    | Answer
    | Approve
    | Edit
    | Deny
    | Undo
    | Settle
    | Raise
    | Signal
    | Rename
)
COMMANDS: Final[Mapping[str, type[Command]]] = {kind.verb: kind for kind in get_args(Command)}
"""Each command by its verb, in the order in which people are shown them."""
SIGNED: Final = _Command.__struct_fields__
"""The fields of every command: who asks, why and by which way."""


class Words(NamedTuple):
    """A command in words, as its docstring has them."""

    summary: str
    text: str
    examples: tuple[str, ...]


def words_of(kind: type[Command]) -> Words:
    """Return what people are told of a command: wherever it can be asked for, the same."""
    lines = [line.strip() for line in (kind.__doc__ or "").strip().splitlines()] or [""]
    examples = tuple(line for line in lines[1:] if line.startswith("pullcord "))
    text = "\n".join(line for line in lines[1:] if line not in examples)
    return Words(lines[0], text.strip(), examples)


class Forget(_Command, frozen=True, kw_only=True, tag="forget"):
    """Delete what was said and done in an ended run. That it ran, and its chain, are kept. No
    control: it changes nothing that happens, and has a way of its own through the ledger."""

    verb = "forget"
    drop_thread_name: bool = False  # list it under its own id: the thread's name tells of somebody


C = TypeVar("C", bound=Command | Forget)
_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Command | Forget)


def check_command(command: C) -> C:
    """Return `command` if everything in it can be stored, read back and shown.

    Raises:
        InvalidInput: names the field and what is wrong with it.
    """
    check_text(command.by, field="name of who asks (by)", empty=False)
    check_text(command.reason, field="reason")
    check_text(command.via, field="surface (via)")
    if command.key is not None:
        check_text(command.key, field="idempotency key", empty=False)
        if len(command.key) > KEY_MAX_CHARS:
            why = f"it has {len(command.key):,} characters, and {KEY_MAX_CHARS} are allowed"
            raise InvalidText("idempotency key", why=why)
    if isinstance(command, Redirect | Resume) and command.instruction is not None:
        check_text(command.instruction, field="instruction", empty=False)
    if isinstance(command, Answer | Approve | Edit | Deny):
        check_id(command.question, kind="question")
    if isinstance(command, Edit):
        _check_args(command.args)
    if isinstance(command, Settle):
        check_id(command.item, kind="attention item")
    if isinstance(command, Rename):
        check_line(command.title, field="title")
        if command.title != command.title.strip():
            raise InvalidText("title", why="it begins or ends with a space")
        if len(command.title) > TITLE_MAX_CHARS:
            why = f"it has {len(command.title):,} characters, and {TITLE_MAX_CHARS} are allowed"
            raise InvalidText("title", why=why)
    _check_shape(command)
    return command


def _check_args(args: Json) -> None:
    written = bytes(args).strip()
    if not written.startswith(b"{"):
        shown = written[:60].decode(errors="replace")
        raise InvalidInput(
            f"{shown} cannot be the arguments of a call: these are an object, each argument under "
            'its name, like {"eur": 5}. Nothing was changed.'
        )


def _check_shape(command: Command | Forget) -> None:
    """Python does not check the types of fields. A command that could not be read back would
    become an event that locks everybody out of its run."""
    try:
        encoded = _encode(command)
        encoded.decode()
        _decoder.decode(encoded)
    except (msgspec.DecodeError, UnicodeError, TypeError, OverflowError, RecursionError) as error:
        raise Unstorable(f"command {command.verb}", why=str(error)) from None
    if len(encoded) > VALUE_MAX_BYTES:
        why = f"it has {len(encoded):,} bytes, and {VALUE_MAX_BYTES:,} are allowed"
        raise Unstorable(f"command {command.verb}", why=why)
