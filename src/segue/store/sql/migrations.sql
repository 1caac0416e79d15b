-- name: newest()^
SELECT version, checksum FROM segue_migrations ORDER BY version DESC LIMIT 1;

-- name: applied()
SELECT version, checksum FROM segue_migrations ORDER BY version;

-- name: note(version, name, checksum, applied_ms)!
INSERT INTO segue_migrations (version, name, checksum, applied_ms)
VALUES (:version, :name, :checksum, :applied_ms);
