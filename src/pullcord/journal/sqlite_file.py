"""Whether a path can be our SQLite file: looked at before anything in it is changed."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

import apsw

from pullcord.errors import FormatUnknown, JournalError, StorageFailed, StoreRefused
from pullcord.journal.schema import APPLICATION_ID
from pullcord.journal.turnstile import locks_hold

PRAGMAS: Final = (("synchronous", 2), ("foreign_keys", 0), ("trusted_schema", 0))
_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "sshfs"})
_MOUNTS: Final = Path("/proc/self/mountinfo")


def refuse_unfit(path: Path) -> Path:
    """Return the side folder for a store at `path`, made if need be.

    Raises:
        StoreRefused: a folder, no folder above it, not writable, or on a file system whose locks
            do not hold. Says what to do.
    """
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
    side = path.with_name(path.name + "-side")
    try:
        side.mkdir(mode=0o700, exist_ok=True)
        if not locks_hold(side / "probe"):
            raise StoreRefused(
                str(path),
                why="its file system does not keep locks between processes",
                instead="Keep the store on a local disk.",
            )
    except OSError as error:
        raise StoreRefused(
            str(path),
            why=f"its folder cannot be written ({error.strerror})",
            instead="A store needs a folder it may write to; choose another path.",
        ) from error
    return side


def make_ready(db: apsw.Connection, path: Path, migrations: Sequence[str]) -> None:
    """Recognise the file, or make a new one, and bring its tables up to date.

    Each migration is one transaction: a crash leaves the file at the version before or after.

    Raises:
        StoreRefused: not a SQLite file, another program's, or damaged.
        FormatUnknown: of a newer version than this build knows.
    """
    try:
        version = _recognised(db, path, len(migrations))
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
    except BaseException:
        db.close()
        raise


def _recognised(db: apsw.Connection, path: Path, known: int) -> int:
    """The version of our file; 0 for a new one. Only reads."""
    application = db.pragma("application_id")
    version = cast("int", db.pragma("user_version"))
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    is_new = application == 0 and version == 0 and tables == (0,)
    if is_new:
        return 0
    if application != APPLICATION_ID:
        raise StoreRefused(
            str(path),
            why="it is a SQLite file of another program",
            instead="Choose another path; a new file is made there.",
        )
    if version > known:
        raise FormatUnknown(
            f"The store {path}", found=f"version {version}", known=f"versions up to {known}"
        )
    return version


def _migrate(db: apsw.Connection, script: str, version: int) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(script)
        db.pragma("application_id", APPLICATION_ID)
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
            return StoreRefused(
                str(path),
                why="it is not a SQLite file",
                instead="Choose another path; a new file is made there.",
            )
        case apsw.CorruptError():
            return StoreRefused(
                str(path),
                why=f"it is damaged ({said})",
                instead="Keep it as evidence and restore a copy, or begin a new file.",
            )
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
