//! Conversations and members of a file of another system.

use super::super::error::{ImportError, LineProblem};
use super::super::exact::deleted_id_problem;
use super::super::fields::{FileNumber, FileTime, number, text};
use super::super::records::{ConversationRecord, MemberRecord, RecordType};
use super::super::rows::{self, ImportRow};
use super::super::tables::{CONVERSATIONS, MEMBERS};
use super::conversation_state::ConversationState;
use super::{AssignedPage, not_in_pair_problem};
use crate::clock::Timestamp;
use crate::conversations::{ConversationKind, MemberRole, SupportPriority};
use crate::database::copy::CellRow;
use crate::database::{WriteTransaction, for_backend, to_db_integer, tx_statement};
use crate::ids::{ConversationId, UserId};

const COUNT_DELETED_ID: &str = "SELECT COUNT(*) FROM deleted_conversations WHERE id = $1";
const SELECT_ID_OF_PAIR: &str = "SELECT id FROM conversations WHERE pair = $1";
const SELECT_SEQ_BEFORE: &str = "
    SELECT seq FROM messages WHERE conversation_id = $1 AND created_at < $2 ORDER BY seq DESC LIMIT 1";
const SELECT_OWN_MESSAGES: &str = "
    SELECT COALESCE(MAX(seq), 0), COUNT(*) FROM messages WHERE conversation_id = $1 AND sender_id = $2 AND seq > $3";
const SET_MUTE: &str = "
    UPDATE members SET muted_until = $3, position_version = position_version + 1
    WHERE conversation_id = $1 AND user_id = $2 AND muted_until = 0";
const UPDATE_CONVERSATIONS: &str = "
    UPDATE conversations SET last_seq = r.column2, last_at = r.column3, rev = r.column4, members_version = r.column5,
        member_count = r.column6
    FROM (VALUES {rows}) AS r WHERE conversations.id = r.column1";

/// Column of the version of the positions in `tables::MEMBERS`.
const POSITION_VERSION_COLUMN: usize = 11;

impl AssignedPage<'_> {
    pub(super) async fn add_conversation(
        &mut self,
        tx: &mut WriteTransaction,
        record: &ConversationRecord,
    ) -> Result<bool, ImportError> {
        let id = record.conversation_id()?;
        let pair = record.pair()?;
        if let Some(known) = self.conversations.get(&id) {
            let is_same = known.kind == record.kind
                && known.pair.as_ref() == pair.as_ref().map(|(_, pair)| pair);
            if is_same {
                return Ok(false);
            }
            let text = format!(
                "another conversation has the id {id}: its kind is {}, or its two users are different; give one of them another id",
                known.kind.name()
            );
            return Err(LineProblem::new("id", text).into());
        }
        let deleted: i64 = tx_statement!(tx, query_scalar(COUNT_DELETED_ID, id.as_str()).fetch_one);
        if deleted > 0 {
            return Err(deleted_id_problem().into());
        }
        self.insert_conversation(tx, &id, record, pair).await?;
        Ok(true)
    }

    async fn insert_conversation(
        &mut self,
        tx: &mut WriteTransaction,
        id: &ConversationId,
        record: &ConversationRecord,
        pair: Option<(Vec<UserId>, String)>,
    ) -> Result<(), ImportError> {
        let (users, pair) = pair.map_or((Vec::new(), None), |(users, pair)| (users, Some(pair)));
        let is_support = record.kind == ConversationKind::Support;
        let row = ConversationRecord {
            title: record.title.clone().filter(|title| !title.is_empty()),
            priority: record
                .priority
                .or(is_support.then_some(SupportPriority::Normal)),
            members_version: Some(FileNumber(1)),
            member_count: Some(FileNumber(users.len() as u64)),
            ..record.clone()
        };
        let row = ImportRow {
            line: 0,
            cells: row.to_row()?,
        };
        let outcome =
            rows::insert_missing(tx, &CONVERSATIONS, CONVERSATIONS.key_columns, &[row]).await?;
        if outcome.inserted == 0 {
            let other: Option<String> = tx_statement!(
                tx,
                query_scalar(SELECT_ID_OF_PAIR, pair.clone()).fetch_optional
            );
            let text = format!(
                "the direct conversation of these users exists already as {}; use this id",
                other.unwrap_or_default()
            );
            return Err(LineProblem::new("members", text).into());
        }
        let roles = [MemberRole::Owner, MemberRole::Member];
        let members = users
            .iter()
            .zip(roles)
            .map(|(user, role)| member_row(id, user, role, record.created_at, (0, 1), None));
        let members: Vec<ImportRow> = members.collect();
        rows::insert_missing(tx, &MEMBERS, MEMBERS.key_columns, &members).await?;
        let created_at = record.created_at.to_db();
        let state = ConversationState {
            kind: record.kind,
            pair,
            created_at,
            last_seq: 0,
            last_at: created_at,
            rev: 0,
            members_version: 1,
            member_count: users.len() as i64,
            stored_last_seq: 0,
            is_changed: false,
        };
        self.conversations.insert(id.clone(), state);
        Ok(())
    }

    pub(super) async fn add_member(
        &mut self,
        tx: &mut WriteTransaction,
        record: &MemberRecord,
    ) -> Result<bool, ImportError> {
        let (id, user) = record.ids()?;
        let state = self.require_conversation(&id)?;
        if state.kind == ConversationKind::Direct {
            if !state.admits(&user) {
                return Err(not_in_pair_problem("userId", &user).into());
            }
            // Both are members since the creation, so only the mute is new.
            let Some(until) = record.muted_until else {
                return Ok(false);
            };
            let changed = for_backend!(tx.connection(), c => sqlx::query(SET_MUTE)
                .bind(id.as_str()).bind(user.as_str()).bind(until.to_db()).execute(c).await?.rows_affected());
            return Ok(changed > 0);
        }
        let created_at = FileTime::from_db(state.created_at);
        let joined_at = record.joined_at.unwrap_or(created_at);
        if joined_at < created_at {
            let text = format!("the time is before the conversation was created ({created_at})");
            return Err(LineProblem::new("joinedAt", text).into());
        }
        let (version, stored_last_seq) = (state.members_version + 1, state.stored_last_seq);
        let joined_seq = match stored_last_seq {
            0 => 0,
            _ => seq_before(tx, &id, joined_at.to_db()).await?,
        };
        let row = member_row(
            &id,
            &user,
            record.role,
            joined_at,
            (joined_seq, version),
            record.muted_until,
        );
        let outcome = rows::insert_missing(tx, &MEMBERS, MEMBERS.key_columns, &[row]).await?;
        if outcome.inserted == 0 {
            return Ok(false);
        }
        let state = self.require_conversation(&id)?;
        state.members_version = version;
        state.member_count += 1;
        state.is_changed = true;
        if stored_last_seq > joined_seq {
            let (last, count): (i64, i64) = tx_statement!(
                tx,
                query_as(SELECT_OWN_MESSAGES, id.as_str(), user.as_str(), joined_seq).fetch_one
            );
            let own = self.own_messages.entry((id, user)).or_default();
            own.last_seq = own.last_seq.max(last);
            own.count += count;
        }
        Ok(true)
    }

    /// Writes the counters of the changed conversations.
    pub(super) async fn update_conversations(
        &mut self,
        tx: &mut WriteTransaction,
    ) -> Result<(), ImportError> {
        let changed = self
            .conversations
            .iter()
            .filter(|(_, state)| state.is_changed);
        let rows: Vec<CellRow> = changed
            .map(|(id, state)| {
                let numbers = [
                    state.last_seq,
                    state.last_at,
                    state.rev,
                    state.members_version,
                    state.member_count,
                ];
                std::iter::once(text(id.as_str()))
                    .chain(numbers.map(number))
                    .collect()
            })
            .collect();
        rows::execute_for_rows(tx, UPDATE_CONVERSATIONS, &rows).await?;
        Ok(())
    }
}

/// `seq` of the newest message before a time; 0 if there is none.
pub(super) async fn seq_before(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    before: i64,
) -> Result<i64, sqlx::Error> {
    let seq: Option<i64> = tx_statement!(
        tx,
        query_scalar(SELECT_SEQ_BEFORE, id.as_str(), before).fetch_optional
    );
    Ok(seq.unwrap_or_default())
}

/// The row of a member who joined at this `seq` and version.
fn member_row(
    id: &ConversationId,
    user: &UserId,
    role: MemberRole,
    joined_at: FileTime,
    (joined_seq, version): (i64, i64),
    muted_until: Option<FileTime>,
) -> ImportRow {
    let muted_until = muted_until.filter(|it| it.0 > Timestamp(0));
    let record = MemberRecord {
        record_type: RecordType::Member,
        conversation_id: id.to_string(),
        user_id: user.to_string(),
        role,
        joined_at: Some(joined_at),
        muted_until,
        joined_seq: Some(FileNumber::from_db(joined_seq)),
        joined_version: Some(FileNumber::from_db(version)),
    };
    let mut cells = record.to_row();
    // A mute changes the version of the positions.
    cells[POSITION_VERSION_COLUMN] = number(to_db_integer(u64::from(muted_until.is_some())));
    ImportRow { line: 0, cells }
}
