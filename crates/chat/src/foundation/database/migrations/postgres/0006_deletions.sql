-- When the last row of the conversation was removed; NULL while rows are left. Until this migration, a deletion removed all rows at once.
ALTER TABLE deleted_conversations ADD COLUMN rows_removed_at BIGINT;
UPDATE deleted_conversations SET rows_removed_at = deleted_at;
CREATE INDEX deleted_conversations_with_rows ON deleted_conversations (deleted_at, id) WHERE rows_removed_at IS NULL;

-- The removal of a deleted conversation finds its mentions here.
CREATE INDEX mentions_by_conversation ON mentions (conversation_id, seq);

-- Finds the message of a sender with a client id, and counts the messages of a sender. NULL is not equal to NULL.
CREATE UNIQUE INDEX messages_by_sender ON messages (conversation_id, sender_id, client_id) INCLUDE (seq);
DROP INDEX messages_by_client_id;

-- The rows of a deleted conversation are removed after the conversation itself.
ALTER TABLE messages DROP CONSTRAINT messages_conversation_id_fkey;
ALTER TABLE mentions DROP CONSTRAINT mentions_conversation_id_fkey;

-- Expired sessions of visitors are found here and removed.
CREATE INDEX sessions_of_visitors ON sessions (last_seen) WHERE status = 'anonymous';
