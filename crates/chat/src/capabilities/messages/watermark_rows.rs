//! Watermarks of the nodes, and the messages after a watermark.
//!
//! Invariant: a page costs one index scan of its messages, whatever the size of the tables. No index contains a column
//! that a send updates.

use sqlx::FromRow;

use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{Database, from_db_integer, read_statement, to_db_integer, write_statement};
use crate::ids::{ConversationId, NodeId};

/// Messages per page.
const REPLAY_PAGE_SIZE: i64 = 1_000;

const INSERT: &str = "
    INSERT INTO apply_watermarks (node, applied_before) VALUES ($1, $2) ON CONFLICT (node) DO NOTHING";
const WRITE: &str = "
    INSERT INTO apply_watermarks (node, applied_before) VALUES ($1, $2)
    ON CONFLICT (node) DO UPDATE SET applied_before = excluded.applied_before";
const DELETE: &str = "DELETE FROM apply_watermarks WHERE node = $1 AND applied_before = $2";
const SELECT_ALL: &str = "SELECT node, applied_before FROM apply_watermarks ORDER BY node";
const SELECT_MESSAGES: &str = "
    SELECT id, conversation_id, seq FROM messages
    WHERE id > $1 AND id < $2
        AND conversation_id NOT IN (SELECT id FROM deleted_conversations WHERE rows_removed_at IS NULL)
    ORDER BY id LIMIT $3";
const SELECT_ACTIVE_CONVERSATIONS: &str = "
    SELECT id, last_seq FROM conversations
    WHERE id IN (SELECT conversation_id FROM messages WHERE id >= $1 AND id < $2) AND id > $3
    ORDER BY id LIMIT $4";

/// Watermark of a node: all its messages with older ids are applied.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub(super) struct NodeWatermark {
    #[sqlx(try_from = "String")]
    pub(super) node: NodeId,
    #[sqlx(try_from = "i64")]
    pub(super) applied_before: u64,
}

/// A message to replay.
#[derive(Debug, FromRow)]
pub(super) struct MessageToReplay {
    pub(super) id: String,
    #[sqlx(try_from = "String")]
    pub(super) conversation_id: ConversationId,
    #[sqlx(try_from = "i64")]
    pub(super) seq: u64,
}

/// Inserts the watermark of a node, unless the node has one.
pub(super) async fn insert(database: &Database, node: &NodeId, at: Timestamp) -> Result<()> {
    execute(database, INSERT, node, at.as_millis()).await
}

/// Writes the watermark of a node.
pub(super) async fn write(database: &Database, node: &NodeId, at: Timestamp) -> Result<()> {
    execute(database, WRITE, node, at.as_millis()).await
}

/// Deletes this watermark, unless it has changed.
pub(super) async fn delete(database: &Database, watermark: &NodeWatermark) -> Result<()> {
    execute(database, DELETE, &watermark.node, watermark.applied_before).await
}

async fn execute(
    database: &Database,
    statement: &'static str,
    node: &NodeId,
    applied_before: u64,
) -> Result<()> {
    write_statement!(database, connection => {
        let query = sqlx::query(statement).bind(node.as_str()).bind(to_db_integer(applied_before));
        query.execute(connection).await?;
    });
    Ok(())
}

/// Reads the watermarks of all nodes.
pub(super) async fn find_all(database: &Database) -> Result<Vec<NodeWatermark>> {
    Ok(read_statement!(database, query_as(SELECT_ALL).fetch_all))
}

/// Reads the next messages after an id and before a time, in the order of their ids.
pub(super) async fn find_messages(
    database: &Database,
    after: &str,
    before: Timestamp,
) -> Result<Vec<MessageToReplay>> {
    let before = min_message_id(before);
    Ok(read_statement!(
        database,
        query_as(SELECT_MESSAGES, after, before, REPLAY_PAGE_SIZE).fetch_all
    ))
}

/// Reads a page of the conversations with messages in a period, by id, with their `last_seq`.
pub(super) async fn find_active_conversations(
    database: &Database,
    (from, to): (Timestamp, Timestamp),
    after: &str,
) -> Result<Vec<(ConversationId, u64)>> {
    let (from, to) = (min_message_id(from), min_message_id(to));
    let page: Vec<(String, i64)> = read_statement!(
        database,
        query_as(
            SELECT_ACTIVE_CONVERSATIONS,
            from,
            to,
            after,
            REPLAY_PAGE_SIZE
        )
        .fetch_all
    );
    let page = page.into_iter();
    page.map(|(id, last)| Ok((ConversationId::new(id)?, from_db_integer(last))))
        .collect()
}

/// Smallest UUIDv7 text of a moment.
pub(super) fn min_message_id(moment: Timestamp) -> String {
    let ms = moment.as_millis() & 0xffff_ffff_ffff;
    format!("{:08x}-{:04x}-", ms >> 16, ms & 0xffff)
}
