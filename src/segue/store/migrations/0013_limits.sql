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
