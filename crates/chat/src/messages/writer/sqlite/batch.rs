//! One commit to SQLite.

use rusqlite::{
    CachedStatement, Connection, OptionalExtension, Row as SqlRow, TransactionBehavior, params,
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
/// The conversation, and the sender in it.
const AROUND: &str = "
    SELECT c.kind, c.members_version, c.member_count,
           coalesce(m.joined_version, 0), coalesce(m.position_version, 0),
           c.rowid, c.last_seq, c.rev, c.last_at, m.user_id IS NOT NULL
    FROM conversations c
    LEFT JOIN members m ON m.conversation_id = c.id AND m.user_id = ?2
    WHERE c.id = ?1";
const NUMBER: &str =
    "UPDATE conversations SET last_seq = ?2, rev = ?3, last_at = ?4 WHERE rowid = ?1";
const INSERT: &str = "
    INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, metadata, client_id, created_at, rev)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const MOVE: &str = "
    UPDATE members SET delivered_seq = ?3, read_seq = ?3, badge_seq = ?3, own_after = 0, position_version = ?4
    WHERE conversation_id = ?1 AND user_id = ?2";
const MENTION: &str = "
    INSERT INTO mentions (user_id, conversation_id, seq)
    SELECT user_id, conversation_id, ?3 FROM members WHERE conversation_id = ?1 AND user_id = ?2";

/// The statements of a commit. What they read stands still until its end, so each message is read for once and its rows
/// are written by what was read; `RETURNING` would cost SQLite a table each time.
struct Statements<'c> {
    find: CachedStatement<'c>,
    around: CachedStatement<'c>,
    number: CachedStatement<'c>,
    insert: CachedStatement<'c>,
    place: CachedStatement<'c>,
    mention: CachedStatement<'c>,
}

/// Writes these messages, all or none.
pub(super) fn commit(connection: &mut Connection, jobs: &[Job]) -> Result<Vec<Outcome>, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut statements = Statements {
        find: transaction.prepare_cached(FIND)?,
        around: transaction.prepare_cached(AROUND)?,
        number: transaction.prepare_cached(NUMBER)?,
        insert: transaction.prepare_cached(INSERT)?,
        place: transaction.prepare_cached(MOVE)?,
        mention: transaction.prepare_cached(MENTION)?,
    };
    let written: rusqlite::Result<Vec<Outcome>> = jobs
        .iter()
        .map(|job| write(&mut statements, &job.draft))
        .collect();
    drop(statements);
    let written = written?;
    transaction.commit()?;
    Ok(written)
}

fn write(statements: &mut Statements<'_>, draft: &Draft) -> rusqlite::Result<Outcome> {
    if let Some(row) = find(&mut statements.find, draft)? {
        let around = around(&mut statements.around, draft)?;
        let place = around.ok_or(rusqlite::Error::QueryReturnedNoRows)?.place;
        return Ok(Outcome::There(Row::Old(Box::new(row)), place));
    }
    let around = around(&mut statements.around, draft)?;
    let Some(mut around) = around.filter(|around| around.member) else {
        return Ok(Outcome::NotAMember);
    };
    let (seq, rev) = (around.last_seq + 1, around.rev + 1);
    let created_at = around.last_at.max(draft.at.ms().cast_signed());
    around.place.position_version += 1;
    let (conversation, sender) = (draft.conversation.as_str(), draft.sender.as_str());
    let mut id = [0; uuid::fmt::Hyphenated::LENGTH];
    statements
        .number
        .execute(params![around.row, seq, rev, created_at])?;
    statements.insert.execute(params![
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
    statements.place.execute(params![
        conversation,
        sender,
        seq,
        around.place.position_version.cast_signed()
    ])?;
    for user in draft.mentioned() {
        statements
            .mention
            .execute(params![conversation, user.as_str(), seq])?;
    }
    let row = Row::New {
        seq: seq.cast_unsigned(),
        rev: rev.cast_unsigned(),
        created_at: created_at.cast_unsigned(),
    };
    Ok(Outcome::There(row, around.place))
}

/// The message that was written by the same name before, perhaps in this commit.
fn find(find: &mut CachedStatement<'_>, draft: &Draft) -> rusqlite::Result<Option<MessageRow>> {
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
    find.query_row(key, message).optional()
}

/// A conversation before a message is written, and its sender in it.
struct Around {
    place: Place,
    row: i64,
    last_seq: i64,
    rev: i64,
    last_at: i64,
    member: bool,
}

/// None if there is no such conversation.
fn around(around: &mut CachedStatement<'_>, draft: &Draft) -> rusqlite::Result<Option<Around>> {
    let key = params![draft.conversation.as_str(), draft.sender.as_str()];
    let found = around.query_row(key, |row| {
        Ok(Around {
            place: Place {
                kind: row.get(0)?,
                members_version: unsigned(row, 1)?,
                member_count: unsigned(row, 2)?,
                joined_version: unsigned(row, 3)?,
                position_version: unsigned(row, 4)?,
            },
            row: row.get(5)?,
            last_seq: row.get(6)?,
            rev: row.get(7)?,
            last_at: row.get(8)?,
            member: row.get(9)?,
        })
    });
    found.optional()
}

fn unsigned(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}
