//! One transaction on PostgreSQL: locks the conversations, reads what exists, writes the rest.
//!
//! Invariants:
//! 1. Conversations are locked in the order of their ids, so two batches never wait for each other.
//! 2. A batch takes the same number of round trips whatever its size.

use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection, Row as _};

use super::plan::{BatchPlan, ExistingState, LockedConversation, UpdatedSender};
use crate::messages::message_row::{MessageRow, message_columns};
use crate::messages::writer::MessageDraft;
use crate::messages::writer::job::DraftOutcome;

/// Locks conversations in id order, so that batches do not deadlock. The statements after it see what was committed
/// while it waited.
const LOCK_CONVERSATIONS: &str = "
    SELECT id, last_seq, last_at, rev, members_version, member_count
    FROM conversations WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE";
/// Selects one row for each draft: the membership of its sender, and the sender's message with the same client id.
const SELECT_SENDERS_AND_DUPLICATES: &str = "
    SELECT b.joined_version, b.position_version, m.*
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w (conversation, sender, name, n)
    LEFT JOIN members b ON b.conversation_id = w.conversation AND b.user_id = w.sender
    LEFT JOIN messages m ON m.conversation_id = w.conversation AND m.sender_id = w.sender
                         AND m.client_id = w.name AND m.client_id IS NOT NULL
    ORDER BY w.n";
/// Selects messages that an earlier attempt has written.
const SELECT_BY_IDS: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages WHERE id = ANY($1)"
);
const WRITE_BATCH: &str = "
    WITH inserted AS (
        INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, metadata, client_id, created_at, rev)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                             $9::bigint[], $10::bigint[])
    ), numbered AS (
        UPDATE conversations c SET last_seq = w.seq, last_at = w.at, rev = w.rev
        FROM unnest($11::text[], $12::bigint[], $13::bigint[], $14::bigint[]) AS w (id, seq, at, rev) WHERE c.id = w.id
    ), mentioned AS (
        INSERT INTO mentions (user_id, conversation_id, seq)
        SELECT b.user_id, b.conversation_id, w.seq
        FROM unnest($15::text[], $16::text[], $17::bigint[]) AS w (mentioned, conversation, seq)
        JOIN members b ON b.conversation_id = w.conversation AND b.user_id = w.mentioned
    )
    UPDATE members b
    SET delivered_seq = w.seq, read_seq = w.seq, badge_seq = w.seq, own_after = 0,
        position_version = b.position_version + w.count
    FROM unnest($18::text[], $19::text[], $20::bigint[], $21::bigint[]) AS w (conversation, sender, seq, count)
    WHERE b.conversation_id = w.conversation AND b.user_id = w.sender
    RETURNING b.conversation_id, b.user_id, b.joined_version, b.position_version";

/// Writes these messages, all or none. `may_be_committed`: an earlier attempt may have written them.
pub(super) async fn commit(
    connection: &mut PgConnection,
    drafts: &[&MessageDraft],
    may_be_committed: bool,
) -> sqlx::Result<Vec<DraftOutcome>> {
    let mut transaction = connection.begin().await?;
    let conversations = lock_conversations(&mut transaction, drafts).await?;
    let mut existing = find_existing(&mut transaction, drafts).await?;
    if may_be_committed {
        find_committed(&mut transaction, drafts, &mut existing).await?;
    }
    let plan = BatchPlan::new(drafts, conversations, existing);
    let updated_senders = match plan.is_empty() {
        true => Vec::new(),
        false => write(&mut transaction, &plan).await?,
    };
    transaction.commit().await?;
    Ok(plan.into_outcomes(&updated_senders))
}

async fn lock_conversations(
    connection: &mut PgConnection,
    drafts: &[&MessageDraft],
) -> sqlx::Result<Vec<LockedConversation>> {
    let mut ids: Vec<_> = drafts.iter().map(|it| it.conversation.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    sqlx::query_as(LOCK_CONVERSATIONS)
        .bind(ids)
        .fetch_all(connection)
        .await
}

async fn find_existing(
    connection: &mut PgConnection,
    drafts: &[&MessageDraft],
) -> sqlx::Result<Vec<ExistingState>> {
    let column =
        |part: fn(&MessageDraft) -> &str| drafts.iter().map(|it| part(it)).collect::<Vec<_>>();
    let names: Vec<_> = drafts.iter().map(|it| it.client_id.as_deref()).collect();
    let rows = sqlx::query(SELECT_SENDERS_AND_DUPLICATES)
        .bind(column(|it| it.conversation.as_str()))
        .bind(column(|it| it.sender.as_str()))
        .bind(names)
        .fetch_all(connection)
        .await?;
    rows.iter().map(parse_existing).collect()
}

fn parse_existing(row: &PgRow) -> sqlx::Result<ExistingState> {
    let joined: Option<i64> = row.try_get(0)?;
    let position: Option<i64> = row.try_get(1)?;
    let is_duplicate = row.try_get::<Option<i64>, _>("seq")?.is_some();
    Ok(ExistingState {
        member: joined.zip(position),
        message: is_duplicate
            .then(|| MessageRow::from_row(row))
            .transpose()?,
    })
}

async fn find_committed(
    connection: &mut PgConnection,
    drafts: &[&MessageDraft],
    existing: &mut [ExistingState],
) -> sqlx::Result<()> {
    let ids: Vec<_> = drafts.iter().map(|it| it.id.to_string()).collect();
    let rows: Vec<MessageRow> = sqlx::query_as(SELECT_BY_IDS)
        .bind(&ids)
        .fetch_all(connection)
        .await?;
    for row in rows {
        if let Some(at) = ids.iter().position(|id| *id == row.id) {
            existing[at].message = Some(row);
        }
    }
    Ok(())
}

async fn write(
    connection: &mut PgConnection,
    plan: &BatchPlan<'_>,
) -> sqlx::Result<Vec<UpdatedSender>> {
    let new = &plan.new;
    let ids: Vec<_> = new.iter().map(|it| it.draft.id.to_string()).collect();
    let texts =
        |part: fn(&MessageDraft) -> &str| new.iter().map(|it| part(it.draft)).collect::<Vec<_>>();
    let options = |part: fn(&MessageDraft) -> Option<&str>| {
        new.iter().map(|it| part(it.draft)).collect::<Vec<_>>()
    };
    let conversations = texts(|it| it.conversation.as_str());
    let changed = plan.changed_conversations();
    let mentions = plan.mentions();
    let positions = plan.position_updates();
    sqlx::query_as(WRITE_BATCH)
        .bind(conversations)
        .bind(column(new, |it| it.seq))
        .bind(ids)
        .bind(texts(|it| it.sender.as_str()))
        .bind(texts(|it| it.sender_role.name()))
        .bind(texts(|it| &it.content))
        .bind(options(|it| it.metadata.as_deref()))
        .bind(options(|it| it.client_id.as_deref()))
        .bind(column(new, |it| it.created_at))
        .bind(column(new, |it| it.rev))
        .bind(column(&changed, |it| it.id.as_str()))
        .bind(column(&changed, |it| it.last_seq))
        .bind(column(&changed, |it| it.last_at))
        .bind(column(&changed, |it| it.rev))
        .bind(column(&mentions, |it| it.0))
        .bind(column(&mentions, |it| it.1))
        .bind(column(&mentions, |it| it.2))
        .bind(column(&positions, |it| it.conversation))
        .bind(column(&positions, |it| it.sender))
        .bind(column(&positions, |it| it.seq))
        .bind(column(&positions, |it| it.count))
        .fetch_all(connection)
        .await
}

fn column<'a, T, V>(rows: &'a [T], part: impl Fn(&'a T) -> V) -> Vec<V> {
    rows.iter().map(part).collect()
}
