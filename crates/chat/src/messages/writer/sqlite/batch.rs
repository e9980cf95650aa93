//! One commit to SQLite.

use rusqlite::{
    Connection, OptionalExtension, Row as SqlRow, Transaction, TransactionBehavior, params,
};

use crate::messages::row::{MessageRow, message_columns};
use crate::messages::writer::Draft;
use crate::messages::writer::failure::Failure;
use crate::messages::writer::job::{Job, Outcome, Place, Row};

const FIND: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages WHERE conversation_id = ?1 AND sender_id = ?2 AND client_id = ?3"
);
const AROUND: &str = "
    SELECT c.kind, c.members_version, c.member_count,
           coalesce(m.joined_version, 0), coalesce(m.position_version, 0)
    FROM conversations c
    LEFT JOIN members m ON m.conversation_id = c.id AND m.user_id = ?2
    WHERE c.id = ?1";
/// Changes nothing unless the sender is a member.
const NUMBER: &str = "
    UPDATE conversations SET last_seq = last_seq + 1, rev = rev + 1, last_at = max(last_at, ?3)
    WHERE id = ?1 AND EXISTS (SELECT 1 FROM members WHERE conversation_id = ?1 AND user_id = ?2)
    RETURNING last_seq, rev, last_at, kind, members_version, member_count";
const INSERT: &str = "
    INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, metadata, client_id, created_at, rev)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const MOVE: &str = "
    UPDATE members SET delivered_seq = ?3, read_seq = ?3, badge_seq = ?3, own_after = 0,
                       position_version = position_version + 1
    WHERE conversation_id = ?1 AND user_id = ?2
    RETURNING joined_version, position_version";
const MENTION: &str = "
    INSERT INTO mentions (user_id, conversation_id, seq)
    SELECT user_id, conversation_id, ?3 FROM members WHERE conversation_id = ?1 AND user_id = ?2";

/// Writes these messages, all or none.
pub(super) fn commit(connection: &mut Connection, jobs: &[Job]) -> Result<Vec<Outcome>, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let written: rusqlite::Result<Vec<Outcome>> = jobs
        .iter()
        .map(|job| write(&transaction, &job.draft))
        .collect();
    let written = written?;
    transaction.commit()?;
    Ok(written)
}

fn write(transaction: &Transaction<'_>, draft: &Draft) -> rusqlite::Result<Outcome> {
    if let Some(row) = find(transaction, draft)? {
        let place = around(transaction, draft)?;
        return Ok(Outcome::There(Row::Old(Box::new(row)), place));
    }
    let (conversation, sender) = (draft.conversation.as_str(), draft.sender.as_str());
    let mut number = transaction.prepare_cached(NUMBER)?;
    let numbered = number
        .query_row(
            params![conversation, sender, draft.at.ms().cast_signed()],
            numbered,
        )
        .optional()?;
    let Some((seq, rev, created_at, mut place)) = numbered else {
        return Ok(Outcome::NotAMember);
    };
    let mut id = [0; uuid::fmt::Hyphenated::LENGTH];
    transaction.prepare_cached(INSERT)?.execute(params![
        conversation,
        seq,
        &*draft.id.hyphenated().encode_lower(&mut id),
        sender,
        draft.sender_role.name(),
        draft.content,
        draft.metadata,
        draft.client_id,
        created_at,
        rev,
    ])?;
    (place.joined_version, place.position_version) = transaction
        .prepare_cached(MOVE)?
        .query_row(params![conversation, sender, seq], |row| {
            Ok((unsigned(row, 0)?, unsigned(row, 1)?))
        })?;
    for user in draft.mentioned() {
        transaction
            .prepare_cached(MENTION)?
            .execute(params![conversation, user.as_str(), seq])?;
    }
    let row = Row::New {
        seq: seq.cast_unsigned(),
        rev: rev.cast_unsigned(),
        created_at: created_at.cast_unsigned(),
    };
    Ok(Outcome::There(row, place))
}

/// The message that was written by the same name before, perhaps in this commit.
fn find(transaction: &Transaction<'_>, draft: &Draft) -> rusqlite::Result<Option<MessageRow>> {
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
            seq: unsigned(row, 1)?,
            id: row.get(2)?,
            sender_id: draft.sender.clone(),
            sender_role: row.get(4)?,
            content: row.get(5)?,
            metadata: row.get(6)?,
            client_id: row.get(7)?,
            created_at: unsigned(row, 8)?,
            edited_at: row.get(9)?,
            deleted_at: row.get(10)?,
            rev: unsigned(row, 11)?,
        })
    };
    let mut find = transaction.prepare_cached(FIND)?;
    find.query_row(key, message).optional()
}

fn around(transaction: &Transaction<'_>, draft: &Draft) -> rusqlite::Result<Place> {
    let key = params![draft.conversation.as_str(), draft.sender.as_str()];
    let mut around = transaction.prepare_cached(AROUND)?;
    around.query_row(key, |row| {
        Ok(Place {
            kind: row.get(0)?,
            members_version: unsigned(row, 1)?,
            member_count: unsigned(row, 2)?,
            joined_version: unsigned(row, 3)?,
            position_version: unsigned(row, 4)?,
        })
    })
}

/// `seq`, `rev` and time of a new message, and the conversation.
fn numbered(row: &SqlRow<'_>) -> rusqlite::Result<(i64, i64, i64, Place)> {
    let place = Place {
        kind: row.get(3)?,
        members_version: unsigned(row, 4)?,
        member_count: unsigned(row, 5)?,
        joined_version: 0,
        position_version: 0,
    };
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, place))
}

fn unsigned(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}
