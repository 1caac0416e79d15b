-- The version of the CLI that ran a turn, so that usage can be added up by it. Earlier turns did not record it.
ALTER TABLE turns ADD COLUMN agent_version TEXT;
