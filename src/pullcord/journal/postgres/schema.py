"""The tables of the PostgreSQL store, as the migrations that make them. Forward only.

They stand in a schema of their own, so that nobody else's tables are touched. A migration is one
script in one transaction; `pullcord_versions` counts them. A released one is never edited.
"""

from typing import Final

MIGRATIONS: Final = (
    """
    CREATE TABLE store (                       -- one row: where everything ends
        single   BOOLEAN PRIMARY KEY DEFAULT true CHECK (single),
        commits  BIGINT NOT NULL DEFAULT 0,    -- who finds it as he left it was not disturbed
        records  BIGINT NOT NULL DEFAULT 0,    -- the last records.pos
        texts    BIGINT NOT NULL DEFAULT 0,    -- the last live.pos that was ever given
        seen_s   DOUBLE PRECISION NOT NULL DEFAULT 0,  -- the latest that its clock has shown
        ahead_s  DOUBLE PRECISION NOT NULL DEFAULT 0   -- of the server's, if that was set back
    );
    INSERT INTO store DEFAULT VALUES;

    CREATE TABLE commits (                     -- the last ones: by it a writer knows its own
        n     BIGINT PRIMARY KEY,              -- 1, 2, 3, ...
        token TEXT NOT NULL                    -- that only its writer knows
    );

    CREATE TABLE runs (
        num           BIGINT PRIMARY KEY,      -- short name inside this store; order of creation
        run_id        TEXT COLLATE "C" NOT NULL UNIQUE,
        agent         TEXT COLLATE "C" NOT NULL,
        thread        TEXT COLLATE "C" NOT NULL,
        parent        TEXT COLLATE "C",
        created_at_ms BIGINT NOT NULL,
        state         TEXT COLLATE "C" NOT NULL,  -- of the last record: an index, no truth
        epoch         BIGINT NOT NULL,         -- every owner's write must name it
        owner         TEXT COLLATE "C" NOT NULL,  -- '' when nobody holds it
        lease_boot    TEXT COLLATE "C" NOT NULL,  -- the clock that the lease runs on
        lease_until_s DOUBLE PRECISION NOT NULL,
        lease_from_s  DOUBLE PRECISION NOT NULL,  -- last sign of life
        due_ms        BIGINT NOT NULL          -- 0: no timer of it is set
    );
    CREATE INDEX runs_by_state  ON runs (state, num);
    CREATE INDEX runs_by_thread ON runs (thread, num);
    CREATE INDEX runs_by_due    ON runs (due_ms) WHERE due_ms > 0;
    CREATE INDEX runs_by_owner  ON runs (owner)  WHERE owner > '';

    CREATE TABLE records (
        pos      BIGINT PRIMARY KEY,           -- an order in which nothing is missed
        run      BIGINT NOT NULL,              -- runs.num
        seq      BIGINT NOT NULL,              -- order within the run: 1, 2, 3, ...
        at_ms    BIGINT NOT NULL,              -- wall clock, for people
        epoch    BIGINT NOT NULL,              -- of the owner that wrote it; 0 for a control
        payload  BYTEA,                        -- the event as JSON; NULL: in blobs, by digest
        digest   BYTEA,                        -- of the payload, kept only when it is not inline
        hash     BYTEA NOT NULL,               -- follows from the record before
        drift_ms BIGINT,                       -- at_ms ahead of the clock that never jumps
        covered  BYTEA                         -- digest of a payload that was deleted
    );
    CREATE UNIQUE INDEX records_by_run    ON records (run, seq);
    CREATE INDEX        records_by_digest ON records (digest) WHERE digest IS NOT NULL;

    CREATE TABLE blobs (
        digest BYTEA PRIMARY KEY,              -- SHA-256 of data
        data   BYTEA NOT NULL
    );

    CREATE TABLE acks (                        -- the answer given under an idempotency key
        run    BIGINT NOT NULL,
        key    TEXT COLLATE "C" NOT NULL,
        digest BYTEA NOT NULL,                 -- of what was asked
        ack    BYTEA NOT NULL,
        PRIMARY KEY (run, key)
    );

    CREATE TABLE snapshots (                   -- a cache: may be deleted at any time
        run    BIGINT PRIMARY KEY,
        seq    BIGINT NOT NULL,
        hash   BYTEA NOT NULL,                 -- of record seq; without a match it counts nothing
        format BIGINT NOT NULL,
        data   BYTEA NOT NULL
    );

    CREATE TABLE live (                        -- text shown before its part has ended
        pos       BIGINT PRIMARY KEY,          -- only ever grows: readers resume from it
        run       BIGINT NOT NULL,
        part      TEXT COLLATE "C" NOT NULL,
        start     BIGINT NOT NULL,             -- in characters
        said      BYTEA NOT NULL,              -- UTF-8; bytes because text may hold NUL
        after_seq BIGINT NOT NULL              -- the last record when it was said
    );
    CREATE INDEX live_by_part ON live (run, part, start);

    CREATE TABLE boots (                       -- the clock that never jumps: one line per clock
        boot    TEXT COLLATE "C" PRIMARY KEY,
        base_ms BIGINT NOT NULL                -- what it shows when that clock shows 0
    );

    CREATE TABLE stops (                       -- the stop log: append only, one chain for all runs
        n       BIGINT PRIMARY KEY,            -- 1, 2, 3, ...
        run     TEXT COLLATE "C" NOT NULL,     -- runs.run_id; '' for what is about no run
        at_ms   BIGINT NOT NULL,               -- wall clock, as it was
        payload BYTEA,                         -- what it says, as JSON; NULL: retention deleted it
        digest  BYTEA NOT NULL,                -- SHA-256 of the payload
        hash    BYTEA NOT NULL                 -- follows from the entry before
    );
    CREATE INDEX stops_by_run ON stops (run, n);

    CREATE TABLE traces (                      -- payloads were deleted since they were rewritten
        run BIGINT PRIMARY KEY                 -- runs.num
    );

    CREATE TABLE hooks (                       -- who is told what has happened
        name          TEXT COLLATE "C" PRIMARY KEY,
        pos           BIGINT NOT NULL,         -- records.pos: up to here it was told
        owner         TEXT COLLATE "C" NOT NULL,  -- who is telling it; '' when nobody is
        lease_boot    TEXT COLLATE "C" NOT NULL,
        lease_until_s DOUBLE PRECISION NOT NULL,
        lease_from_s  DOUBLE PRECISION NOT NULL
    );
    """,
    """
    ALTER TABLE commits ADD COLUMN runs TEXT[];  -- the runs it has written to; NULL: not said
    """,
    """
    -- Writers of other families of runs do not wait for one another any more.
    ALTER TABLE runs ADD COLUMN version BIGINT NOT NULL DEFAULT 1;  -- another after each write
    ALTER TABLE runs ADD COLUMN root    BIGINT;  -- runs.num of the first of its family
    WITH RECURSIVE family (num, run_id, root) AS (
        SELECT num, run_id, num FROM runs WHERE parent IS NULL
        UNION ALL SELECT c.num, c.run_id, f.root FROM runs c JOIN family f ON c.parent = f.run_id
    )
    UPDATE runs SET root = family.root FROM family WHERE family.num = runs.num;
    UPDATE runs SET root = num WHERE root IS NULL;
    ALTER TABLE runs ALTER COLUMN root SET NOT NULL;
    ALTER TABLE runs SET (fillfactor = 70);      -- room for a new version beside the old one
    CREATE INDEX runs_by_root ON runs (root, num);

    CREATE SEQUENCE run_nums AS BIGINT;          -- of runs.num
    SELECT setval('run_nums', (SELECT coalesce(max(num), 0) + 1 FROM runs), false);
    CREATE SEQUENCE places AS BIGINT MINVALUE 0; -- of records.pos and live.pos
    SELECT setval('places', (SELECT greatest(records, texts) FROM store));

    CREATE TABLE writers (                       -- a commit whose answer got lost is known by it
        id      BIGINT PRIMARY KEY,              -- of a connection
        commits BIGINT NOT NULL,                 -- that it has made
        since   TIMESTAMPTZ NOT NULL DEFAULT now()
    );
    DROP TABLE commits;
    ALTER TABLE store DROP COLUMN commits, DROP COLUMN records, DROP COLUMN texts;
    """,
)
REWRITTEN = ("records", "blobs", "acks", "snapshots", "live", "stops", "runs")
"""The tables that payloads are deleted from."""
