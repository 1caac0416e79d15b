-- Written in SQLite's words; PostgreSQL has its own for the types (see postgres.py). What only one database
-- has stands in a second file of the same number.
-- Ids are texts, times are integer milliseconds, JSON is text. Nothing is overwritten that a person said:
-- an edit adds a revision, what was cut gets removed_ms, a retired session keeps its id and the reason.

CREATE TABLE segue_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE conversations (
    id TEXT PRIMARY KEY NOT NULL,
    key TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    model TEXT,
    role TEXT NOT NULL,
    cwd TEXT NOT NULL,
    title TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    forked_from TEXT,
    forked_at TEXT,
    rewrites INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A message that waits for its turn has no place yet. What never changes of it stands in facts: sender,
-- agent, role, account, under, blank. One text that repeats from row to row is read faster than six.
CREATE TABLE messages (
    id TEXT PRIMARY KEY NOT NULL,
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    place INTEGER,
    facts TEXT NOT NULL,
    revision INTEGER NOT NULL,
    size INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    removed_ms INTEGER
) STRICT;

CREATE UNIQUE INDEX messages_place ON messages (conversation, place);

CREATE TABLE revisions (
    message TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    text TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (message, revision)
) STRICT;

CREATE TABLE turns (
    id TEXT PRIMARY KEY NOT NULL,
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    message TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    answer TEXT,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    account TEXT NOT NULL,
    model TEXT,
    cwd TEXT NOT NULL,
    host TEXT NOT NULL,
    mode TEXT,
    status TEXT NOT NULL,
    told TEXT,
    owner TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    predicted_usd REAL,
    retry_of TEXT,
    input INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    output INTEGER,
    cost_usd REAL,
    saved_usd REAL
) STRICT;

CREATE INDEX turns_conversation ON turns (conversation, started_ms, id);
CREATE INDEX turns_unsettled ON turns (conversation, started_ms, id) WHERE status IN ('waiting', 'running');
CREATE INDEX turns_message ON turns (message);
CREATE INDEX turns_answer ON turns (answer);

CREATE TABLE attempts (
    id TEXT PRIMARY KEY NOT NULL,
    turn TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    mode TEXT NOT NULL,
    session TEXT,
    resumed_from TEXT,
    new_id TEXT,
    run_dir TEXT NOT NULL,
    task TEXT NOT NULL,
    process TEXT,
    outcome TEXT,
    native_id TEXT,
    usage TEXT NOT NULL,
    cost_usd REAL,
    tools_run INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    UNIQUE (turn, seq)
) STRICT;

CREATE TABLE events (
    turn TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    ms INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (turn, seq)
) STRICT;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL,
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    native_id TEXT NOT NULL,
    host TEXT NOT NULL,
    home TEXT NOT NULL,
    cwd TEXT NOT NULL,
    path TEXT,
    conversation TEXT REFERENCES conversations (id) ON DELETE SET NULL,
    created_ms INTEGER NOT NULL,
    last_used_ms INTEGER NOT NULL,
    retired_ms INTEGER,
    retired_reason TEXT,
    parent TEXT,
    how TEXT NOT NULL,
    intended INTEGER NOT NULL,
    totals TEXT NOT NULL,
    context TEXT NOT NULL
) STRICT;

CREATE INDEX sessions_native_id ON sessions (native_id);
CREATE INDEX sessions_conversation ON sessions (conversation);

CREATE TABLE held (
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    message TEXT NOT NULL,
    revision INTEGER NOT NULL,
    anchor TEXT,
    second_hand INTEGER NOT NULL,
    correction INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- What a pin was made under is read and written whole.
CREATE TABLE pins (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES sessions (id),
    succeeded_ms INTEGER NOT NULL,
    made_under TEXT NOT NULL,
    PRIMARY KEY (conversation, role, agent, account)
) STRICT;

CREATE INDEX pins_session ON pins (session);

CREATE TABLE epochs (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (conversation, agent, role)
) STRICT;

CREATE TABLE lineage (
    child TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    parent TEXT,
    kind TEXT NOT NULL,
    session TEXT NOT NULL,
    parent_session TEXT,
    ms INTEGER NOT NULL,
    PRIMARY KEY (child, kind, session)
) STRICT;

CREATE TABLE leases (
    name TEXT PRIMARY KEY NOT NULL,
    token TEXT NOT NULL,
    owner TEXT NOT NULL,
    process_group TEXT,
    taken_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE switched_off (
    runtime TEXT NOT NULL,
    capability TEXT NOT NULL,
    reason TEXT NOT NULL,
    ms INTEGER NOT NULL,
    PRIMARY KEY (runtime, capability)
) STRICT;
