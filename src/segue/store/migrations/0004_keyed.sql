-- A caller's key belongs to one run of a conversation: the same key again is the same run. body: a digest of what
-- was asked with it. Receipts are dropped after 30 days.
CREATE TABLE receipts (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    run TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    body TEXT NOT NULL,
    ms INTEGER NOT NULL,
    PRIMARY KEY (conversation, key)
) STRICT;

CREATE INDEX receipts_ms ON receipts (ms);

-- Any process may ask for the end of a turn; the one that runs it looks here.
ALTER TABLE turns ADD COLUMN cancel_asked_ms INTEGER;
