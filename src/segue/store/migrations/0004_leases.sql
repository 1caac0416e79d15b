-- A generation tells who holds a lease from all who held it before: whoever was overtaken writes nothing more.
-- It rises with every take, for all leases together, so that a lease that is given back leaves nothing behind.
CREATE TABLE counters (
    name TEXT PRIMARY KEY NOT NULL,
    n INTEGER NOT NULL
) STRICT;

ALTER TABLE leases ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;

-- Beside the host's name, which may change, and may be another's too.
ALTER TABLE sessions ADD COLUMN host_id TEXT;
ALTER TABLE kept ADD COLUMN host_id TEXT;
