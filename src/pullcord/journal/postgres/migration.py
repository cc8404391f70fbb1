"""Whether a schema can be our store: recognised, made, or brought up to date."""

from collections.abc import Sequence
from typing import Any, Final, cast

from pullcord.errors import FormatUnknown, InvalidInput, StoreRefused
from pullcord.journal.postgres.connection import Db, Link, ask

_LOOK: Final = (
    "SELECT to_regclass('\"{schema}\".pullcord_versions') IS NOT NULL, "
    "(SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = '{schema}' AND c.relkind IN ('r', 'p', 'v', 'm', 'f'))"
)


def make_ready(db: Db, link: Link, migrations: Sequence[str], *, make: bool) -> str:
    """Recognise the schema, or make a new one, bring its tables up to date, and return which clock
    it goes by: that of this database of this cluster.

    Each migration is one transaction: a crash leaves the schema at the version before or after.

    Raises:
        InvalidInput: there is none, and it is not to be made.
        StoreRefused: it is another program's.
        FormatUnknown: of a newer version than this build knows.
    """
    version = _version(db, link, len(migrations))
    if version == 0 and not make:
        raise InvalidInput(
            f"There is no store at {link.address.name}: its schema {link.address.schema} is not "
            "there. Nothing was changed. Name the one that is meant with --store or "
            "PULLCORD_STORE, or start a first run: pullcord run FILE.py:NAME"
        )
    while version < len(migrations):
        version = _migrate(db, link, migrations)
    row = ask(
        db,
        "SELECT system_identifier::text, (SELECT oid::text FROM pg_database "
        "WHERE datname = current_database()) FROM pg_control_system()",
    )
    cluster, database = cast("tuple[str, str]", row)
    return f"postgres-{cluster}-{database}"


def _version(db: Db, link: Link, known: int) -> int:
    """The version of our schema; 0 for a new one. Only reads."""
    schema = link.address.schema
    is_ours, tables = cast("tuple[Any, Any]", ask(db, _LOOK.format(schema=schema)))
    if not is_ours and tables:
        raise StoreRefused(
            link.address.name,
            why=f"its schema {schema} holds the tables of another program",
            instead="Name another one, which is then made: ?schema=NAME",
        )
    if not is_ours:
        return 0
    found = ask(db, f'SELECT coalesce(max(version), 0) FROM "{schema}".pullcord_versions')
    version = cast("tuple[int]", found)[0]
    if version > known:
        raise FormatUnknown(
            f"The store {link.address.name}",
            found=f"version {version}",
            known=f"versions up to {known}",
        )
    return version


def _migrate(db: Db, link: Link, migrations: Sequence[str]) -> int:
    """Carry out the next migration, in turn: of two processes, one makes it."""
    schema = link.address.schema
    ask(db, f"BEGIN; SELECT pg_advisory_xact_lock({link.lock})")
    try:
        version = _version(db, link, len(migrations))
        if version == 0:
            # Somebody may have made it for a user who may not.
            is_there = ask(db, f"SELECT to_regnamespace('\"{schema}\"') IS NOT NULL") == (True,)
            create = "" if is_there else f'CREATE SCHEMA "{schema}"; '
            ask(
                db,
                f'{create}CREATE TABLE "{schema}".pullcord_versions '
                "(version INTEGER PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())",
            )
        if version < len(migrations):
            version += 1
            made = f'INSERT INTO "{schema}".pullcord_versions VALUES ({version})'
            ask(db, f"{migrations[version - 1]}; {made}")
        ask(db, "COMMIT")
        return version
    except BaseException:
        if not db.closed:
            ask(db, "ROLLBACK")
        raise
