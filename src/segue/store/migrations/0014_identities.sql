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
