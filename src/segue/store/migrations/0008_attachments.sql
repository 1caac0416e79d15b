-- The files that were sent with a message, in order. file: the hash of the bytes, which stand in attachment_data
-- once, however many messages have them. A fork has rows of its own.
CREATE TABLE attachments (
    message TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    n INTEGER NOT NULL,
    file TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (message, n)
) STRICT;

CREATE INDEX attachments_file ON attachments (file);
