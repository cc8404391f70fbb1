"""What someone asks of a run. Imperative; may be refused. Who, why and when-seen travel with it."""

from typing import ClassVar, Final, Literal, TypeAlias, TypeVar

import msgspec

from pullcord.core.values import NULL, VALUE_MAX_BYTES, Json, check_id, check_text
from pullcord.errors import InvalidText, Unstorable

KEY_MAX_CHARS: Final = 200

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


class _Command(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"
):
    """Every command says who asks and why.

    `key` makes it safe to send again: the same key gets the same answer, for ever, and the same
    key with another body is rejected. `seen_seq` is the last record the asker had seen; if
    somebody has controlled the run since, it is rejected as stale instead of surprising anyone.
    """

    verb: ClassVar[str]

    by: str
    reason: str = ""
    source: Source = "person"
    via: str = ""  # the surface it came by, and how whoever asks was known there
    key: str | None = None
    seen_seq: int | None = None


class Pause(_Command, frozen=True, kw_only=True, tag="pause"):
    """I am coming back. Nothing new starts, what is under way finishes, context is kept."""

    verb = "pause"
    now: bool = False  # the second press: do not wait for what is under way, cut it


class Resume(_Command, frozen=True, kw_only=True, tag="resume"):
    """Go on from where it stopped, optionally with something new to know."""

    verb = "resume"
    instruction: str | None = None


class Redirect(_Command, frozen=True, kw_only=True, tag="redirect"):
    """I have new information. It is in the next thing the agent reads, exactly once."""

    verb = "redirect"
    instruction: str


class Answer(_Command, frozen=True, kw_only=True, tag="answer"):
    """The answer to an open question, an approval, or the end of a wait."""

    verb = "answer"
    question: str
    value: Json = NULL


class Approve(_Command, frozen=True, kw_only=True, tag="approve"):
    """Do exactly this call. `edited`: not this one; ask me again about one with these `args`."""

    verb = "approve"
    question: str
    edited: bool = False
    args: Json = NULL
    call: str = ""  # the digest of the call that was shown, if the asker knows it


class Deny(_Command, frozen=True, kw_only=True, tag="deny"):
    """Do not do this call. The reason is what the agent is told."""

    verb = "deny"
    question: str


class Cancel(_Command, frozen=True, kw_only=True, tag="cancel"):
    """Stop, keep what you have. No model or tool call is issued after this is acknowledged."""

    verb = "cancel"
    now: bool = False  # the second press: climb the ladder at once
    undo: bool = True
    keep_partial: bool = True
    quarantine: bool = False
    back_to: str = ""  # a step: what was done up to it is kept


class Settle(_Command, frozen=True, kw_only=True, tag="settle"):
    """I have dealt with this attention item. Possible also after the run has ended."""

    verb = "settle"
    item: str


class Undo(_Command, frozen=True, kw_only=True, tag="undo"):
    """Undo what a cancelled or failed run has left behind: all of it, one step, or what came
    after a step. Also the way to try an undo again that has failed."""

    verb = "undo"
    step: str = ""
    back_to: str = ""


class Raise(_Command, frozen=True, kw_only=True, tag="raise"):
    """It may use more: these caps instead of those it has. A run that was paused because it had
    reached one goes on."""

    verb = "raise"
    caps: dict[str, float]


class Signal(_Command, frozen=True, kw_only=True, tag="signal"):
    """What the condition `External(name)` of its limits waits for has happened."""

    verb = "signal"
    name: str


Command: TypeAlias = (
    Pause | Resume | Redirect | Answer | Approve | Deny | Cancel | Settle | Undo | Raise | Signal
)


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
    if isinstance(command, Answer | Approve | Deny):
        check_id(command.question, kind="question")
    if isinstance(command, Settle):
        check_id(command.item, kind="attention item")
    _check_shape(command)
    return command


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
