-- Images are compressed already.
CREATE TABLE attachment_data (
    file TEXT PRIMARY KEY NOT NULL,
    data BYTEA NOT NULL
);

ALTER TABLE attachment_data ALTER COLUMN data SET STORAGE EXTERNAL;
