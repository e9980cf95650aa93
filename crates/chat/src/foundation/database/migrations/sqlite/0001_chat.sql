-- What this database is called: the store remembers it, and refuses another.
CREATE TABLE parlor (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE conversations (
    id              TEXT    NOT NULL PRIMARY KEY,
    -- direct, group, support
    kind            TEXT    NOT NULL,
    title           TEXT,
    -- Of a direct conversation: both users in order, with a blank between; there is one for each pair.
    pair            TEXT    UNIQUE,
    -- 1 if anybody may join a group.
    open            INTEGER NOT NULL DEFAULT 0,
    -- all, since_join
    history         TEXT    NOT NULL DEFAULT 'all',
    -- Of a support conversation: urgent, high, normal, low.
    priority        TEXT,
    created_by      TEXT,
    created_at      INTEGER NOT NULL,
    -- What makes a repeated creation find the first: the caller's key.
    idempotency_key TEXT,
    -- The newest message. Everything up to it is committed.
    last_seq        INTEGER NOT NULL DEFAULT 0,
    -- When that was created, or the conversation.
    last_at         INTEGER NOT NULL,
    -- Rises with every message, edit and delete.
    rev             INTEGER NOT NULL DEFAULT 0,
    -- Rises with every change of members.
    members_version INTEGER NOT NULL DEFAULT 0,
    member_count    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX conversations_by_idempotency_key ON conversations (created_by, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- Ids that were used: what is kept about a conversation outside must never be about another one.
CREATE TABLE deleted_conversations (
    id         TEXT    NOT NULL PRIMARY KEY,
    deleted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
    conversation_id  TEXT    NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    user_id          TEXT    NOT NULL,
    -- owner, admin, member
    role             TEXT    NOT NULL,
    joined_at        INTEGER NOT NULL,
    -- The conversation's last message then, and its `members_version` after it: a second membership of a user has another one.
    joined_seq       INTEGER NOT NULL,
    joined_version   INTEGER NOT NULL,
    -- The receipts; they only rise.
    delivered_seq    INTEGER NOT NULL,
    read_seq         INTEGER NOT NULL,
    -- What counts as read for the badge; marking unread lowers it.
    badge_seq        INTEGER NOT NULL,
    -- The user's own messages after `badge_seq`: none, but after marking unread.
    own_after        INTEGER NOT NULL DEFAULT 0,
    -- Rises with every change of badge or mute, so that a late step does not undo a newer one.
    position_version INTEGER NOT NULL DEFAULT 0,
    -- Until when the conversation stays out of the total; 0 for not muted.
    muted_until      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_user ON members (user_id);
CREATE INDEX members_by_mute ON members (muted_until) WHERE muted_until > 0;

CREATE TABLE messages (
    conversation_id TEXT    NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    seq             INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    sender_id       TEXT    NOT NULL,
    -- user, admin, service: what other services show beside a message.
    sender_role     TEXT    NOT NULL,
    content         TEXT    NOT NULL,
    -- JSON.
    metadata        TEXT,
    client_id       TEXT,
    created_at      INTEGER NOT NULL,
    edited_at       INTEGER,
    deleted_at      INTEGER,
    -- The conversation's `rev` when it was last changed.
    rev             INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, seq)
) STRICT, WITHOUT ROWID;
-- Ids begin with the time: what was written lately is found here, too.
CREATE UNIQUE INDEX messages_by_id ON messages (id);
CREATE UNIQUE INDEX messages_by_client_id ON messages (conversation_id, sender_id, client_id) WHERE client_id IS NOT NULL;
-- What was changed after it was sent; new messages are found by `seq`.
CREATE INDEX messages_by_rev ON messages (conversation_id, rev) WHERE edited_at IS NOT NULL OR deleted_at IS NOT NULL;

-- Who is mentioned where.
CREATE TABLE mentions (
    user_id         TEXT    NOT NULL,
    conversation_id TEXT    NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    seq             INTEGER NOT NULL,
    PRIMARY KEY (user_id, conversation_id, seq)
) STRICT, WITHOUT ROWID;

-- What outlives every session of a user.
CREATE TABLE users (
    id             TEXT    NOT NULL PRIMARY KEY,
    -- Since when they are blocked; absent if they are not.
    blocked_at     INTEGER,
    blocked_reason TEXT,
    -- Tokens issued up to then open no session.
    revoked_before INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    user_id    TEXT    NOT NULL PRIMARY KEY,
    device_id  TEXT    NOT NULL,
    -- login, anonymous
    status     TEXT    NOT NULL,
    login_at   INTEGER NOT NULL,
    -- Written now and then, not with each request.
    last_seen  INTEGER NOT NULL,
    ip_address TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
