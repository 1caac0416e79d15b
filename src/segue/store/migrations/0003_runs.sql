-- The state of a run has one name and one set of words everywhere: queued, running, needs_you, parked, done,
-- failed, cancelled, withdrawn. Withdrawn: it never began, and its message is in nobody's view.
ALTER TABLE turns RENAME COLUMN status TO state;

DROP INDEX turns_unsettled;

UPDATE turns SET state = 'queued' WHERE state = 'waiting';

UPDATE turns SET state = 'done' WHERE state = 'ok';

UPDATE turns SET state = 'withdrawn'
WHERE state IN ('failed', 'cancelled')
    AND EXISTS (SELECT 1 FROM messages AS m WHERE m.id = turns.message AND m.place IS NULL);

CREATE INDEX turns_unsettled ON turns (conversation, started_ms, id) WHERE state IN ('queued', 'running');

-- How it was asked for. 'run': by a plain segue run, whose repetition after a failure is its retry.
ALTER TABLE turns ADD COLUMN via TEXT NOT NULL DEFAULT '';

-- Whether its cost, or a part of it, is an estimate of ours: lists that add costs up say so.
ALTER TABLE turns ADD COLUMN cost_estimated INTEGER NOT NULL DEFAULT 0;

UPDATE turns SET cost_estimated = 1 WHERE cost_usd > 0 AND told LIKE '%"cost_estimated":true%';

-- What can be taken back: kind (edit, truncate, retry), what the message read and to whom it was said before,
-- the messages that went with it (JSON), and the last place there was then. run: of a retry, the run.
CREATE TABLE changes (
    id TEXT PRIMARY KEY NOT NULL,
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    revision INTEGER NOT NULL,
    facts TEXT NOT NULL,
    removed TEXT NOT NULL,
    last_place INTEGER NOT NULL,
    run TEXT,
    ms INTEGER NOT NULL,
    undone_ms INTEGER
) STRICT;

CREATE INDEX changes_conversation ON changes (conversation, ms, id);

-- What each voice of a conversation was told it may do and spend: JSON, read and written whole.
CREATE TABLE postures (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    granted TEXT NOT NULL,
    PRIMARY KEY (conversation, agent, role)
) STRICT;

-- A generation tells who holds a lease from all who held it before: whoever was overtaken writes nothing more.
-- It rises with every take, for all leases together, so that a lease that is given back leaves nothing behind.
CREATE TABLE counters (
    name TEXT PRIMARY KEY NOT NULL,
    n INTEGER NOT NULL
) STRICT;

ALTER TABLE leases ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;

-- Beside the host's name, which may change, and may be another's too.
ALTER TABLE sessions ADD COLUMN host_id TEXT;
ALTER TABLE kept ADD COLUMN host_id TEXT;

-- Who is logged in is a wall: a pin belongs to a login, and messages name it. For what was said before that was
-- noted, the login counts that was first seen: in the conversation, where a pin names it, else in the whole store.
CREATE TABLE logins (
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    PRIMARY KEY (agent, account)
) STRICT;

CREATE TABLE conversation_logins (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    PRIMARY KEY (conversation, agent, account)
) STRICT;

-- A pin of nobody knows which login has none ('').
CREATE TABLE pins_by_login (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES sessions (id),
    succeeded_ms INTEGER NOT NULL,
    made_under TEXT NOT NULL,
    PRIMARY KEY (conversation, role, agent, account, login)
) STRICT;

INSERT INTO pins_by_login (conversation, role, agent, account, login, session, succeeded_ms, made_under)
SELECT conversation, role, agent, account, '', session, succeeded_ms, made_under FROM pins;

DROP TABLE pins;

ALTER TABLE pins_by_login RENAME TO pins;

CREATE INDEX pins_session ON pins (session);
-- Events have their time, but for those of tools: the oldest are found by this.
CREATE INDEX events_passing ON events (ms) WHERE substr(event, 1, 14) <> '{"type":"tool-';

-- Whether an attempt ran tools may be unknown.
CREATE TABLE attempts_of_any_effect (
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
    tools_run INTEGER,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    UNIQUE (turn, seq)
) STRICT;

INSERT INTO attempts_of_any_effect SELECT * FROM attempts;

DROP TABLE attempts;

ALTER TABLE attempts_of_any_effect RENAME TO attempts;
