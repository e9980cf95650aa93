//! Writes each message in its own transaction, for comparison with group commit.

use parlor_chat::database::Database;
use parlor_chat::messages::writer::MessageDraft;

/// Runs an expression on either kind of database connection.
macro_rules! on_connection {
    ($either:expr, $it:ident => $body:expr) => {
        match $either {
            parlor_chat::database::PerBackend::Sqlite($it) => $body,
            parlor_chat::database::PerBackend::Postgres($it) => $body,
        }
    };
}
pub(super) use on_connection;

const FIND_BY_CLIENT_ID: &str = "
    SELECT seq FROM messages WHERE conversation_id = $1 AND sender_id = $2 AND client_id = $3";
const SELECT_MEMBER: &str =
    "SELECT joined_seq FROM members WHERE conversation_id = $1 AND user_id = $2";
const NEXT_SEQ: &str = "
    UPDATE conversations SET last_seq = last_seq + 1, rev = rev + 1 WHERE id = $1 RETURNING last_seq";
const INSERT_MESSAGE: &str = "
    INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, client_id, created_at, rev)
    VALUES ($1, $2, $3, $4, 'user', $5, $6, $7, $2)";
const MOVE_SENDER_POSITION: &str = "
    UPDATE members SET delivered_seq = $1, read_seq = $1, badge_seq = $1, own_after = 0,
                       position_version = position_version + 1
    WHERE conversation_id = $2 AND user_id = $3";

pub async fn send_in_transaction(database: &Database, draft: MessageDraft) -> anyhow::Result<()> {
    let (conversation, sender) = (draft.conversation.as_str(), draft.sender.as_str());
    let mut tx = database.begin().await?;
    let found: Option<i64> = on_connection!(tx.connection(), c => sqlx::query_scalar(FIND_BY_CLIENT_ID)
        .bind(conversation).bind(sender).bind(&draft.client_id).fetch_optional(c).await)?;
    anyhow::ensure!(found.is_none(), "each message has its own client id");
    let member: Option<i64> = on_connection!(tx.connection(), c => sqlx::query_scalar(SELECT_MEMBER)
        .bind(conversation).bind(sender).fetch_optional(c).await)?;
    anyhow::ensure!(member.is_some(), "each sender is a member");
    let seq: i64 = on_connection!(tx.connection(), c => sqlx::query_scalar(NEXT_SEQ)
        .bind(conversation).fetch_one(c).await)?;
    on_connection!(tx.connection(), c => sqlx::query(INSERT_MESSAGE)
        .bind(conversation).bind(seq).bind(draft.id.to_string()).bind(sender).bind(draft.content)
        .bind(draft.client_id.as_deref()).bind(draft.at.as_millis().cast_signed())
        .execute(c).await.map(drop))?;
    on_connection!(tx.connection(), c => sqlx::query(MOVE_SENDER_POSITION)
        .bind(seq).bind(conversation).bind(sender).execute(c).await.map(drop))?;
    tx.commit().await?;
    Ok(())
}
