-- What a person has marked, and the end of the newest answer that somebody has looked at. What was answered before
-- this was noted counts as read.
ALTER TABLE conversations ADD COLUMN starred INTEGER NOT NULL DEFAULT 0;

ALTER TABLE conversations ADD COLUMN read_ms INTEGER;

UPDATE conversations SET read_ms = updated_ms;

-- How often messages went or came back in the middle: whoever has read some pages reads them again then. Unlike
-- rewrites, an edit in place does not count: no page begins elsewhere because of it.
ALTER TABLE conversations ADD COLUMN cuts INTEGER NOT NULL DEFAULT 0;

-- Sums over the last days do not read all turns.
CREATE INDEX turns_started ON turns (started_ms);
