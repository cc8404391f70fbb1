"""What a store behind terminals has recorded."""

from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.stored_runs.run_records import records_of
from tests.terminal.tty import StoreWithTerminals


def events(desk: StoreWithTerminals, kind: type, run_id: str = "r1") -> list[object]:
    store = SqliteStore(desk.store)
    try:
        records = store.read(lambda view: records_of(view, run_id))
    finally:
        store.close()
    return [record.event for record in records if isinstance(record.event, kind)]
