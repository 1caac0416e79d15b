-- A text as it is compared in a search. (SQLite gets the same function from the program.) The column's own order knows
-- only ASCII letters; this one knows those of the database's locale.
CREATE FUNCTION folded(words text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower(words COLLATE "default")';
