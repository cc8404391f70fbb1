"""What is sent again under the same idempotency key: the same question, or another one."""

from hashlib import sha256

import msgspec

from pullcord.core.acks import Ack
from pullcord.core.commands import Command
from pullcord.journal.store import Head


def body_of(command: Command) -> bytes:
    """What is asked, without what may differ when it is sent again."""
    asked = msgspec.structs.replace(command, key=None, seen_seq=None, via="")
    return sha256(msgspec.json.encode(asked)).digest()


def key_reused(head: Head, command: Command) -> Ack:
    return Ack(
        verdict="rejected",
        seq=head.seq,
        state=head.state,
        reason="key_reused",
        message=f"Cannot {command.verb} run {head.run_id}: the idempotency key {command.key!r} was "
        "used before for something else. Nothing was changed. Send it with a new key.",
    )
