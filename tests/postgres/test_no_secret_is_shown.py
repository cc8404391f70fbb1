"""The password in a store's URL is in no name, error, log, record, file or word of a command."""

import json
import logging
import traceback
from pathlib import Path
from typing import NoReturn

import pytest
from psycopg.conninfo import conninfo_to_dict

from pullcord.errors import InvalidInput, PullcordError, StoreRefused
from pullcord.journal.open_store import opened
from pullcord.journal.postgres.address import parsed
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.store_location import beside, shown_location
from tests.cli.terminal import agent
from tests.postgres.afar import Afar
from tests.postgres.server import GUARDED, Server
from tests.postgres.writing import create

SECRET = "p@ss/w:rd%x"
FORMS = (SECRET, "p%40ss%2Fw%3Ard%25x", "p%40ss/w%3Ard%25x")


@pytest.fixture
def secret_url(server: Server) -> str:
    server.has_user(GUARDED, f"SUPERUSER PASSWORD '{SECRET}'")
    return server.url(user=GUARDED, password=SECRET)


def is_clean(text: str) -> bool:
    return not any(form in text for form in (*FORMS, "ss/w:rd", "ss@local", "ana:1"))


def test_in_names_logs_and_tables(
    secret_url: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = PostgresStore(secret_url)
    create(store, "r1")
    server.terminates()
    create(store, "r2")
    assert is_clean(store.name + store.beside + repr(store) + caplog.text)
    schema = secret_url.rpartition("=")[2]
    tables = server.ask("SELECT tablename FROM pg_tables WHERE schemaname = %s", schema)
    for (table,) in tables:
        assert is_clean(str(server.ask(f"SELECT t::text FROM {schema}.{table} t")))
    store.close()


WRONG = {
    "no server": "postgresql://ana:{secret}@127.0.0.1:1/db",
    "a port that is none": "postgresql://ana:{secret}@localhost:none/db",
    "not escaped": "postgresql://ana:p@ss/w:rd%x@localhost/db",
    "an @ that is not": "postgresql://ana:x@ss/w:rd@localhost/db",
    "an @ alone": "postgresql://ana:p@ss@localhost:1/db",
    "a / behind a number": "postgresql://ana:1/p@ss@localhost:1/db",
    "a / behind a number, alone": "postgresql://ana:1/ss@localhost:1/db",
    "a # behind a number": "postgresql://ana:1#ss@localhost:1/db",
    "a ? behind a number": "postgresql://ana:1?x=ss@localhost:1/db",
    "a driver's name": "postgresql+psycopg://ana:{secret}@localhost:1/db",
    "in capitals": "PostgreSQL://ana:{secret}@localhost:1/db",
    "in quotes": "'postgresql://ana:{secret}@localhost:1/db'",
    "in the query": "postgresql://localhost:1/db?password={secret}",
    "an option that is none": "postgresql://ana:{secret}@localhost:1/db?nonsense=1",
    "a service": "postgresql://ana:{secret}@/db?service=x",
    "a schema that is none": "postgresql://ana:{secret}@localhost/db?schema=x-y",
}


@pytest.mark.parametrize("how", WRONG)
def test_in_errors(how: str, server: Server) -> None:
    url = WRONG[how].format(secret=FORMS[1])
    with pytest.raises(PullcordError) as refused:
        opened(url)
    said = "".join(traceback.format_exception(refused.value))
    shown_of_it = said.replace("opened(url)", "")
    assert is_clean(shown_of_it), shown_of_it


@pytest.mark.parametrize("said", ["host=db password=hush", "dbname=a password = 'hush'"])
def test_another_way_to_write_it_is_no_name_of_a_file(said: str, tmp_path: Path) -> None:
    with pytest.raises(StoreRefused) as refused:
        opened(said)
    assert "hush" not in str(refused.value)
    assert "hush" not in repr(parsed("postgresql://ana:hush@db/agents"))


def test_in_what_others_say() -> None:
    """libpq's messages have no password in them today."""
    address = parsed(f"postgresql://ana:{FORMS[1]}@localhost/db")
    for form in FORMS:
        assert address.said(f"no such host:\n {form}.") == "no such host: ***"


def test_in_what_commands_print(secret_url: str, tmp_path: Path) -> None:
    here = Afar(tmp_path, secret_url)
    said = [
        here("run", agent("quick"), "--run-id", "r1"),
        here("ps"),
        here("show", "r1"),
        here("doctor"),
        here("kill-switch", "engage", "--json"),
        here("kill-switch", "release", "--json"),
        here("log", "show"),
        here("log", "verify"),
        here("pause", "nobody"),
    ]
    assert all(is_clean(one.out + one.err) for one in said)
    files = [str(path) for path in (tmp_path / "state").rglob("*")]
    assert files
    assert is_clean("\n".join(files))
    with here.running("serve", "--port", "0", "--json") as process:
        assert process.stdout
        first = process.stdout.readline()
        assert is_clean(first)
        assert json.loads(first)["store"] == shown_location(secret_url)
    here.env["PULLCORD_STORE"] = secret_url.replace(":5432", ":5433")  # nobody is there
    away = [here("ps"), here("kill-switch", "status"), here("cancel", "r1")]
    assert all(one.status != 0 for one in away)
    assert all(is_clean(one.out + one.err) for one in away)


def test_a_settings_file_takes_none(tmp_path: Path, server: Server) -> None:
    here = Afar(tmp_path, "")
    del here.env["PULLCORD_STORE"]
    here.folder = tmp_path
    (tmp_path / "pullcord.toml").write_text('store = "postgresql://ana:hush@localhost/db"\n')
    refused = here("ps")
    assert refused.status == 2
    assert "secrets do not belong into this file" in refused.err
    assert "hush" not in refused.err
    (tmp_path / "pullcord.toml").write_text('store = "postgresql://ana@db.example/db"\n')
    refused = here("ps")
    assert refused.status == 2
    assert "does not decide who is shown your password" in refused.err


@pytest.mark.parametrize("more", ["hostaddr=192.0.2.1", "host=db.example"])
def test_a_settings_file_cannot_say_localhost_and_mean_another(
    more: str, tmp_path: Path, server: Server
) -> None:
    here = Afar(tmp_path, "")
    del here.env["PULLCORD_STORE"]
    here.folder = tmp_path
    store = f"postgresql://localhost:1/db?{more}"
    (tmp_path / "pullcord.toml").write_text(f'store = "{store}"\n')
    refused = here("ps")
    assert refused.status == 2
    assert "password" in refused.err or "twice" in refused.err


def test_what_libpq_reads_is_what_is_written(server: Server) -> None:
    store = PostgresStore(f"postgresql:///postgres?host={server.socket}&user=pullcord&schema=empty")
    create(store, "r1")
    store.close()
    url = parsed("postgresql://h/db?password=a+b%26c&options=-c%20x%3D1").url
    assert conninfo_to_dict(url)["password"] == "a+b&c"
    assert conninfo_to_dict(url)["options"] == "-c x=1"


def test_the_same_database_has_the_same_folder() -> None:
    for url in ("postgresql://localhost/db", "postgresql://127.0.0.1:5432/db?schema=pullcord"):
        assert beside(url) == beside("postgresql://ana:secret@localhost:5432/db")
    assert beside("postgresql://localhost/db") != beside("postgresql://localhost/db?schema=x")
    assert beside("postgresql://localhost/a_b") != beside("postgresql://localhost/a?schema=b")
    assert parsed("postgresql:///db?host=/run/postgresql&port=5433").port == "5433"
    assert parsed(parsed("postgresql://h:1/d?schema=s").name)[1:5] == ("h", "1", "d", "s")


def test_a_long_name_is_not_cut_to_anothers() -> None:
    hosts = ",".join(f"agents-{n}.cluster-c1a2b3c4d5e6.eu-central-1.rds.example" for n in range(5))
    url = f"postgresql://{hosts}/agents"
    folders = {beside(one) for one in (url, f"{url}2", f"{url}?schema=x", f"{url}?schema=y")}
    assert len(folders) == 4
    assert all(len(Path(folder).parent.name) <= 200 for folder in folders)


def test_who_has_no_home_is_told_what_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object) -> NoReturn:
        raise KeyError("getpwuid(): uid not found: 54321")

    for name in (
        "PULLCORD_STATE",
        "XDG_STATE_HOME",
        "HOME",
        "LOGNAME",
        "USER",
        "LNAME",
        "USERNAME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(InvalidInput, match=r"no home.*PULLCORD_STATE"):
        beside("postgresql://db.example/agents")


@pytest.mark.parametrize("name", ["PULLCORD_STATE", "XDG_STATE_HOME", "HOME"])
def test_a_folder_that_depends_on_where_one_is_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that goes into another folder would not see its switch any more."""
    for other in ("PULLCORD_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "state")
    with pytest.raises(InvalidInput, match=r"begins with /: PULLCORD_STATE"):
        beside("postgresql://db.example/agents")


def test_the_folder_is_where_it_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://db.example:5433/agents"
    monkeypatch.setenv("PULLCORD_STATE", "/state")
    assert beside(url) == "/state/db.example_5433_agents_pullcord/runs"
    monkeypatch.delenv("PULLCORD_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    assert beside(url) == "/xdg/pullcord/db.example_5433_agents_pullcord/runs"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ana")
    assert beside(url).startswith("/home/ana/.local/state/pullcord/")
