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

-- What is used of the usage limits of a login, the latest per window. span: the window, such as 5h. used: 0 to 1.
CREATE TABLE limits (
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    span TEXT NOT NULL,
    used REAL,
    resets_ms INTEGER,
    source TEXT NOT NULL,
    seen_ms INTEGER NOT NULL,
    PRIMARY KEY (agent, account, login, span)
) STRICT;

-- What paid for the last turn of a login.
CREATE TABLE payers (
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    pays TEXT NOT NULL,
    seen_ms INTEGER NOT NULL,
    PRIMARY KEY (agent, account, login)
) STRICT;

-- Who answered under an account: the login, and the variables that say where requests go (a hash). A mark names a login.
-- The first route of a login has the login's own name, so that marks from before stay true; others get names of their own.
CREATE TABLE identities (
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    route TEXT NOT NULL,
    mark TEXT NOT NULL,
    seen_ms INTEGER NOT NULL,
    PRIMARY KEY (agent, account, login, route),
    UNIQUE (agent, account, mark)
) STRICT;
