-- Our own copies of native sessions. The manifest (JSON) says of which pieces a copy is made up; what is added
-- up on every turn stands before it. packed: the compressed size; garbage: what the copy no longer needs of the
-- pieces that were stored for it; version: whoever changes a copy must have seen the one before; conversation:
-- the one that kept it last. Others may share the session: the copy goes with the last of them.
CREATE TABLE kept (
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    native_id TEXT NOT NULL,
    conversation TEXT NOT NULL,
    host TEXT NOT NULL,
    home TEXT NOT NULL,
    cwd TEXT NOT NULL,
    size INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    garbage INTEGER NOT NULL,
    version INTEGER NOT NULL,
    kept_ms INTEGER NOT NULL,
    used_ms INTEGER NOT NULL,
    manifest TEXT NOT NULL,
    PRIMARY KEY (agent, account, native_id)
) STRICT;

CREATE INDEX kept_conversation ON kept (conversation);
CREATE INDEX kept_used ON kept (used_ms, packed, garbage);
