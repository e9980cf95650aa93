//! Conversations with the effects of the lines of a page.

use std::collections::{BTreeSet, HashMap};

use super::super::error::{ImportError, LineProblem};
use super::super::exact::conversation_of;
use super::super::fields::{CellReader, text};
use super::super::lines::NumberedRecord;
use super::super::records::Record;
use super::super::rows;
use crate::conversations::ConversationKind;
use crate::database::WriteTransaction;
use crate::database::copy::{CellRow, ColumnType};
use crate::ids::{ConversationId, UserId};

const SELECT_CONVERSATIONS: &str = "
    SELECT c.id, c.kind, c.pair, c.created_at, c.last_seq, c.last_at, c.rev, c.members_version, c.member_count
    FROM (VALUES {rows}) AS k CROSS JOIN conversations c WHERE c.id = k.column1";
const STATE_COLUMNS: [ColumnType; 9] = [
    ColumnType::Text,
    ColumnType::Text,
    ColumnType::Text,
    ColumnType::Integer,
    ColumnType::Integer,
    ColumnType::Integer,
    ColumnType::Integer,
    ColumnType::Integer,
    ColumnType::Integer,
];

/// A conversation with the effects of the lines so far.
pub(super) struct ConversationState {
    pub(super) kind: ConversationKind,
    pub(super) pair: Option<String>,
    pub(super) created_at: i64,
    pub(super) last_seq: i64,
    pub(super) last_at: i64,
    pub(super) rev: i64,
    pub(super) members_version: i64,
    pub(super) member_count: i64,
    /// `last_seq` in the database.
    pub(super) stored_last_seq: i64,
    pub(super) is_changed: bool,
}

/// Reads the conversations that the records of a page name.
pub(super) async fn find_states(
    tx: &mut WriteTransaction,
    page: &[NumberedRecord],
) -> Result<HashMap<ConversationId, ConversationState>, ImportError> {
    let ids = page.iter().filter_map(|it| match &it.record {
        Record::Conversation(record) => Some(record.id.as_str()),
        record => conversation_of(record),
    });
    let ids: BTreeSet<&str> = ids.collect();
    let keys: Vec<CellRow> = ids.into_iter().map(|id| vec![text(id)]).collect();
    let found = rows::query_for_rows(tx, SELECT_CONVERSATIONS, &keys, &STATE_COLUMNS).await?;
    let mut states = HashMap::with_capacity(found.len());
    for row in found {
        let mut cells = CellReader::new(row);
        let id = ConversationId::new(cells.text()).map_err(LineProblem::of_id("conversationId"))?;
        let kind = ConversationKind::parse(&cells.text()).unwrap_or(ConversationKind::Group);
        let pair = cells.optional_text();
        let [
            created_at,
            last_seq,
            last_at,
            rev,
            members_version,
            member_count,
        ] = [(); 6].map(|()| cells.number());
        let state = ConversationState {
            kind,
            pair,
            created_at,
            last_seq,
            last_at,
            rev,
            members_version,
            member_count,
            stored_last_seq: last_seq,
            is_changed: false,
        };
        states.insert(id, state);
    }
    Ok(states)
}

impl ConversationState {
    /// True if the user may be a member and a sender: in a direct conversation, only its two users.
    pub(super) fn admits(&self, user: &UserId) -> bool {
        let Some(pair) = &self.pair else {
            return true;
        };
        pair.split(' ').any(|it| it == user.as_str())
    }
}
