-- How many bytes of the newest turn were left out of a carry, because that turn alone was too long.
ALTER TABLE carries ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
