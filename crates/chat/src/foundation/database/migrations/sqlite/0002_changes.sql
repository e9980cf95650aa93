-- What was edited or deleted lately, for those who catch up with a node that ended.
CREATE INDEX messages_by_change ON messages (COALESCE(deleted_at, edited_at), id)
    WHERE edited_at IS NOT NULL OR deleted_at IS NOT NULL;
