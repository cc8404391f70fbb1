"""A path that cannot serve as a store is refused when it is opened, in words that say what is
wrong and what to do, and whatever was there is left as it was.

A damaged file of ours is refused, then or when it is read; it never yields a wrong record.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import apsw
import msgspec
import pytest

import pullcord.journal.sqlite.file as sqlite_file
from pullcord.errors import FormatUnknown, PullcordError, StorageFailed, StoreRefused
from pullcord.journal.journal import Journal
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.sqlite.read_only import looking_at
from pullcord.journal.sqlite.schema import APPLICATION_ID, MIGRATIONS
from pullcord.journal.sqlite.turnstile import locks_hold
from tests.storage.campaign import fresh_seed
from tests.storage.children import PRIVATE, answer, module, need_mounts
from tests.storage.looks import Seen, look, reopened
from tests.storage.writers import something_of_everything

PAGE: Final = 4096


def _contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, without the side folders that a try to open makes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(file): file.read_bytes() for file in files if "-side/" not in str(file)}


def _refused(path: Path, *words: str, kind: type[PullcordError] = StoreRefused) -> str:
    """Open `path`, and return the refusal: in these words, naming it, with nothing changed."""
    before = _contents(path.parent) if path.parent.is_dir() else {}
    with pytest.raises(kind) as refusal:
        SqliteStore(path)
    said = str(refusal.value)
    assert str(path) in said
    for word in words:
        assert word in said
    assert (_contents(path.parent) if path.parent.is_dir() else {}) == before
    return said


# --- not a file for us ------------------------------------------------------------------------


def test_a_folder_is_refused_with_a_file_name_that_would_do(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    _refused(
        folder, "it is a folder", "It was not changed.", f"Name a file in it, such as {folder}/"
    )
    assert list(folder.iterdir()) == []


def test_a_missing_folder_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "not" / "there" / "runs.db"
    _refused(path, f"the folder {path.parent} does not exist", f"mkdir -p {path.parent}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(random.Random(1).randbytes(3 * PAGE), id="random bytes"),
        pytest.param(b"Dear diary, today I was a text file.\n" * 200, id="text"),
        pytest.param(b"short\n", id="a short text"),
    ],
)
def test_a_file_that_is_not_sqlite_is_refused_and_left_as_it_was(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "diary.txt"
    path.write_bytes(content)
    _refused(path, "it is not a SQLite file", "It was not changed.", "Choose another path")


def _foreign(path: Path, *, mode: str = "delete") -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", mode)
    db.execute("CREATE TABLE bookmarks (url); INSERT INTO bookmarks VALUES ('https://a.example')")
    return db


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_another_programs_sqlite_file_is_refused_and_stays_the_same_to_the_byte(
    tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "places.sqlite"
    _foreign(path, mode=mode).close()
    _refused(path, "a SQLite file of another program", "It was not changed.", "another path")


def _left_by_a_crash(path: Path, make: Callable[[Path], apsw.Connection]) -> None:
    """The files of another program as they are while it has them open: copied, not closed."""
    there = path.parent / "there"
    there.mkdir()
    db = make(there / path.name)
    for file in there.iterdir():
        if not file.name.endswith("-shm"):
            shutil.copyfile(file, path.parent / file.name)
    db.close()
    shutil.rmtree(there)


def _unmerged(path: Path) -> apsw.Connection:
    """Commits that are in a write-ahead log beside the file and not in it yet."""
    return _foreign(path, mode="wal")


def _half_way(path: Path) -> apsw.Connection:
    """A transaction that has begun to change the file: its old pages are in a journal beside."""
    db = _foreign(path)
    db.execute("INSERT INTO bookmarks VALUES (randomblob(200000))")
    db.pragma("cache_size", 1)
    db.execute("BEGIN; UPDATE bookmarks SET url = randomblob(200000)")
    return db


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_unmerged, id="with a write-ahead log"),
        pytest.param(_half_way, id="with a hot rollback journal"),
    ],
)
def test_another_programs_crashed_file_is_refused_and_its_recovery_is_left_to_its_program(
    tmp_path: Path, make: Callable[[Path], apsw.Connection]
) -> None:
    path = tmp_path / "places.sqlite"
    _left_by_a_crash(path, make)
    _refused(path, "It was not changed.")


def test_a_refused_file_gets_no_side_folder(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    _foreign(path).close()
    _refused(path, "of another program")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_file_of_a_newer_build_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SqliteStore(path).close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", len(MIGRATIONS) + 7)
    db.close()
    _refused(
        path,
        f"version {len(MIGRATIONS) + 7}",
        f"versions up to {len(MIGRATIONS)}",
        "A newer pullcord wrote it. Nothing was changed. Upgrade pullcord here",
        kind=FormatUnknown,
    )


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    SqliteStore(tmp_path / "empty").close()
    db = apsw.Connection(str(tmp_path / "empty"))
    assert db.pragma("application_id") == APPLICATION_ID
    db.close()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("x" * 300, id="a name that is too long"),
        pytest.param("runs\0.db", id="a name with NUL"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused_in_words(tmp_path: Path, name: str) -> None:
    _refused(tmp_path / name)


def test_a_side_folder_that_cannot_be_used_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "runs.db-side" / "turn").mkdir(parents=True)
    _refused(tmp_path / "runs.db")


# --- a file of ours, damaged ------------------------------------------------------------------


@pytest.fixture
async def ours(tmp_path: Path) -> Path:
    """A closed store with something of everything in it."""

    async def told() -> None:
        pass

    path = tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        await something_of_everything(journal, told)
    return path


def _look_at(path: Path, content: bytes) -> Seen | Exception:
    """What a store of these bytes holds, or how it is refused."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    path.write_bytes(content)
    try:
        return reopened(path, look)
    except Exception as error:  # judged by the test
        return error


def _overwritten(whole: bytes, seed: int) -> Iterator[bytes]:
    """The file with one page after the first wiped, in each of three ways."""
    rng = random.Random(seed)
    for at in range(PAGE, len(whole), PAGE):
        for page in (bytes(PAGE), b"\xff" * PAGE, rng.randbytes(PAGE)):
            yield whole[:at] + page + whole[at + PAGE :]


def _flipped(whole: bytes, seed: int) -> Iterator[bytes]:
    """The file with one bit after its header turned, at 300 places."""
    rng = random.Random(seed)
    for _ in range(300):
        at = rng.randrange(100, len(whole))
        yield whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]


def _misplaced(whole: bytes, _seed: int) -> Iterator[bytes]:
    """The file with one page after the first in another one's place, for every two pages."""
    pages = range(PAGE, len(whole), PAGE)
    for to, source in ((to, source) for to in pages for source in pages if to != source):
        yield whole[:to] + whole[source : source + PAGE] + whole[to + PAGE :]


DAMAGES: Final = [
    pytest.param(_overwritten, id="a page overwritten"),
    pytest.param(_flipped, id="a bit flipped"),
    pytest.param(_misplaced, id="a page misplaced"),
]
Damage = Callable[[bytes, int], Iterator[bytes]]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_or_read_rightly_and_never_yields_a_wrong_record(
    ours: Path, tmp_path: Path, damage: Damage
) -> None:
    whole, true = ours.read_bytes(), reopened(ours, look)
    refused = shorter = same = 0
    for content in damage(whole, fresh_seed()):
        seen = _look_at(tmp_path / "damaged.db", content)
        if isinstance(seen, Exception):
            refused += 1
            continue
        assert seen.is_prefix_of(true)
        assert seen.hashes.keys() <= true.hashes.keys()
        same += seen == true
        shorter += seen != true
    print(
        f"{refused + same + shorter} damaged files: {refused} refused, {same} read whole, "
        f"{shorter} read with fewer records (no chain can tell that), 0 with a wrong one"
    )
    assert refused


def test_an_overwritten_page_is_refused_as_damage_and_says_what_to_do(
    ours: Path, tmp_path: Path
) -> None:
    path, whole = tmp_path / "damaged.db", ours.read_bytes()
    for content in _overwritten(whole, fresh_seed()):
        seen = _look_at(path, content)
        if isinstance(seen, Exception):
            assert isinstance(seen, PullcordError), repr(seen)
            assert "damaged" in str(seen)
            assert "Keep " in str(seen)
            assert "as evidence" in str(seen)
            assert path.read_bytes() == content


def test_a_misplaced_page_is_refused_by_a_typed_error(ours: Path, tmp_path: Path) -> None:
    seen = [_look_at(tmp_path / "damaged.db", bad) for bad in _misplaced(ours.read_bytes(), 0)]
    untyped = [e for e in seen if isinstance(e, Exception) and not isinstance(e, PullcordError)]
    assert untyped == []


def test_a_run_in_a_state_this_build_does_not_know_is_refused_by_a_typed_error(
    ours: Path,
) -> None:
    db = apsw.Connection(str(ours))
    db.execute("UPDATE runs SET state = 'hibernating' WHERE run_id = 'parent'")
    db.close()
    store = SqliteStore(ours)
    try:
        with pytest.raises(PullcordError, match="hibernating"):
            store.read(lambda view: view.head("parent"))
    finally:
        store.close()


def test_a_file_cut_in_half_is_refused_and_left_as_it_was(ours: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "half.db", ours.read_bytes()
    for at in range(PAGE, len(whole), PAGE):
        seen = _look_at(path, whole[:at])
        assert isinstance(seen, StoreRefused), f"cut at {at}: {seen!r}"
        assert "it is damaged" in str(seen)
        assert "restore a copy" in str(seen)
        assert path.read_bytes() == whole[:at]


# --- a folder we may not write to -------------------------------------------------------------


@pytest.fixture
def in_the_open() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="pullcord-open-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _told(*command: str) -> list[str]:
    return msgspec.json.decode(answer(command), type=list[str])


def _need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to act as a user who may not write")


def test_a_folder_that_this_user_may_not_write_to_is_refused(in_the_open: Path) -> None:
    _need_root()
    SqliteStore(in_the_open / "theirs.db").close()
    before = _contents(in_the_open)
    paths = [in_the_open / "new.db", in_the_open / "theirs.db"]
    for path, said in zip(paths, _told(*module("unwritable", "nobody", *paths)), strict=True):
        assert said.startswith(f"StoreRefused: Cannot use {path} as a store: ")
        assert "cannot be written (Permission denied). It was not changed." in said
        assert "choose another path" in said
    assert _contents(in_the_open) == before


def test_a_folder_that_this_user_may_not_even_enter_is_refused(in_the_open: Path) -> None:
    _need_root()
    closed = in_the_open / "closed"
    closed.mkdir(mode=0o700)
    (said,) = _told(*module("unwritable", "nobody", closed / "runs.db"))
    assert said.startswith("StoreRefused: ")


def test_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    need_mounts(tmp_path, f"--bind {tmp_path}")
    SqliteStore(tmp_path / "there.db").close()
    before = _contents(tmp_path)
    paths = [tmp_path / "new.db", tmp_path / "there.db"]
    told = _told(*PRIVATE, *module("unwritable", "sealed", tmp_path, *paths))
    for path, said in zip(paths, told, strict=True):
        assert said.startswith(f"StoreRefused: Cannot use {path} as a store: ")
        assert "cannot be written (Read-only file system). It was not changed." in said
    assert _contents(tmp_path) == before


# --- a file system whose locks do not hold ----------------------------------------------------

MOUNTS: Final = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /mnt/team rw,relatime shared:5 - nfs4 server:/team rw,vers=4.2
31 22 0:26 / /mnt/team/scratch rw - tmpfs tmpfs rw
32 22 0:27 / /mnt/with\\040space rw - cifs //server/share rw
33 22 0:28 / /mnt/remote rw master:2 - fuse.sshfs me@host: rw
a line that is not a mount
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/me", "ext4"),
        ("/mnt/team", "nfs4"),
        ("/mnt/team/a/b", "nfs4"),
        ("/mnt/teamwork", "ext4"),
        ("/mnt/team/scratch/x", "tmpfs"),
        ("/mnt/with space/x", "cifs"),
        ("/mnt/remote", "sshfs"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_its_nearest_mount(folder: str, kind: str) -> None:
    assert sqlite_file.file_system(Path(folder), MOUNTS) == kind


def test_a_store_on_a_network_file_system_is_refused_with_what_to_use_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = f"22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 0:25 / {tmp_path} rw - nfs4 server:/ rw"
    monkeypatch.setattr(sqlite_file, "_mounts", lambda: mounts)
    _refused(
        tmp_path / "runs.db", "a network file system (nfs4)", "It was not changed.", "a local disk"
    )
    assert list(tmp_path.iterdir()) == []


def test_locks_on_a_local_file_hold_also_while_someone_has_one(tmp_path: Path) -> None:
    assert locks_hold(tmp_path / "probe")
    store = SqliteStore(tmp_path / "runs.db")
    try:
        assert locks_hold(tmp_path / "runs.db-side" / "turn")
    finally:
        store.close()


def test_a_pipe_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises((StoreRefused, StorageFailed)) as refusal:
        SqliteStore(path)
    assert str(path) in str(refusal.value)


def test_a_store_with_two_names_is_refused_under_both(tmp_path: Path) -> None:
    """Its log, its locks and its kill switch lie beside one name and not beside the other."""
    store = SqliteStore(tmp_path / "runs.db")
    os.link(tmp_path / "runs.db", tmp_path / "same.db")
    for name in ("same.db", "runs.db"):
        _refused(tmp_path / name, "2 names (hard links)", "It was not changed.", "-samefile")
        with pytest.raises(StoreRefused, match="hard links"), looking_at(tmp_path / name):
            pass
    store.close()
    (tmp_path / "same.db").unlink()
    SqliteStore(tmp_path / "runs.db").close()


def test_a_new_journal_is_for_its_owners_eyes_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = SqliteStore(tmp_path / "runs.db")
        store.write(lambda tx: tx.number())
    finally:
        os.umask(before)
    names = [path for path in tmp_path.iterdir() if path.is_file()]
    assert {path.name for path in names} == {"runs.db", "runs.db-wal", "runs.db-shm"}
    assert {path.stat().st_mode & 0o777 for path in names} == {0o600}
    assert (tmp_path / "runs.db-side").stat().st_mode & 0o777 == 0o700
    store.close()
