-- name: of(ids)
SELECT message, file, name, media_type, size
FROM attachments WHERE message IN (:ids)
ORDER BY message, n;

-- name: add(message, n, file, name, media_type, size)!
INSERT INTO attachments (message, n, file, name, media_type, size)
VALUES (:message, :n, :file, :name, :media_type, :size);

-- name: keep(file, data)!
INSERT INTO attachment_data (file, data) VALUES (:file, :data) ON CONFLICT (file) DO NOTHING;

-- name: data(file)^
SELECT data FROM attachment_data WHERE file = :file;

-- name: in_conversation(conversation, file)^
-- Also of a message that was dropped, or waits.
SELECT a.file, a.name, a.media_type, a.size
FROM attachments AS a JOIN messages AS m ON m.id = a.message
WHERE m.conversation = :conversation AND a.file = :file
ORDER BY m.created_ms, m.id, a.n LIMIT 1;

-- name: copy(message, old)!
INSERT INTO attachments (message, n, file, name, media_type, size)
SELECT :message, n, file, name, media_type, size FROM attachments WHERE message = :old;

-- name: drop_unused()!
DELETE FROM attachment_data
WHERE NOT EXISTS (SELECT 1 FROM attachments AS a WHERE a.file = attachment_data.file);
