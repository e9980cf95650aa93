//! The rows that unread counts are derived from.
//!
//! Invariants:
//! 1. Marking as read or unread and setting a mute increment `position_version` under the lock of the member's row, so
//!    the later change has the higher version. Marking as unread locks the row by a statement of its own: it counts
//!    messages, and a statement that waited for the lock would not see messages that were committed meanwhile.
//! 2. Receipts only rise. The badge position never falls below the `seq` at which the membership began.
//! 3. Marking as read or delivered never passes the conversation's `last_seq` that the statement sees.

#[cfg(test)]
mod tests;

use sqlx::FromRow;

use super::{MarkedPosition, count};
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{
    Database, PerBackend, for_backend, read_statement, to_db_integer, tx_statement, write_statement,
};
use crate::ids::{ConversationId, UserId};
use crate::outbox::{self, OutboxEntry};

/// Users per statement.
pub(super) const USERS_PER_STATEMENT: usize = 32;
/// Latest end of a mute: the last millisecond of the year 9999.
const MAX_MUTED_UNTIL_MS: u64 = 253_402_300_799_999;

macro_rules! position_columns {
    () => {
        "m.user_id, m.conversation_id, m.joined_version, m.position_version, c.last_seq, m.badge_seq, m.own_after, \
         m.muted_until, c.member_count"
    };
}

const SELECT_POSITIONS_OF_USERS: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM members m JOIN conversations c ON c.id = m.conversation_id WHERE m.user_id IN (\
     $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, \
     $26, $27, $28, $29, $30, $31, $32)"
);

/// Positions of all members of these conversations, except of those with more than $2 members.
const SELECT_POSITIONS_IN_SQLITE: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM conversations c JOIN members m ON m.conversation_id = c.id \
     WHERE c.id IN (SELECT value FROM json_each($1)) AND c.member_count <= $2 ORDER BY m.conversation_id, m.user_id"
);
const SELECT_POSITIONS_IN_POSTGRES: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM conversations c JOIN members m ON m.conversation_id = c.id \
     WHERE c.id = ANY($1) AND c.member_count <= $2 ORDER BY m.conversation_id, m.user_id"
);

const SELECT_POSITION: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM members m JOIN conversations c ON c.id = m.conversation_id WHERE m.conversation_id = $1 AND m.user_id = $2"
);

const SELECT_POSITIONS_WITH_MENTIONS: &str = concat!(
    "SELECT ",
    position_columns!(),
    ", (SELECT COUNT(*) FROM mentions x WHERE x.user_id = m.user_id AND x.conversation_id = m.conversation_id \
     AND x.seq > m.badge_seq) AS mentions \
     FROM members m JOIN conversations c ON c.id = m.conversation_id WHERE m.user_id = $1 \
     ORDER BY c.last_at DESC, m.conversation_id"
);

/// Position of a member with the user's total.
const SELECT_POSITION_WITH_TOTAL: &str = concat!(
    "SELECT ",
    position_columns!(),
    ", (SELECT CAST(COALESCE(SUM(CASE WHEN d.last_seq > n.badge_seq + n.own_after \
     THEN d.last_seq - n.badge_seq - n.own_after ELSE 0 END), 0) AS BIGINT) FROM members n JOIN conversations d ON d.id = n.conversation_id \
     WHERE n.user_id = m.user_id AND n.muted_until <= $1) AS total \
     FROM members m JOIN conversations c ON c.id = m.conversation_id WHERE m.conversation_id = $2 AND m.user_id = $3"
);

// `seq + 0` is in no index, so the member's own messages are found by their sender: the range may contain very many
// messages of others.
macro_rules! update_read {
    () => {
        "UPDATE members SET \
     own_after = CASE WHEN own_after > 0 AND c.seq >= c.last_seq THEN 0 \
       WHEN own_after > 0 AND badge_seq < c.seq THEN own_after - (SELECT COUNT(*) FROM messages o \
         WHERE o.conversation_id = members.conversation_id AND o.sender_id = members.user_id \
         AND o.seq + 0 > members.badge_seq AND o.seq + 0 <= c.seq) ELSE own_after END, \
     badge_seq = CASE WHEN badge_seq < c.seq THEN c.seq ELSE badge_seq END, \
     read_seq = CASE WHEN read_seq < c.seq THEN c.seq ELSE read_seq END, \
     delivered_seq = CASE WHEN delivered_seq < c.seq THEN c.seq ELSE delivered_seq END, \
     position_version = position_version + 1 \
     FROM (SELECT id, last_seq, CASE WHEN last_seq < $1 THEN last_seq ELSE $1 END AS seq \
       FROM conversations WHERE id = $2) AS c \
     WHERE members.conversation_id = c.id AND members.user_id = $3 \
     AND (badge_seq < c.seq OR read_seq < c.seq OR delivered_seq < c.seq) \
     RETURNING delivered_seq, read_seq"
    };
}
/// Marks messages as read up to a message ($1).
pub(crate) const UPDATE_READ: &str = update_read!();
/// Does both in one round trip.
const UPDATE_READ_WITH_ENTRY_POSTGRES: &str = concat!(
    "WITH marked AS (",
    update_read!(),
    "), entry AS (INSERT INTO outbox (subject, kind, payload, created_at, due_at) \
     SELECT $4::text, $5::text, $6::text, $7::bigint, $8::bigint FROM marked RETURNING id) \
     SELECT delivered_seq, read_seq, id FROM marked, entry"
);

const UPDATE_DELIVERED: &str = "UPDATE members SET delivered_seq = c.seq \
     FROM (SELECT id, CASE WHEN last_seq < $1 THEN last_seq ELSE $1 END AS seq FROM conversations WHERE id = $2) AS c \
     WHERE members.conversation_id = c.id AND members.user_id = $3 AND delivered_seq < c.seq \
     RETURNING delivered_seq, read_seq";

const LOCK_POSITION: &str = "UPDATE members SET position_version = position_version + 1 \
     WHERE conversation_id = $1 AND user_id = $2 RETURNING badge_seq";

/// Marks messages as unread; `$seq` is the `seq` of one of the member's own messages.
macro_rules! update_unread {
    ($seq:literal) => {
        concat!(
            "UPDATE members SET \
             own_after = own_after + (SELECT COUNT(*) FROM messages o WHERE o.conversation_id = members.conversation_id \
               AND o.sender_id = members.user_id AND ",
            $seq,
            " <= members.badge_seq AND ",
            $seq,
            " > CASE WHEN members.joined_seq < $1 THEN $1 ELSE members.joined_seq END), \
             badge_seq = CASE WHEN badge_seq <= $1 THEN badge_seq WHEN joined_seq < $1 THEN $1 ELSE joined_seq END \
             WHERE conversation_id = $2 AND user_id = $3"
        )
    };
}

/// Reads the messages of the range.
const UPDATE_UNREAD_NEAR: &str = update_unread!("o.seq");
/// Reads the member's own messages, by the index of senders.
const UPDATE_UNREAD_FAR: &str = update_unread!("o.seq + 0");
/// Longest range whose messages are read to count the member's own.
const MAX_NEAR_RANGE: i64 = 1_000;

const UPDATE_MUTE: &str = "UPDATE members SET muted_until = $1, position_version = position_version + 1 \
     WHERE conversation_id = $2 AND user_id = $3";

const SELECT_EXPIRED_MUTES: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM members m JOIN conversations c ON c.id = m.conversation_id \
     WHERE m.muted_until > 0 AND m.muted_until <= $1 ORDER BY m.muted_until, m.conversation_id, m.user_id LIMIT $2"
);

/// Clears an expired mute. `position_version` stays, because an expired mute means the same as no mute.
const CLEAR_MUTE: &str = "UPDATE members SET muted_until = 0 \
     WHERE conversation_id = $1 AND user_id = $2 AND muted_until = $3";

const RECEIPTS: &str = "SELECT user_id, delivered_seq, read_seq FROM members \
     WHERE conversation_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3";

const USERS: &str =
    "SELECT DISTINCT user_id FROM members WHERE user_id > $1 ORDER BY user_id LIMIT $2";

const HAS_CONVERSATION: &str = "SELECT COUNT(*) FROM conversations WHERE id = $1";

const COUNT_USERS: &str = "SELECT COUNT(DISTINCT user_id) FROM members";

/// Position of a member in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub(super) struct MemberPosition {
    #[sqlx(try_from = "String")]
    pub(super) user_id: UserId,
    #[sqlx(try_from = "String")]
    pub(super) conversation_id: ConversationId,
    #[sqlx(try_from = "i64")]
    pub(super) joined_version: u64,
    #[sqlx(try_from = "i64")]
    pub(super) position_version: u64,
    #[sqlx(try_from = "i64")]
    pub(super) last_seq: u64,
    #[sqlx(try_from = "i64")]
    pub(super) badge_seq: u64,
    #[sqlx(try_from = "i64")]
    pub(super) own_after: u64,
    #[sqlx(try_from = "i64")]
    pub(super) muted_until: u64,
    #[sqlx(try_from = "i64")]
    pub(super) member_count: u64,
}

impl MemberPosition {
    pub(super) fn unread_count(&self) -> u64 {
        count(self.last_seq, self.badge_seq, self.own_after)
    }

    pub(super) fn is_muted(&self, now: u64) -> bool {
        self.muted_until > now
    }

    /// Contribution of the conversation to the user's total.
    pub(super) fn total_share(&self, now: u64) -> u64 {
        if self.is_muted(now) {
            0
        } else {
            self.unread_count()
        }
    }
}

/// Position with the number of unread messages that mention the user.
#[derive(FromRow)]
pub(super) struct PositionWithMentions {
    #[sqlx(flatten)]
    pub(super) position: MemberPosition,
    #[sqlx(try_from = "i64")]
    pub(super) mentions: u64,
}

/// Position with the user's total.
#[derive(FromRow)]
pub(super) struct PositionWithTotal {
    #[sqlx(flatten)]
    pub(super) position: MemberPosition,
    #[sqlx(try_from = "i64")]
    pub(super) total: u64,
}

/// How far a member has received and read the messages of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub(super) struct ReceiptPosition {
    #[sqlx(try_from = "i64")]
    pub(super) delivered_seq: u64,
    #[sqlx(try_from = "i64")]
    pub(super) read_seq: u64,
}

/// Receipt position with the id of the outbox entry.
#[derive(FromRow)]
struct PositionWithEntry {
    #[sqlx(flatten)]
    position: ReceiptPosition,
    id: i64,
}

/// Receipt of one member.
#[derive(FromRow)]
pub(super) struct ReceiptRow {
    #[sqlx(try_from = "String")]
    pub(super) user_id: UserId,
    #[sqlx(flatten)]
    pub(super) position: ReceiptPosition,
}

/// Reads the positions of up to [`USERS_PER_STATEMENT`] users.
pub(super) async fn find_positions_of_users(
    database: &Database,
    users: &[UserId],
) -> Result<Vec<MemberPosition>> {
    debug_assert!(users.len() <= USERS_PER_STATEMENT);
    let Some(first) = users.first() else {
        return Ok(Vec::new());
    };
    let rows = for_backend!(database.reader(), pool => {
        let mut query = sqlx::query_as(SELECT_POSITIONS_OF_USERS);
        for nth in 0..USERS_PER_STATEMENT {
            query = query.bind(users.get(nth).unwrap_or(first).as_str());
        }
        query.fetch_all(pool).await?
    });
    Ok(rows)
}

/// Reads the positions of the members of these conversations, except of those with more than `max_members` members,
/// ordered by conversation.
pub(super) async fn find_positions_in(
    database: &Database,
    conversations: &[ConversationId],
    max_members: u64,
) -> Result<Vec<MemberPosition>> {
    let max_members = to_db_integer(max_members);
    Ok(match database.reader() {
        PerBackend::Sqlite(pool) => {
            let ids = serde_json::to_string(conversations).expect("identifiers are JSON");
            let query = sqlx::query_as(SELECT_POSITIONS_IN_SQLITE).bind(ids);
            query.bind(max_members).fetch_all(pool).await?
        }
        PerBackend::Postgres(pool) => {
            let ids: Vec<&str> = conversations.iter().map(ConversationId::as_str).collect();
            let query = sqlx::query_as(SELECT_POSITIONS_IN_POSTGRES).bind(ids);
            query.bind(max_members).fetch_all(pool).await?
        }
    })
}

/// Reads the position of a user in a conversation; `None` if the user is not a member.
pub(super) async fn find_position(
    database: &Database,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<Option<MemberPosition>> {
    Ok(read_statement!(
        database,
        query_as(SELECT_POSITION, conversation.as_str(), user.as_str()).fetch_optional
    ))
}

/// Reads the positions of a user with mentions, ordered by the last activity of the conversation, newest first.
pub(super) async fn find_positions_with_mentions(
    database: &Database,
    user: &UserId,
) -> Result<Vec<PositionWithMentions>> {
    Ok(read_statement!(
        database,
        query_as(SELECT_POSITIONS_WITH_MENTIONS, user.as_str()).fetch_all
    ))
}

/// Reads the position of a user and the user's total; `None` if the user is not a member.
pub(super) async fn find_position_with_total(
    database: &Database,
    conversation: &ConversationId,
    user: &UserId,
    now: u64,
) -> Result<Option<PositionWithTotal>> {
    let now = to_db_integer(now);
    Ok(read_statement!(
        database,
        query_as(
            SELECT_POSITION_WITH_TOTAL,
            now,
            conversation.as_str(),
            user.as_str()
        )
        .fetch_optional
    ))
}

/// Marks messages as read up to `seq`. Returns the new receipt positions and the outbox entry if the row changed.
pub(super) async fn mark_read(
    database: &Database,
    now: Timestamp,
    member: &MarkedPosition,
    seq: u64,
) -> Result<Option<(ReceiptPosition, OutboxEntry)>> {
    let (conversation, user) = (member.conversation.as_str(), member.user.as_str());
    let seq = to_db_integer(seq);
    if let PerBackend::Postgres(pool) = database.pools() {
        let entry = outbox::NewEntry::of(member, now);
        let query = sqlx::query_as(UPDATE_READ_WITH_ENTRY_POSTGRES)
            .bind(seq)
            .bind(conversation)
            .bind(user)
            .bind(entry.subject)
            .bind(entry.kind)
            .bind(entry.payload)
            .bind(entry.created_at)
            .bind(entry.due_at);
        let marked: Option<PositionWithEntry> = query.fetch_optional(pool).await?;
        return Ok(marked.map(|it| (it.position, OutboxEntry::from_id(it.id))));
    }
    let mut tx = database.begin().await?;
    let query = tx_statement!(
        tx,
        query_as(UPDATE_READ, seq, conversation, user).fetch_optional
    );
    let Some(position) = query else {
        return Ok(None);
    };
    let entry = outbox::insert(&mut tx, now, member).await?;
    tx.commit().await?;
    Ok(Some((position, entry)))
}

/// Marks messages as delivered up to `seq`. Returns the new receipt positions if the row changed.
pub(super) async fn mark_delivered(
    database: &Database,
    conversation: &ConversationId,
    user: &UserId,
    seq: u64,
) -> Result<Option<ReceiptPosition>> {
    Ok(
        write_statement!(database, c => sqlx::query_as(UPDATE_DELIVERED)
            .bind(to_db_integer(seq))
            .bind(conversation.as_str())
            .bind(user.as_str())
            .fetch_optional(c)
            .await?),
    )
}

/// Marks the messages from `seq` on as unread. Returns the outbox entry; `None` if the user is not a member.
pub(super) async fn mark_unread(
    database: &Database,
    now: Timestamp,
    member: &MarkedPosition,
    seq: u64,
) -> Result<Option<OutboxEntry>> {
    let (conversation, user) = (member.conversation.as_str(), member.user.as_str());
    let below = to_db_integer(seq.saturating_sub(1));
    let mut tx = database.begin().await?;
    let badge_seq: Option<i64> = tx_statement!(
        tx,
        query_scalar(LOCK_POSITION, conversation, user).fetch_optional
    );
    let update = match badge_seq {
        None => return Ok(None),
        Some(badge_seq) if badge_seq.saturating_sub(below) > MAX_NEAR_RANGE => UPDATE_UNREAD_FAR,
        Some(_) => UPDATE_UNREAD_NEAR,
    };
    for_backend!(tx.connection(), c => {
        sqlx::query(update).bind(below).bind(conversation).bind(user).execute(c).await?;
    });
    let entry = outbox::insert(&mut tx, now, member).await?;
    tx.commit().await?;
    Ok(Some(entry))
}

/// Sets the end of the mute; 0 ends it. Returns the outbox entry; `None` if the user is not a member.
pub(super) async fn set_mute(
    database: &Database,
    now: Timestamp,
    member: &MarkedPosition,
    until: u64,
) -> Result<Option<OutboxEntry>> {
    let (conversation, user) = (member.conversation.as_str(), member.user.as_str());
    let until = to_db_integer(until.min(MAX_MUTED_UNTIL_MS));
    let mut tx = database.begin().await?;
    let changed = for_backend!(tx.connection(), c => {
        let update = sqlx::query(UPDATE_MUTE).bind(until).bind(conversation).bind(user);
        update.execute(c).await?.rows_affected()
    });
    if changed == 0 {
        return Ok(None);
    }
    let entry = outbox::insert(&mut tx, now, member).await?;
    tx.commit().await?;
    Ok(Some(entry))
}

/// Reads positions whose mute has expired, the oldest expiry first.
pub(super) async fn find_expired_mutes(
    database: &Database,
    now: u64,
    limit: u32,
) -> Result<Vec<MemberPosition>> {
    Ok(read_statement!(
        database,
        query_as(SELECT_EXPIRED_MUTES, to_db_integer(now), i64::from(limit)).fetch_all
    ))
}

/// Clears expired mutes, unless they were set again.
pub(super) async fn clear_mutes(database: &Database, expired: &[MemberPosition]) -> Result<()> {
    macro_rules! clear {
        ($position:expr, $to:expr) => {
            sqlx::query(CLEAR_MUTE)
                .bind($position.conversation_id.as_str())
                .bind($position.user_id.as_str())
                .bind(to_db_integer($position.muted_until))
                .execute($to)
                .await?
        };
    }
    match database.pools() {
        // One transaction per row: a transaction over many conversations would hold row locks that block their senders.
        PerBackend::Postgres(pool) => {
            for position in expired {
                clear!(position, pool);
            }
        }
        PerBackend::Sqlite(_) => {
            let mut tx = database.begin().await?;
            for position in expired {
                for_backend!(tx.connection(), c => {
                    clear!(position, c);
                });
            }
            tx.commit().await?;
        }
    }
    Ok(())
}

/// Reads receipts of a conversation, ordered by user id.
pub(super) async fn receipts(
    database: &Database,
    conversation: &ConversationId,
    after: &str,
    limit: u32,
) -> Result<Vec<ReceiptRow>> {
    Ok(read_statement!(
        database,
        query_as(RECEIPTS, conversation.as_str(), after, i64::from(limit)).fetch_all
    ))
}

/// Reads up to [`USERS_PER_STATEMENT`] users who are members of a conversation, ordered by id.
pub(super) async fn users(database: &Database, after: &str) -> Result<Vec<UserId>> {
    let users: Vec<String> = read_statement!(
        database,
        query_scalar(USERS, after, USERS_PER_STATEMENT as i64).fetch_all
    );
    let users = users.into_iter().map(UserId::new);
    Ok(users.collect::<std::result::Result<_, _>>()?)
}

/// Counts users who are members of a conversation.
pub(super) async fn count_users(database: &Database) -> Result<u64> {
    let users: i64 = read_statement!(database, query_scalar(COUNT_USERS).fetch_one);
    Ok(users.unsigned_abs())
}

/// Whether the conversation has a row.
pub(super) async fn has_conversation(
    database: &Database,
    conversation: &ConversationId,
) -> Result<bool> {
    let (count,): (i64,) = for_backend!(database.reader(), pool =>
        sqlx::query_as(HAS_CONVERSATION).bind(conversation.as_str()).fetch_one(pool).await?);
    Ok(count > 0)
}
