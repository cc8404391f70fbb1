"""Whether a path can be our SQLite file: looked at before anything in it is changed."""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import apsw

from pullcord.errors import FormatUnknown, JournalError, StorageFailed, StoreRefused
from pullcord.journal.sqlite.schema import APPLICATION_ID
from pullcord.journal.sqlite.turnstile import locks_hold

PRAGMAS: Final = (
    ("synchronous", 2),
    ("foreign_keys", 0),
    ("trusted_schema", 0),
    ("secure_delete", 1),  # what is deleted is overwritten: see `SqliteStore.scrub`
)
_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "sshfs"})
_MAGIC: Final = b"SQLite format 3\0"
_VERSION_AT, _APPLICATION_AT = 60, 68  # in a SQLite file's header, most significant byte first
_HEADER_BYTES: Final = _APPLICATION_AT + 4
_MOUNTS: Final = Path("/proc/self/mountinfo")


def refuse_unfit(path: Path, *, known: int) -> Path:
    """Return the side folder for a store at `path`, made if need be. The file is only looked at.

    Raises:
        StoreRefused: a folder, no folder above it, not writable, another program's file, or on a
            file system whose locks do not hold. Says what to do.
        FormatUnknown: of a newer version than the `known` ones.
    """
    try:
        _refuse_place(path)
        refuse_foreign(path, known)
        side = path.with_name(path.name + "-side")
        side.mkdir(mode=0o700, exist_ok=True)
        holds = locks_hold(side / "probe")
    except apsw.Error as error:
        raise explained(error, "Looking at", path) from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise unusable(path, error) from error
    if not holds:
        raise StoreRefused(
            str(path),
            why="its file system does not keep locks between processes",
            instead="Keep the store on a local disk.",
        )
    return side


def unusable(path: Path, error: OSError | ValueError) -> StoreRefused:
    """Return what it means that the operating system would not have this path."""
    said = error.strerror if isinstance(error, OSError) else str(error)
    return StoreRefused(
        str(path),
        why=f"it cannot be written ({said})",
        instead="A store needs a file and a folder that it may write to; choose another path.",
    )


def _refuse_place(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise StoreRefused(
            ascii(str(path)),
            why="its name is not UTF-8, and SQLite takes no other",
            instead="Give the file, or its folder, another name.",
        ) from None
    if path.is_dir():
        raise StoreRefused(
            str(path), why="it is a folder", instead=f"Name a file in it, such as {path}/runs.db"
        )
    if not path.parent.is_dir():
        raise StoreRefused(
            str(path),
            why=f"the folder {path.parent} does not exist",
            instead=f"Make it first: mkdir -p {path.parent}",
        )
    if (kind := file_system(path.parent, _mounts())) in _NETWORK:
        raise StoreRefused(
            str(path),
            why=f"it lies on a network file system ({kind}), where SQLite's locks and shared "
            "memory do not reach other machines",
            instead="Keep the store on a local disk, or use PostgreSQL for many machines.",
        )


def refuse_foreign(path: Path, known: int) -> None:
    """Refuse another program's file, one with two names, or one of a newer version than the
    `known` ones.

    Only the first bytes are looked at: to open the file as a database would already recover
    another program's crashed transaction. Through SQLite's own file layer all the same:
    to open and close it ourselves would drop the locks of this process's connections to it."""
    if not path.exists():
        return
    found = path.stat()
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise _linked(path, found.st_nlink)
    if found.st_size == 0:
        return
    if not os.access(path, os.R_OK):
        raise unusable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
    file = apsw.VFSFile("", str(path), [flags, 0])
    try:
        header = file.xRead(_HEADER_BYTES, 0)
    finally:
        file.xClose()
    if not header.startswith(_MAGIC):
        raise _not_sqlite(path)
    if _number(header, _APPLICATION_AT) != APPLICATION_ID:
        raise _foreign(path)
    _refuse_newer(path, _number(header, _VERSION_AT), known)


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _refuse_newer(path: Path, version: int, known: int) -> None:
    if version > known:
        raise FormatUnknown(
            f"The store {path}", found=f"version {version}", known=f"versions up to {known}"
        )


def _is_empty(db: apsw.Connection) -> bool:
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return db.pragma("application_id") == 0 == db.pragma("user_version") and tables == (0,)


def _not_sqlite(path: Path) -> StoreRefused:
    return StoreRefused(
        str(path),
        why="it is not a SQLite file",
        instead="Choose another path; a new file is made there.",
    )


def _linked(path: Path, names: int) -> StoreRefused:
    return StoreRefused(
        str(path),
        why=f"the file has {names} names (hard links), and its write-ahead log, its locks and its "
        "kill switch lie beside one of them only",
        instead=f"Keep one name, and a symbolic link for the others. Find them: find FOLDER "
        f"-samefile {path}",
    )


def make_private(path: Path) -> None:
    """Make the file, if there is none, for its owner's eyes alone. What SQLite makes beside it has
    the same rights. Nothing is opened that is there: to close it would drop SQLite's locks."""
    with suppress(OSError):  # it is there; or SQLite will say why not
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _foreign(path: Path) -> StoreRefused:
    return StoreRefused(
        str(path),
        why="it is a SQLite file of another program",
        instead="Choose another path; a new file is made there.",
    )


def make_ready(db: apsw.Connection, path: Path, migrations: Sequence[str]) -> None:
    """Recognise the file, or make a new one, and bring its tables up to date.

    Each migration is one transaction: a crash leaves the file at the version before or after.

    Raises:
        StoreRefused: not a SQLite file, another program's, or damaged.
        FormatUnknown: of a newer version than this build knows.
    """
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # a file we refuse stays as it is
    try:
        version = _recognised(db, path, len(migrations))
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        if version == 0:  # before WAL, so that the file itself says whose it is from the start
            db.pragma("application_id", APPLICATION_ID)
        if db.pragma("journal_mode", "wal") != "wal":
            raise StoreRefused(
                str(path),
                why="its file system cannot share memory between processes (no WAL)",
                instead="Keep the store on a local disk.",
            )
        for number in range(version, len(migrations)):
            _migrate(db, migrations[number], number + 1)
        if version == 0:
            _sync_folder(path.parent)
    except apsw.Error as error:
        db.close()
        raise explained(error, "Opening", path) from error
    except OSError as error:
        db.close()
        said = error.strerror or type(error).__name__
        instead = "Check the disk, and open it again."
        raise StorageFailed("Opening", path=str(path), why=said, instead=instead) from error
    except BaseException:
        db.close()
        raise


def _recognised(db: apsw.Connection, path: Path, known: int) -> int:
    """The version of our file; 0 for a new one. Only reads."""
    if _is_empty(db):
        return 0
    if db.pragma("application_id") != APPLICATION_ID:
        raise _foreign(path)
    version = cast("int", db.pragma("user_version"))
    _refuse_newer(path, version, known)
    return version


def _migrate(db: apsw.Connection, script: str, version: int) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(script)
        db.pragma("user_version", version)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def explained(error: apsw.Error, what: str, path: Path) -> JournalError:
    """Return what a SQLite error means to the caller."""
    said = str(error)
    match error:
        case apsw.NotADBError():
            return _not_sqlite(path)
        case apsw.CorruptError():
            return damaged(path, said)
        case apsw.FullError():
            return StorageFailed(
                what, path=str(path), why="the disk is full", instead="Make room and send it again."
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return StorageFailed(
                what,
                path=str(path),
                why=f"it cannot be written here ({said})",
                instead="Check the permissions of the file and its folder, and send it again.",
            )
        case _:
            return StorageFailed(
                what,
                path=str(path),
                why=said or type(error).__name__,
                instead="Check the disk, and send it again.",
            )


def damaged(path: Path, how: str) -> StoreRefused:
    return StoreRefused(
        str(path),
        why=f"it is damaged ({how})",
        instead="Keep it as evidence and restore a copy, or begin a new file.",
    )


def file_system(folder: Path, mounts: str) -> str:
    """The kind of file system `folder` lies on, by the kernel's table of mounts."""
    best, kind = "", ""
    resolved = str(folder.resolve())
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split()
        if not dash or len(fields) < 5:
            continue
        mount = fields[4].replace("\\040", " ")
        inside = resolved == mount or resolved.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, after.split()[0]
    return kind.removeprefix("fuse.")


def _mounts() -> str:
    try:
        return _MOUNTS.read_text()
    except OSError:  # not Linux
        return ""
