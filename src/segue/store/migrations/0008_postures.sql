-- What each voice of a conversation was told it may do and spend: JSON, read and written whole.
CREATE TABLE postures (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    granted TEXT NOT NULL,
    PRIMARY KEY (conversation, agent, role)
) STRICT;
