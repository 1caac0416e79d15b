-- What was carried over from one account to another, by whose wish. The rows outlive their conversations and contain no
-- text. message: the block, as long as it exists. mode: raw, summary; none if nothing could be carried, and why says why.
CREATE TABLE carries (
    id TEXT PRIMARY KEY NOT NULL,
    conversation TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    from_agent TEXT NOT NULL,
    from_account TEXT NOT NULL,
    to_agent TEXT NOT NULL,
    to_account TEXT NOT NULL,
    mode TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    omitted INTEGER NOT NULL,
    asked_by TEXT NOT NULL,
    cost_usd REAL,
    message TEXT,
    why TEXT NOT NULL
) STRICT;

CREATE INDEX carries_conversation ON carries (conversation, at_ms);
