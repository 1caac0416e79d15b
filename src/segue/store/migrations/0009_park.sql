-- held_by: the run whose failure holds up the conversation's line; it stays there until somebody lets it go on.
ALTER TABLE turns ADD COLUMN held_by TEXT;
