-- Runs that wait until somebody drives them. request: what was asked for (JSON), kept until the run is settled;
-- place: its place in the conversation's line; not_before_ms: parked until then; question: what the agent asked and
-- nobody has answered yet (JSON); claims: how often it was begun without getting as far as an attempt.
ALTER TABLE turns ADD COLUMN request TEXT;

ALTER TABLE turns ADD COLUMN place INTEGER;

ALTER TABLE turns ADD COLUMN not_before_ms INTEGER;

ALTER TABLE turns ADD COLUMN question TEXT;

ALTER TABLE turns ADD COLUMN claims INTEGER NOT NULL DEFAULT 0;

DROP INDEX turns_unsettled;

CREATE INDEX turns_unsettled ON turns (conversation, started_ms, id)
WHERE state IN ('queued', 'running', 'needs_you', 'parked');

-- What changed, in the order of the commits: subscribers read on from the last number they have seen. The triggers
-- write it, so that no writer can forget to. item: a message, or the number of an event. One row of counters gives
-- the numbers: whoever has drawn one commits before the next is drawn.
CREATE TABLE feed (
    seq INTEGER PRIMARY KEY NOT NULL,
    kind TEXT NOT NULL,
    conversation TEXT,
    run TEXT,
    item TEXT,
    ms INTEGER NOT NULL
) STRICT;

CREATE INDEX feed_ms ON feed (ms);

CREATE INDEX feed_run ON feed (run, seq);
