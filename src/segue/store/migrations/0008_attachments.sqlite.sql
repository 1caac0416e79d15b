CREATE TABLE attachment_data (
    file TEXT PRIMARY KEY NOT NULL,
    data BLOB NOT NULL
) STRICT;
