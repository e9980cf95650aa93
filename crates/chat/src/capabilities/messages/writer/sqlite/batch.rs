//! One transaction on SQLite.
//!
//! Invariants:
//! 1. The rows of a batch are written in the order of its drafts, and the counters of a conversation after its last one.

use rusqlite::{
    CachedStatement, Connection, OptionalExtension, Row as SqlRow, TransactionBehavior, params,
};

use crate::ids::ConversationId;
use crate::messages::message_row::{MessageRow, message_columns};
use crate::messages::writer::MessageDraft;
use crate::messages::writer::commit_error::CommitError;
use crate::messages::writer::job::{DraftOutcome, SenderSnapshot, StoredRow, WriteJob};

const SELECT_BY_CLIENT_ID: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages WHERE conversation_id = ?1 AND sender_id = ?2 AND client_id = ?3"
);
const SELECT_CONVERSATION: &str = "
    SELECT rowid, members_version, member_count, last_seq, rev, last_at FROM conversations WHERE id = ?1";
const SELECT_SENDER: &str = "
    SELECT joined_version, position_version FROM members WHERE conversation_id = ?1 AND user_id = ?2";
const UPDATE_CONVERSATION: &str =
    "UPDATE conversations SET last_seq = ?2, rev = ?3, last_at = ?4 WHERE rowid = ?1";
const INSERT_MESSAGE: &str = "
    INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, metadata, client_id, created_at, rev)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const UPDATE_SENDER_POSITION: &str = "
    UPDATE members SET delivered_seq = ?3, read_seq = ?3, badge_seq = ?3, own_after = 0, position_version = ?4
    WHERE conversation_id = ?1 AND user_id = ?2";
const INSERT_MENTION: &str = "
    INSERT INTO mentions (user_id, conversation_id, seq)
    SELECT user_id, conversation_id, ?3 FROM members WHERE conversation_id = ?1 AND user_id = ?2";

/// Prepared statements of a batch. No other writer changes rows during the transaction, so updates write values that
/// were computed from rows read before. With `RETURNING`, SQLite would create a temporary table for each execution.
struct BatchStatements<'c> {
    find: CachedStatement<'c>,
    conversation: CachedStatement<'c>,
    member: CachedStatement<'c>,
    update_conversation: CachedStatement<'c>,
    insert: CachedStatement<'c>,
    update_sender: CachedStatement<'c>,
    mention: CachedStatement<'c>,
}

/// A batch in progress. The counters of a conversation are read before the first message of a run of its messages and
/// written after the last.
struct SqliteBatch<'c, 'j> {
    statements: BatchStatements<'c>,
    /// Conversation of the previous message; its counters are `None` if it does not exist.
    current: Option<(&'j ConversationId, Option<ConversationCounters>)>,
}

/// Counters of a conversation, including the messages of this batch so far.
struct ConversationCounters {
    rowid: i64,
    members_version: u64,
    member_count: u64,
    last_seq: i64,
    rev: i64,
    last_at: i64,
    changed: bool,
}

/// Writes these messages, all or none. Messages of one conversation should be adjacent.
pub(super) fn commit(
    connection: &mut Connection,
    jobs: &[WriteJob],
) -> Result<Vec<DraftOutcome>, CommitError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let statements = BatchStatements {
        find: transaction.prepare_cached(SELECT_BY_CLIENT_ID)?,
        conversation: transaction.prepare_cached(SELECT_CONVERSATION)?,
        member: transaction.prepare_cached(SELECT_SENDER)?,
        update_conversation: transaction.prepare_cached(UPDATE_CONVERSATION)?,
        insert: transaction.prepare_cached(INSERT_MESSAGE)?,
        update_sender: transaction.prepare_cached(UPDATE_SENDER_POSITION)?,
        mention: transaction.prepare_cached(INSERT_MENTION)?,
    };
    let mut batch = SqliteBatch {
        statements,
        current: None,
    };
    let outcomes = jobs.iter().map(|job| batch.write(&job.draft));
    let outcomes: rusqlite::Result<Vec<DraftOutcome>> = outcomes.collect();
    let outcomes = outcomes?;
    batch.flush_conversation()?;
    drop(batch);
    transaction.commit()?;
    Ok(outcomes)
}

impl<'j> SqliteBatch<'_, 'j> {
    fn write(&mut self, draft: &'j MessageDraft) -> rusqlite::Result<DraftOutcome> {
        let existing = find_duplicate(&mut self.statements.find, draft)?;
        let id = &draft.conversation;
        let current = self.current.as_ref();
        if current.is_none_or(|(current, _)| *current != id) {
            self.flush_conversation()?;
            let counters = read_conversation(&mut self.statements.conversation, id)?;
            self.current = Some((id, counters));
        }
        let current = self.current.as_mut().and_then(|(_, it)| it.as_mut());
        write_message(&mut self.statements, current, draft, existing)
    }

    /// Writes the counters of the current conversation, if they changed.
    fn flush_conversation(&mut self) -> rusqlite::Result<()> {
        if let Some((_, Some(it))) = self.current.take()
            && it.changed
        {
            let numbers = params![it.rowid, it.last_seq, it.rev, it.last_at];
            self.statements.update_conversation.execute(numbers)?;
        }
        Ok(())
    }
}

fn write_message(
    statements: &mut BatchStatements<'_>,
    conversation: Option<&mut ConversationCounters>,
    draft: &MessageDraft,
    existing: Option<MessageRow>,
) -> rusqlite::Result<DraftOutcome> {
    // The messages of a deleted conversation are removed later, so there may be a message with the same client id.
    let Some(conversation) = conversation else {
        return Ok(DraftOutcome::NotAMember);
    };
    let member = read_sender(&mut statements.member, draft)?;
    if let Some(row) = existing {
        let sender = conversation.sender_snapshot(&member.unwrap_or_default());
        let row = StoredRow::Existing(Box::new(row));
        return Ok(DraftOutcome::Stored(row, sender));
    }
    let Some(mut member) = member else {
        return Ok(DraftOutcome::NotAMember);
    };
    conversation.changed = true;
    conversation.last_seq += 1;
    conversation.rev += 1;
    conversation.last_at = conversation.last_at.max(draft.at.as_millis().cast_signed());
    member.position_version += 1;
    let (seq, rev, created_at) = (
        conversation.last_seq,
        conversation.rev,
        conversation.last_at,
    );
    let (id, sender) = (draft.conversation.as_str(), draft.sender.as_str());
    let mut uuid = [0; uuid::fmt::Hyphenated::LENGTH];
    statements.insert.execute(params![
        id,
        seq,
        &*draft.id.hyphenated().encode_lower(&mut uuid),
        sender,
        draft.sender_role.name(),
        draft.content,
        draft.metadata,
        draft.client_id,
        created_at,
        rev,
    ])?;
    let version = member.position_version.cast_signed();
    statements
        .update_sender
        .execute(params![id, sender, seq, version])?;
    for user in draft.stored_mentions() {
        statements
            .mention
            .execute(params![id, user.as_str(), seq])?;
    }
    let [seq, rev, created_at] = [seq, rev, created_at].map(i64::cast_unsigned);
    let row = StoredRow::New {
        seq,
        rev,
        created_at,
    };
    Ok(DraftOutcome::Stored(
        row,
        conversation.sender_snapshot(&member),
    ))
}

/// Reads the sender's message with the same client id, perhaps one of this batch.
fn find_duplicate(
    find: &mut CachedStatement<'_>,
    draft: &MessageDraft,
) -> rusqlite::Result<Option<MessageRow>> {
    let Some(client_id) = &draft.client_id else {
        return Ok(None);
    };
    let key = params![
        draft.conversation.as_str(),
        draft.sender.as_str(),
        client_id
    ];
    let message = |row: &SqlRow<'_>| {
        Ok(MessageRow {
            conversation_id: draft.conversation.clone(),
            seq: get_u64(row, 1)?,
            id: row.get(2)?,
            sender_id: draft.sender.clone(),
            sender_role: row.get(4)?,
            content: row.get(5)?,
            metadata: row.get(6)?,
            client_id: row.get(7)?,
            created_at: get_u64(row, 8)?,
            edited_at: row.get(9)?,
            deleted_at: row.get(10)?,
            rev: get_u64(row, 11)?,
        })
    };
    find.query_row(key, message).optional()
}

/// Reads the counters of a conversation. `None` if it does not exist.
fn read_conversation(
    conversation: &mut CachedStatement<'_>,
    id: &ConversationId,
) -> rusqlite::Result<Option<ConversationCounters>> {
    let found = conversation.query_row([id.as_str()], |row| {
        Ok(ConversationCounters {
            rowid: row.get(0)?,
            members_version: get_u64(row, 1)?,
            member_count: get_u64(row, 2)?,
            last_seq: row.get(3)?,
            rev: row.get(4)?,
            last_at: row.get(5)?,
            changed: false,
        })
    });
    found.optional()
}

/// Versions of the sender's row; zeros for a duplicate whose sender has left.
#[derive(Default)]
struct SenderVersions {
    joined_version: u64,
    position_version: u64,
}

/// Reads the versions of the sender's row. `None` if the sender is not a member.
fn read_sender(
    member: &mut CachedStatement<'_>,
    draft: &MessageDraft,
) -> rusqlite::Result<Option<SenderVersions>> {
    let key = params![draft.conversation.as_str(), draft.sender.as_str()];
    let found = member.query_row(key, |row| {
        Ok(SenderVersions {
            joined_version: get_u64(row, 0)?,
            position_version: get_u64(row, 1)?,
        })
    });
    found.optional()
}

impl ConversationCounters {
    fn sender_snapshot(&self, member: &SenderVersions) -> SenderSnapshot {
        SenderSnapshot {
            members_version: self.members_version,
            member_count: self.member_count,
            joined_version: member.joined_version,
            position_version: member.position_version,
        }
    }
}

fn get_u64(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}
