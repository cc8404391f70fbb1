"""The store keeps to its schema, and refuses what it cannot be sure of."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pullcord.errors import FormatUnknown, InvalidInput, StorageFailed, StoreRefused
from pullcord.journal.open_store import opened
from pullcord.journal.postgres.address import parsed
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.postgres.connection import Link, ask
from pullcord.journal.postgres.schema import MIGRATIONS
from tests.postgres.server import GUARDED, Server, until
from tests.postgres.writing import create, runs


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


def test_a_newer_one_is_refused_and_left_as_it_is(server: Server, url: str) -> None:
    newer = (*MIGRATIONS, "CREATE TABLE later (x INTEGER)")
    PostgresStore(url, migrations=newer).close()
    with pytest.raises(FormatUnknown, match=r"version 4.*versions up to 3.*Nothing was changed"):
        PostgresStore(url)
    assert server.ask(f"SELECT count(*) FROM {schema_of(url)}.pullcord_versions") == [(4,)]


def test_an_older_one_is_brought_up_to_date_and_keeps_what_it_has(url: str) -> None:
    store = PostgresStore(url)
    create(store, "r1")
    store.close()
    newer = (*MIGRATIONS, "CREATE TABLE later (x INTEGER)")
    store = PostgresStore(url, migrations=newer)
    assert runs(store) == ["r1"]
    store.close()


def test_a_migration_that_fails_leaves_the_version_before(server: Server, url: str) -> None:
    PostgresStore(url).close()
    broken = (*MIGRATIONS, "CREATE TABLE later (x INTEGER); SELECT 1 / 0")
    with pytest.raises(StorageFailed, match="division by zero"):
        PostgresStore(url, migrations=broken)
    assert server.ask(f"SELECT to_regclass('{schema_of(url)}.later')") == [(None,)]
    PostgresStore(url).close()


def test_another_programs_tables_are_not_touched(server: Server, url: str) -> None:
    schema = schema_of(url)
    server.ask(f"CREATE SCHEMA {schema}")
    server.ask(f"CREATE TABLE {schema}.runs (theirs INTEGER)")
    with pytest.raises(StoreRefused, match=r"tables of another program.*\?schema=NAME"):
        PostgresStore(url)
    tables = server.ask("SELECT tablename FROM pg_tables WHERE schemaname = %s", schema)
    assert tables == [("runs",)]


def test_a_word_of_sql_is_a_name_like_any_other(server: Server) -> None:
    url = server.url("user")
    for _ in range(2):
        store = PostgresStore(url)
        assert runs(store) in ([], ["r1"])
        if not runs(store):
            create(store, "r1")
        store.close()
    assert server.ask('SELECT count(*) FROM "user".runs') == [(1,)]


def test_a_database_that_has_no_room_for_all_text_is_refused(server: Server) -> None:
    server.ask(
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    url = server.url().replace("/postgres?", "/latin?")
    with pytest.raises(StoreRefused, match=r"keeps text as LATIN1.*createdb --encoding=UTF8"):
        PostgresStore(url)


def test_two_that_open_it_at_once_make_it_once(server: Server, url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(PostgresStore, [url] * 4))
    for number, store in enumerate(stores):
        create(store, f"r{number}")
    for store in stores:
        assert sorted(runs(store)) == ["r0", "r1", "r2", "r3"]
        store.close()
    made = server.ask(f"SELECT count(*) FROM {schema_of(url)}.pullcord_versions")
    assert made == [(len(MIGRATIONS),)]


def test_who_only_looks_makes_nothing(server: Server, url: str) -> None:
    with pytest.raises(InvalidInput, match="There is no store at postgresql://"):
        opened(url, make=False)
    assert server.ask("SELECT to_regnamespace(%s)", schema_of(url)) == [(None,)]


def test_a_user_who_may_do_nothing_else_can_use_a_schema_that_is_his(
    server: Server, url: str
) -> None:
    schema = schema_of(url)
    server.has_user("humble")
    server.ask(f"CREATE SCHEMA {schema} AUTHORIZATION humble")
    store = PostgresStore(server.url(schema, user="humble"))
    create(store, "r1")
    assert runs(store) == ["r1"]
    store.close()


def test_whose_tables_they_are_not_does_not_say_that_they_were_rewritten(
    server: Server, url: str
) -> None:
    """VACUUM FULL of another user's table is a warning, and nothing is done."""
    schema = schema_of(url)
    owner = PostgresStore(url)
    create(owner, "r1")
    server.has_user("guest")
    server.ask(f"GRANT ALL ON SCHEMA {schema} TO guest")
    server.ask(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO guest")
    guest = PostgresStore(server.url(schema, user="guest"))
    guest.write(lambda tx: tx.erase("r1", [b"x" * 32], thread="r1"))
    assert guest.scrub() == "traces"
    assert owner.scrub() == "logged"
    assert guest.scrub() == "logged"
    owner.close()
    guest.close()


def test_a_server_that_does_not_flush_is_refused(own_server: Server) -> None:
    own_server.ask("ALTER SYSTEM SET fsync = off")
    own_server.ask("SELECT pg_reload_conf()")
    until(lambda: own_server.ask("SHOW fsync") == [("off",)])
    with pytest.raises(StoreRefused, match="fsync=off"):
        PostgresStore(own_server.url())


def test_a_user_whose_commits_are_not_durable_gets_durable_ones(server: Server) -> None:
    server.has_user("hasty", "SUPERUSER")
    server.has_user("hasty", "SET synchronous_commit = off")
    link = Link(parsed(server.url(user="hasty")), busy_timeout_s=30)
    with link.connect() as db:
        assert ask(db, "SHOW synchronous_commit") == ("on",)


def test_without_the_driver_it_says_what_to_install(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [
        name for name in sys.modules if name.startswith("pullcord.journal.postgres.backend")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as if it were not installed
    with pytest.raises(StoreRefused, match=r"psycopg.*pip install 'pullcord\[postgres\]'"):
        opened(url)


def test_without_a_folder_for_the_switch_it_is_not_opened(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PULLCORD_STATE", str(tmp_path / "file"))
    with pytest.raises(StoreRefused, match=r"kill switch cannot be made.*PULLCORD_STATE"):
        PostgresStore(url)


def test_a_wrong_password_is_said_without_it(server: Server) -> None:
    server.has_user(GUARDED, "SUPERUSER PASSWORD 'right-one'")
    PostgresStore(server.url(user=GUARDED, password="right-one")).close()
    with pytest.raises(StorageFailed, match="password authentication failed") as refused:
        PostgresStore(server.url(user=GUARDED, password="wrong-one"))
    assert "wrong-one" not in str(refused.value)
