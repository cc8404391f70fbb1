"""The tables of the SQLite store, as the migrations that make them. Forward only.

A migration is one script in one transaction; the file's `user_version` counts those it has.
A released migration is never edited: a change is a new one at the end.
"""

from typing import Final

APPLICATION_ID: Final = 0x50756C6C  # "Pull": tells our files from any other SQLite file

MIGRATIONS: Final = (
    """
    CREATE TABLE runs (
        num           INTEGER PRIMARY KEY,     -- short name inside this file; order of creation
        run_id        TEXT NOT NULL UNIQUE,
        agent         TEXT NOT NULL,
        thread        TEXT NOT NULL,
        parent        TEXT,
        created_at_ms INTEGER NOT NULL,
        state         TEXT NOT NULL,           -- of the last record: an index, not a second truth
        epoch         INTEGER NOT NULL,        -- every owner's write must name it
        owner         TEXT NOT NULL,           -- '' when nobody holds it
        lease_boot    TEXT NOT NULL,           -- the boot whose clock the lease runs on
        lease_until_s REAL NOT NULL
    ) STRICT;
    CREATE INDEX runs_by_state  ON runs (state, num);
    CREATE INDEX runs_by_thread ON runs (thread, num);

    CREATE TABLE records (
        pos     INTEGER PRIMARY KEY,           -- order of commit over all runs
        run     INTEGER NOT NULL,              -- runs.num
        seq     INTEGER NOT NULL,              -- order within the run: 1, 2, 3, ...
        at_ms   INTEGER NOT NULL,              -- wall clock, for people
        epoch   INTEGER NOT NULL,              -- of the owner that wrote it; 0 for a control
        payload BLOB,                          -- the event as JSON; NULL: in blobs, by digest
        digest  BLOB,                          -- of the payload, kept only when it is not inline
        hash    BLOB NOT NULL                  -- follows from the record before
    ) STRICT;
    CREATE UNIQUE INDEX records_by_run ON records (run, seq);

    CREATE TABLE blobs (
        digest BLOB PRIMARY KEY,               -- SHA-256 of data
        data   BLOB NOT NULL
    ) STRICT;

    CREATE TABLE acks (                        -- the answer given under an idempotency key
        run    INTEGER NOT NULL,
        key    TEXT NOT NULL,
        digest BLOB NOT NULL,                  -- of what was asked
        ack    BLOB NOT NULL,
        PRIMARY KEY (run, key)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE snapshots (                   -- a cache: may be deleted at any time
        run    INTEGER PRIMARY KEY,
        seq    INTEGER NOT NULL,
        hash   BLOB NOT NULL,                  -- of record seq; without a match it counts nothing
        format INTEGER NOT NULL,
        data   BLOB NOT NULL
    ) STRICT;

    CREATE TABLE live (                        -- text shown before its part has ended
        pos       INTEGER PRIMARY KEY AUTOINCREMENT,  -- only ever grows: readers resume from it
        run       INTEGER NOT NULL,
        part      TEXT NOT NULL,
        offset    INTEGER NOT NULL,            -- in characters
        text      BLOB NOT NULL,               -- UTF-8; a BLOB because text may hold NUL
        after_seq INTEGER NOT NULL             -- the last record when it was said
    ) STRICT;
    CREATE INDEX live_by_part ON live (run, part, offset);
    """,
    """
    ALTER TABLE runs ADD COLUMN due_ms INTEGER NOT NULL DEFAULT 0;  -- 0: no timer of it is set
    CREATE INDEX runs_by_due   ON runs (due_ms) WHERE due_ms > 0;
    CREATE INDEX runs_by_owner ON runs (owner)  WHERE owner > '';
    """,
    """
    CREATE TABLE boots (                       -- the clock that never jumps: one line per boot
        boot    TEXT PRIMARY KEY,
        base_ms INTEGER NOT NULL               -- what it shows when the boot's own clock shows 0
    ) STRICT, WITHOUT ROWID;
    ALTER TABLE records ADD COLUMN drift_ms INTEGER;  -- at_ms ahead of that clock; NULL: unknown
    ALTER TABLE runs ADD COLUMN lease_from_s REAL NOT NULL DEFAULT 0;  -- last sign of life
    """,
    """
    CREATE TABLE stops (                       -- the stop log: append only, one chain for all runs
        n       INTEGER PRIMARY KEY,           -- 1, 2, 3, ...
        run     TEXT NOT NULL,                 -- runs.run_id; '' for what is about no run
        at_ms   INTEGER NOT NULL,              -- wall clock, as it was
        payload BLOB,                          -- what it says, as JSON; NULL: retention deleted it
        digest  BLOB NOT NULL,                 -- SHA-256 of the payload
        hash    BLOB NOT NULL                  -- follows from the entry before
    ) STRICT;
    CREATE INDEX stops_by_run ON stops (run, n);
    """,
    """
    ALTER TABLE records ADD COLUMN covered BLOB;  -- digest of a payload that was deleted
    CREATE INDEX records_by_digest ON records (digest) WHERE digest IS NOT NULL;
    CREATE TABLE traces (                      -- payloads were deleted since the file was rewritten
        run INTEGER PRIMARY KEY                -- runs.num
    ) STRICT;
    """,
    """
    CREATE TABLE hooks (                       -- who is told what has happened
        name          TEXT PRIMARY KEY,
        pos           INTEGER NOT NULL,        -- records.pos: up to here it was told
        owner         TEXT NOT NULL,           -- who is telling it; '' when nobody is
        lease_boot    TEXT NOT NULL,
        lease_until_s REAL NOT NULL,
        lease_from_s  REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
)
