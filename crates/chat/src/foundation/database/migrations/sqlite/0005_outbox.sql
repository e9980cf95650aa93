-- Committed changes that may not be in the store yet. An entry is inserted in the transaction of its change, and deleted
-- after the store has been updated. Ids are never used again, so a late deletion cannot hit another entry.
CREATE TABLE outbox (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    -- Entries of one subject are applied in the order of their ids, which is the order of their commits.
    subject    TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    -- JSON; the kind defines the format.
    payload    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    -- From this time on, any node may claim the entry.
    due_at     INTEGER NOT NULL,
    -- Increases with each claim. An acknowledgement names the claim, so an older one has no effect.
    claims     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX outbox_by_subject ON outbox (subject, id);

-- All messages of a node whose ids begin with an earlier time are applied to the store.
CREATE TABLE apply_watermarks (
    node           TEXT    NOT NULL PRIMARY KEY,
    applied_before INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
