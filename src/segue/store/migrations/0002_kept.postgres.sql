-- The pieces stand beside the manifests, so that every host has them. (With SQLite they are files.) They are
-- compressed already.
CREATE TABLE kept_chunks (
    name TEXT PRIMARY KEY NOT NULL,
    used_ms INTEGER NOT NULL,
    data BYTEA NOT NULL
);

ALTER TABLE kept_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
