-- Identifiers are ordered by their bytes, as in SQLite.

-- What this database is called: the store remembers it, and refuses another.
CREATE TABLE parlor (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE conversations (
    id              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    -- direct, group, support
    kind            TEXT NOT NULL,
    title           TEXT,
    -- Of a direct conversation: both users in order, with a blank between; there is one for each pair.
    pair            TEXT COLLATE "C" UNIQUE,
    -- 1 if anybody may join a group.
    open            BIGINT NOT NULL DEFAULT 0,
    -- all, since_join
    history         TEXT NOT NULL DEFAULT 'all',
    -- Of a support conversation: urgent, high, normal, low.
    priority        TEXT,
    created_by      TEXT COLLATE "C",
    created_at      BIGINT NOT NULL,
    -- What makes a repeated creation find the first: the caller's key.
    idempotency_key TEXT COLLATE "C",
    -- The newest message. Everything up to it is committed.
    last_seq        BIGINT NOT NULL DEFAULT 0,
    -- When that was created, or the conversation.
    last_at         BIGINT NOT NULL,
    -- Rises with every message, edit and delete.
    rev             BIGINT NOT NULL DEFAULT 0,
    -- Rises with every change of members.
    members_version BIGINT NOT NULL DEFAULT 0,
    member_count    BIGINT NOT NULL DEFAULT 0
-- Room for the next version of a row beside it: most of them change with every message.
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX conversations_by_idempotency_key ON conversations (created_by, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- Ids that were used: what is kept about a conversation outside must never be about another one.
CREATE TABLE deleted_conversations (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    deleted_at BIGINT NOT NULL
);

CREATE TABLE members (
    conversation_id  TEXT COLLATE "C" NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    user_id          TEXT COLLATE "C" NOT NULL,
    -- owner, admin, member
    role             TEXT NOT NULL,
    joined_at        BIGINT NOT NULL,
    -- The conversation's last message then, and its `members_version` after it: a second membership of a user has another one.
    joined_seq       BIGINT NOT NULL,
    joined_version   BIGINT NOT NULL,
    -- The receipts; they only rise.
    delivered_seq    BIGINT NOT NULL,
    read_seq         BIGINT NOT NULL,
    -- What counts as read for the badge; marking unread lowers it.
    badge_seq        BIGINT NOT NULL,
    -- The user's own messages after `badge_seq`: none, but after marking unread.
    own_after        BIGINT NOT NULL DEFAULT 0,
    -- Rises with every change of badge or mute, so that a late step does not undo a newer one.
    position_version BIGINT NOT NULL DEFAULT 0,
    -- Until when the conversation stays out of the total; 0 for not muted.
    muted_until      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (conversation_id, user_id)
) WITH (fillfactor = 70);
CREATE INDEX members_by_user ON members (user_id);
CREATE INDEX members_by_mute ON members (muted_until) WHERE muted_until > 0;

CREATE TABLE messages (
    conversation_id TEXT COLLATE "C" NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    seq             BIGINT NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    sender_id       TEXT COLLATE "C" NOT NULL,
    -- user, admin, service: what other services show beside a message.
    sender_role     TEXT NOT NULL,
    content         TEXT NOT NULL,
    -- JSON.
    metadata        TEXT,
    client_id       TEXT COLLATE "C",
    created_at      BIGINT NOT NULL,
    edited_at       BIGINT ,
    deleted_at      BIGINT ,
    -- The conversation's `rev` when it was last changed.
    rev             BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, seq)
);
-- Ids begin with the time: what was written lately is found here, too.
CREATE UNIQUE INDEX messages_by_id ON messages (id);
CREATE UNIQUE INDEX messages_by_client_id ON messages (conversation_id, sender_id, client_id) WHERE client_id IS NOT NULL;
-- What was changed after it was sent; new messages are found by `seq`.
CREATE INDEX messages_by_rev ON messages (conversation_id, rev) WHERE edited_at IS NOT NULL OR deleted_at IS NOT NULL;

-- Who is mentioned where.
CREATE TABLE mentions (
    user_id         TEXT COLLATE "C" NOT NULL,
    conversation_id TEXT COLLATE "C" NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    seq             BIGINT NOT NULL,
    PRIMARY KEY (user_id, conversation_id, seq)
);

-- What outlives every session of a user.
CREATE TABLE users (
    id             TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    -- Since when they are blocked; absent if they are not.
    blocked_at     BIGINT ,
    blocked_reason TEXT,
    -- Tokens issued up to then open no session.
    revoked_before BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE sessions (
    user_id    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    device_id  TEXT NOT NULL,
    -- login, anonymous
    status     TEXT NOT NULL,
    login_at   BIGINT NOT NULL,
    -- Written now and then, not with each request.
    last_seen  BIGINT NOT NULL,
    ip_address TEXT NOT NULL
);
