-- The ages of leases are told by the server's clock: those of the hosts may differ. (SQLite gets the same function
-- from the program.)
CREATE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql VOLATILE
AS 'SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)';
