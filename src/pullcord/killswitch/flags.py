"""The kill switch: files beside the store whose existence counts.

`STORE.kill-switch` stops everything, `STORE.kill-switches/agent.NAME` and `…/thread.ID` only that.
A full disk cannot keep a file from being seen, and what cannot be looked at counts as raised. What
is written into one is for people; one that somebody has touched by hand counts as much.
"""

import errno
import os
import time
from contextlib import suppress
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

Note: TypeAlias = dict[str, str]
Whose: TypeAlias = tuple[str, str]
"""By what the switch knows a run: an agent and a thread, its own or of one that it works for."""
_NAME_BYTES_MAX: Final = 240
_LINE_CHARS_MAX: Final = 500
_NOTE_CHARS_MAX: Final = 64 * 1024
_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_. ")
KINDS: Final = ("agent", "thread")


class Scope(NamedTuple):
    """What is stopped: everything, an agent's runs, or a thread's."""

    kind: str = ""  # empty: everything
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.kind else "everything"


class Flag(NamedTuple):
    """One that is raised: by whom, when and why, as far as that is known."""

    scope: Scope
    id: str
    by: str
    reason: str
    via: str
    at_ms: int

    def said(self) -> str:
        """That it is raised, in a sentence without an end."""
        what = "" if not self.scope.kind else f" for {self.scope}"
        why = f": {self.reason}" if self.reason else ""
        return f"the kill switch is engaged{what} (by {self.by}{why})"


class Flags:
    """The switch of one store. No store that is kept in memory has one: an empty path."""

    def __init__(self, store: str) -> None:
        self._main = f"{store}.kill-switch" if store else ""
        self._folder = f"{store}.kill-switches" if store else ""

    def __bool__(self) -> bool:
        return bool(self._main)

    def refusal(self, *whose: Whose) -> str:
        """Why nothing may start for these. Empty: it may."""
        flag = self.covers(*whose)
        return flag.said() if flag else ""

    def is_any_raised(self) -> bool:
        return bool(self._main) and (is_raised(self._main) or bool(self._scoped()))

    def raised(self) -> list[Flag]:
        """All that are raised, the widest first."""
        if not self._main:
            return []
        main = [self.read(Scope())] if is_raised(self._main) else []
        return main + [self.read(scope) for scope in self._scoped()]

    def covers(self, *whose: Whose) -> Flag | None:
        """The raised one that stops one of these. Asked before every start."""
        if not self._main:
            return None
        if is_raised(self._main):
            return self.read(Scope())
        if is_raised(self._folder):
            named = ((Scope("agent", agent), Scope("thread", thread)) for agent, thread in whose)
            for scope in (scope for both in named for scope in both):
                if is_raised(self.path(scope)):
                    return self.read(scope)
        return None

    def path(self, scope: Scope) -> str:
        """Where its file is. A name that is too long for one stands there as its digest."""
        if not scope.kind:
            return self._main
        name = _as_file_name(scope.name)
        if len(name) > _NAME_BYTES_MAX:
            name = f"%~{sha256(scope.name.encode()).hexdigest()}"
        return f"{self._folder}/{scope.kind}.{name}"

    def raise_it(self, scope: Scope, note: Note) -> bool:
        """Raise the flag, durably as far as the disk lets it. False: it was raised before.

        Raises:
            OSError: it could not be, and is not.
        """
        path = self.path(scope)
        if scope.kind:
            with suppress(FileExistsError):
                os.mkdir(self._folder)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        try:
            with suppress(OSError):  # the disk is full: that it is there is enough
                os.write(file, _as_lines({**note, "name": scope.name}))
                os.fsync(file)
        finally:
            os.close(file)
        _sync(os.path.dirname(path))
        return True

    def lower(self, scope: Scope) -> bool:
        """Take the flag away. False: there was none.

        Raises:
            OSError: it is still there.
        """
        path = self.path(scope)
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        _sync(os.path.dirname(path))
        return True

    def read(self, scope: Scope) -> Flag:
        """What is known of one, whatever is in its file."""
        path, at_ms, owner = self.path(scope), 0, "?"
        with suppress(OSError):
            found = os.lstat(path)
            at_ms, owner = found.st_mtime_ns // 1_000_000, str(found.st_uid)
        note = _read(path)
        said_ms = note.get("at_ms", "")
        return Flag(
            scope,
            note.get("id") or f"touched-{at_ms}",
            note.get("by") or f"whoever made its file, user {owner}",
            note.get("reason", ""),
            note.get("via") or "file",
            int(said_ms) if said_ms.isdecimal() and len(said_ms) < 16 else at_ms,
        )

    def _scoped(self) -> list[Scope]:
        try:
            names = sorted(os.listdir(self._folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            return [Scope(kind, "(which of them cannot be read)") for kind in KINDS]
        split = [name.partition(".") for name in names]
        return [Scope(kind, self._named(kind, n)) for kind, _, n in split if kind in KINDS and n]

    def _named(self, kind: str, name: str) -> str:
        """The name behind that of a file."""
        if not name.startswith("%~"):
            return _from_file_name(name)
        return str(_read(f"{self._folder}/{kind}.{name}").get("name") or name)


def is_raised(path: str) -> bool:
    """Whether it is there, or may be."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG  # then it cannot be there
    return True


def _as_lines(note: Note) -> bytes:
    """What is in a flag: a word and what it says, one a line."""
    return "".join(f"{word}: {_line(said)}\n" for word, said in note.items()).encode()


def _line(said: str) -> str:
    """Text from, or for, a file that anybody may have written."""
    return "".join(letter for letter in said[:_LINE_CHARS_MAX] if letter.isprintable()).strip()


def _read(path: str) -> Note:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        split = [line.partition(":") for line in file.read(_NOTE_CHARS_MAX).splitlines()]
        return {word.strip(): _line(said) for word, _, said in split}
    return {}


def _as_file_name(name: str) -> str:
    return "".join(
        chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}"
        for byte in name.encode(errors="replace")
    )


def _from_file_name(name: str) -> str:
    first, *coded = name.split("%")
    try:
        rest = b"".join(bytes.fromhex(one[:2]) + one[2:].encode() for one in coded)
        return (first.encode() + rest).decode()
    except ValueError:  # somebody has made it by hand
        return name


def new_note(*, by: str, reason: str, via: str) -> Note:
    """What is written into a flag."""
    id = os.urandom(8).hex()
    return {
        "id": id,
        "by": by,
        "reason": reason,
        "via": via,
        "at_ms": str(time.time_ns() // 1_000_000),
    }


def _sync(folder: str) -> None:
    with suppress(OSError):
        opened = os.open(folder or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
