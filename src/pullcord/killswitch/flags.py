"""The kill switch: files beside the store whose existence counts.

`STORE.kill-switch` stops everything, `STORE.kill-switches/agent.NAME` and `…/thread.ID` only that.
A full disk cannot keep a file from being seen, and what cannot be looked at counts as raised. What
is written into one is for people; one that somebody has touched by hand counts as much, and so does
anything else of that name. The warden and write transactions ask `refusal`, which reads nothing.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from pullcord.regular_file import first_bytes

Note: TypeAlias = dict[str, str]
Whose: TypeAlias = tuple[str, str]
"""By what the switch knows a run: an agent and a thread, its own or of one that it works for."""
_NAME_BYTES_MAX: Final = 240
_LINE_CHARS_MAX: Final = 500
_NOTE_BYTES_MAX: Final = 64 * 1024
_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_. ")
KINDS: Final = ("agent", "thread")
_WHICH: Final = "(which of them cannot be read)"
_ENGAGED: Final = "the kill switch is engaged"


class Scope(NamedTuple):
    """What is stopped: everything, an agent's runs, or a thread's."""

    kind: str = ""  # empty: everything
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.kind else "everything"

    def said(self) -> str:
        """That the switch is engaged for it, in a sentence without an end."""
        return f"the kill switch is engaged for {self}" if self.kind else _ENGAGED


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
        why = f": {self.reason}" if self.reason else ""
        return f"{self.scope.said()} (by {self.by}{why})"


class Raised:
    """All flags that were raised at one look, the widest first, with what is written into them."""

    def __init__(self, flags: tuple[Flag, ...] = (), files: tuple[str, ...] = ()) -> None:
        """`files`: the name of the file of each; empty: it holds everybody."""
        self.flags = flags
        self._by_file = dict(reversed(list(zip(files, flags, strict=True))))

    def __bool__(self) -> bool:
        return bool(self.flags)

    def over(self, *whose: Whose) -> Flag | None:
        """The one that stops one of these."""
        if everybodys := self._by_file.get(""):
            return everybodys
        if self.flags:
            for name in _files_of(whose):
                if flag := self._by_file.get(name):
                    return flag
        return None

    def told(self, said: str) -> str:
        """A sentence in which a scope says that the switch is engaged, with by whom and why."""
        for flag in reversed(self.flags):  # that for everything last: the others say it too
            if flag.scope.said() in said:
                return said.replace(flag.scope.said(), flag.said(), 1)
        return said


class Flags:
    """The switch of one store. No store that is kept in memory has one: an empty path."""

    def __init__(self, store: str) -> None:
        self.store = store
        self._main = f"{store}.kill-switch" if store else ""
        self._folder = f"{store}.kill-switches" if store else ""

    def __bool__(self) -> bool:
        return bool(self._main)

    def refusal(self, *whose: Whose) -> str:
        """Why nothing may start for these. Empty: it may. Asked before every start, by the warden
        and inside transactions: that a file is there counts, and nothing is read."""
        scope = self.over(*whose)
        return scope.said() if scope else ""

    def over(self, *whose: Whose) -> Scope | None:
        """For what the switch is engaged that stops one of these. Reads nothing."""
        if not self._main:
            return None
        if is_raised(self._main):
            return Scope()
        if is_raised(self._folder):
            if not self._is_folder():
                return Scope(KINDS[0], _WHICH)
            named = ((Scope("agent", agent), Scope("thread", thread)) for agent, thread in whose)
            for scope in (scope for both in named for scope in both):
                if is_raised(self.path(scope)):
                    return scope
        return None

    def is_any_raised(self) -> bool:
        """Whether anything is stopped. Reads nothing."""
        if not self._main:
            return False
        return is_raised(self._main) or self._files() != []

    def look(self) -> Raised:
        """All that are raised, with what is written into them, for people."""
        if not self._main:
            return Raised()
        found = [("", self.read(Scope()))] if is_raised(self._main) else []
        files = self._files()
        if files is None:
            found += [("", self.read(Scope(kind, _WHICH))) for kind in KINDS]
        else:
            found += [(name, self._read_file(name)) for name in files]
        return Raised(tuple(flag for _, flag in found), tuple(name for name, _ in found))

    def raised(self) -> list[Flag]:
        """All that are raised, the widest first."""
        return list(self.look().flags)

    def path(self, scope: Scope) -> str:
        """Where its file is. A name that is too long for one stands there as its digest."""
        if not scope.kind:
            return self._main
        return f"{self._folder}/{_file_of(scope)}"

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
        return _flag(scope, self.path(scope), _read(self.path(scope)))

    def _read_file(self, name: str) -> Flag:
        """The flag in a file of the folder."""
        path = f"{self._folder}/{name}"
        note = _read(path)
        kind, _, coded = name.partition(".")
        named = note.get("name") or coded if coded.startswith("%~") else _from_file_name(coded)
        return _flag(Scope(kind, named), path, note)

    def _files(self) -> list[str] | None:
        """The files of what is stopped in part. None: they cannot be listed, so all may be."""
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return None if is_raised(self._folder) else []  # a link that leads nowhere
        except OSError:
            return None
        split = {name: name.partition(".") for name in names}
        return [name for name, (kind, _, rest) in split.items() if kind in KINDS and rest]

    def _is_folder(self) -> bool:
        """Whether one can look into it."""
        try:
            return stat.S_ISDIR(os.stat(self._folder).st_mode)
        except OSError:
            return False


def _flag(scope: Scope, path: str, note: Note) -> Flag:
    at_ms, owner = 0, "?"
    with suppress(OSError):
        found = os.lstat(path)
        at_ms, owner = found.st_mtime_ns // 1_000_000, str(found.st_uid)
    said_ms = note.get("at_ms", "")
    return Flag(
        scope,
        note.get("id") or f"touched-{at_ms}",
        note.get("by") or f"whoever made its file, user {owner}",
        note.get("reason", ""),
        note.get("via") or "file",
        int(said_ms) if said_ms.isdecimal() and len(said_ms) < 16 else at_ms,
    )


def _file_of(scope: Scope) -> str:
    """The name of its file in the folder: its own, coded; or its digest, if that is too long."""
    name = _as_file_name(scope.name)
    if len(name) > _NAME_BYTES_MAX:
        name = f"%~{sha256(scope.name.encode()).hexdigest()}"
    return f"{scope.kind}.{name}"


def _files_of(whose: Sequence[Whose]) -> Iterator[str]:
    for agent, thread in whose:
        yield _file_of(Scope("agent", agent))
        yield _file_of(Scope("thread", thread))


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
    with suppress(OSError):
        text = first_bytes(path, _NOTE_BYTES_MAX).decode(errors="replace")
        split = [line.partition(":") for line in text.splitlines()]
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
        opened = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
