-- door: how the run came to be. under: whose words its session was given, and its own (JSON). reserved_usd: what it is
-- expected to cost, from when it begins; NULL: not known. It counts while the run is running or needs_you. waits: the
-- budget whose reservations stand in its way. counts_for: the key of the conversation for which it is done, if that is not
-- its own: its cost counts there, too.
ALTER TABLE turns ADD COLUMN door TEXT;

ALTER TABLE turns ADD COLUMN under TEXT;

ALTER TABLE turns ADD COLUMN reserved_usd REAL;

ALTER TABLE turns ADD COLUMN waits TEXT;

ALTER TABLE turns ADD COLUMN counts_for TEXT;

-- What was spent in conversations that were removed, without any text. key: of the conversation, so that another one of
-- that key goes on with its budget.
CREATE TABLE deleted_costs (
    run TEXT PRIMARY KEY NOT NULL,
    key TEXT NOT NULL,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    account TEXT NOT NULL,
    mode TEXT,
    agent_version TEXT,
    flow TEXT,
    tier INTEGER,
    input INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    output INTEGER,
    usd REAL NOT NULL,
    estimated INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX deleted_costs_ended ON deleted_costs (ended_ms);

CREATE INDEX deleted_costs_key ON deleted_costs (key);

CREATE INDEX deleted_costs_flow ON deleted_costs (flow) WHERE flow IS NOT NULL;

CREATE INDEX turns_counts_for ON turns (counts_for) WHERE counts_for IS NOT NULL;

CREATE INDEX turns_begun ON turns (state) WHERE state IN ('running', 'needs_you');

CREATE INDEX turns_waits ON turns (waits, started_ms, id) WHERE waits IS NOT NULL;

-- The last cost of a voice is looked for before each turn.
CREATE INDEX turns_priced ON turns (agent, role, ended_ms) WHERE state = 'done' AND cost_usd > 0;

-- Summaries that were written for a conversation before its account was switched: their own turns are gone.
INSERT INTO deleted_costs (run, key, agent, role, account, usd, estimated, started_ms, ended_ms)
SELECT 'summary-' || id, conversation, from_agent, '', from_account, cost_usd, 0, at_ms, at_ms
FROM carries WHERE cost_usd IS NOT NULL;

-- How many bytes of the newest turn were left out of a carry, because that turn alone was too long.
ALTER TABLE carries ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
