-- A long conversation is read from this index alone. (PostgreSQL bounds the size of an index's rows.)
CREATE INDEX messages_standing ON messages (conversation, removed_ms, place, id, facts, revision, size);
