//! One transaction on PostgreSQL: locks the conversations, reads what exists, writes the rest.

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
    link: &mut PgConnection,
    drafts: &[&MessageDraft],
    in_doubt: bool,
) -> sqlx::Result<Vec<DraftOutcome>> {
    let mut transaction = link.begin().await?;
    let heads = lock_conversations(&mut transaction, drafts).await?;
    let mut found = find_existing(&mut transaction, drafts).await?;
    if in_doubt {
        find_committed(&mut transaction, drafts, &mut found).await?;
    }
    let plan = BatchPlan::new(drafts, heads, found);
    let moved = match plan.is_empty() {
        true => Vec::new(),
        false => write(&mut transaction, &plan).await?,
    };
    transaction.commit().await?;
    Ok(plan.into_outcomes(&moved))
}

async fn lock_conversations(
    link: &mut PgConnection,
    drafts: &[&MessageDraft],
) -> sqlx::Result<Vec<LockedConversation>> {
    let mut ids: Vec<_> = drafts.iter().map(|it| it.conversation.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    sqlx::query_as(LOCK_CONVERSATIONS)
        .bind(ids)
        .fetch_all(link)
        .await
}

async fn find_existing(
    link: &mut PgConnection,
    drafts: &[&MessageDraft],
) -> sqlx::Result<Vec<ExistingState>> {
    let column =
        |part: fn(&MessageDraft) -> &str| drafts.iter().map(|it| part(it)).collect::<Vec<_>>();
    let names: Vec<_> = drafts.iter().map(|it| it.client_id.as_deref()).collect();
    let rows = sqlx::query(SELECT_SENDERS_AND_DUPLICATES)
        .bind(column(|it| it.conversation.as_str()))
        .bind(column(|it| it.sender.as_str()))
        .bind(names)
        .fetch_all(link)
        .await?;
    rows.iter().map(parse_existing).collect()
}

fn parse_existing(row: &PgRow) -> sqlx::Result<ExistingState> {
    let joined: Option<i64> = row.try_get(0)?;
    let position: Option<i64> = row.try_get(1)?;
    let there = row.try_get::<Option<i64>, _>("seq")?.is_some();
    Ok(ExistingState {
        member: joined.zip(position),
        message: there.then(|| MessageRow::from_row(row)).transpose()?,
    })
}

async fn find_committed(
    link: &mut PgConnection,
    drafts: &[&MessageDraft],
    found: &mut [ExistingState],
) -> sqlx::Result<()> {
    let ids: Vec<_> = drafts.iter().map(|it| it.id.to_string()).collect();
    let rows: Vec<MessageRow> = sqlx::query_as(SELECT_BY_IDS)
        .bind(&ids)
        .fetch_all(link)
        .await?;
    for row in rows {
        if let Some(at) = ids.iter().position(|id| *id == row.id) {
            found[at].message = Some(row);
        }
    }
    Ok(())
}

async fn write(link: &mut PgConnection, plan: &BatchPlan<'_>) -> sqlx::Result<Vec<UpdatedSender>> {
    let new = &plan.new;
    let ids: Vec<_> = new.iter().map(|it| it.draft.id.to_string()).collect();
    let texts =
        |part: fn(&MessageDraft) -> &str| new.iter().map(|it| part(it.draft)).collect::<Vec<_>>();
    let options = |part: fn(&MessageDraft) -> Option<&str>| {
        new.iter().map(|it| part(it.draft)).collect::<Vec<_>>()
    };
    let conversations = texts(|it| it.conversation.as_str());
    let heads = plan.changed_conversations();
    let mentions = plan.mentions();
    let moves = plan.moves();
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
        .bind(column(&heads, |it| it.id.as_str()))
        .bind(column(&heads, |it| it.last_seq))
        .bind(column(&heads, |it| it.last_at))
        .bind(column(&heads, |it| it.rev))
        .bind(column(&mentions, |it| it.0))
        .bind(column(&mentions, |it| it.1))
        .bind(column(&mentions, |it| it.2))
        .bind(column(&moves, |it| it.conversation))
        .bind(column(&moves, |it| it.sender))
        .bind(column(&moves, |it| it.seq))
        .bind(column(&moves, |it| it.count))
        .fetch_all(link)
        .await
}

fn column<'a, T, V>(rows: &'a [T], part: impl Fn(&'a T) -> V) -> Vec<V> {
    rows.iter().map(part).collect()
}
