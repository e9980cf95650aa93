//! Messages of a file of another system.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use uuid::Builder;

use super::super::ImportLimits;
use super::super::check::check_order;
use super::super::error::{ImportError, LineProblem};
use super::super::fields::{CellReader, FileNumber, FileTime, number, text};
use super::super::lines::NumberedRecord;
use super::super::records::{MessageRecord, Record};
use super::super::rows::{self, ImportRow};
use super::super::tables::MESSAGES;
use super::{AssignedPage, MessageKey, not_in_pair_problem};
use crate::clock::Timestamp;
use crate::database::WriteTransaction;
use crate::database::copy::{CellRow, ColumnType};
use crate::ids::{ConversationId, UserId};

const SELECT_EXISTING: &str = "
    SELECT m.conversation_id, m.sender_id, m.client_id FROM (VALUES {rows}) AS k CROSS JOIN messages m
    WHERE m.conversation_id = k.column1 AND m.sender_id = k.column2 AND m.client_id = k.column3
        AND m.client_id IS NOT NULL";
/// Mentions of users who were members when the message was sent.
const INSERT_MENTIONS: &str = "
    INSERT INTO mentions (user_id, conversation_id, seq)
    SELECT m.user_id, m.conversation_id, r.column3 FROM (VALUES {rows}) AS r CROSS JOIN members m
    WHERE m.conversation_id = r.column1 AND m.user_id = r.column2 AND m.joined_at <= r.column4
    ON CONFLICT DO NOTHING";
const SELECT_LATER_MEMBERS: &str = "
    SELECT m.conversation_id, m.user_id, m.joined_at FROM (VALUES {rows}) AS k CROSS JOIN members m
    WHERE m.conversation_id = k.column1 AND m.joined_at > k.column2";
const RAISE_JOINED_SEQ: &str = "
    UPDATE members SET joined_seq = r.column3,
        badge_seq = CASE WHEN badge_seq < r.column3 THEN r.column3 ELSE badge_seq END
    FROM (VALUES {rows}) AS r
    WHERE members.conversation_id = r.column1 AND members.user_id = r.column2 AND joined_seq < r.column3";
/// A member who sends a message has read the messages before it.
const UPDATE_SENDERS: &str = "
    UPDATE members SET delivered_seq = r.column3, read_seq = r.column3, badge_seq = r.column3, own_after = 0,
        position_version = position_version + r.column4
    FROM (VALUES {rows}) AS r
    WHERE members.conversation_id = r.column1 AND members.user_id = r.column2 AND badge_seq < r.column3";

/// A message that gets its row with the page.
pub(super) struct NewMessage {
    conversation: ConversationId,
    seq: i64,
    created_at: i64,
    row: ImportRow,
    /// Mentioned users, without the sender.
    mentions: Vec<UserId>,
}

/// Messages that a member has sent.
#[derive(Default)]
pub(super) struct OwnMessages {
    pub(super) last_seq: i64,
    pub(super) count: i64,
}

/// Reads which messages of the page the database has.
pub(super) async fn find_existing(
    tx: &mut WriteTransaction,
    page: &[NumberedRecord],
) -> Result<HashSet<MessageKey>, sqlx::Error> {
    let keys = page.iter().filter_map(|it| match &it.record {
        Record::Message(it) => Some(vec![
            text(&it.conversation_id),
            text(&it.sender_id),
            text(&it.id),
        ]),
        _ => None,
    });
    let keys: Vec<CellRow> = keys.collect();
    let found = rows::query_for_rows(tx, SELECT_EXISTING, &keys, &[ColumnType::Text; 3]).await?;
    let found = found.into_iter().map(|row| {
        let mut cells = CellReader::new(row);
        (cells.text(), cells.text(), cells.text())
    });
    Ok(found.collect())
}

impl AssignedPage<'_> {
    pub(super) fn add_message(
        &mut self,
        line: u64,
        record: &MessageRecord,
        limits: &ImportLimits,
    ) -> Result<bool, ImportError> {
        let (id, sender) = record.ids()?;
        let key = (id.to_string(), sender.to_string(), record.id.clone());
        let is_known = !self.known_messages.insert(key);
        let state = self.require_conversation(&id)?;
        if !state.admits(&sender) {
            return Err(not_in_pair_problem("senderId", &sender).into());
        }
        if is_known {
            return Ok(false);
        }
        check_order(FileTime::from_db(state.last_at), record.created_at)?;
        let content = record.content(limits)?;
        // A change after the sending has a revision of its own.
        let is_edited = record.edited_at.is_some() || record.deleted_at.is_some();
        state.rev += 1 + i64::from(is_edited);
        state.last_seq += 1;
        state.last_at = record.created_at.to_db();
        state.is_changed = true;
        let (seq, rev) = (state.last_seq, state.rev);
        let mentions = content.as_ref().map_or(&[][..], |it| &it.mentions);
        let mentions = mentions
            .iter()
            .filter(|user| **user != sender)
            .cloned()
            .collect();
        let row = MessageRecord {
            seq: Some(FileNumber::from_db(seq)),
            rev: Some(FileNumber::from_db(rev)),
            id: message_id(record, &id, &sender),
            client_id: Some(record.id.clone()),
            sender_role: Some(record.role()?.name().to_owned()),
            metadata: to_raw_json(content.and_then(|it| it.metadata))?,
            ..record.clone()
        };
        let own = self.own_messages.entry((id.clone(), sender)).or_default();
        own.last_seq = seq;
        own.count += 1;
        self.new_messages.push(NewMessage {
            conversation: id,
            seq,
            created_at: record.created_at.to_db(),
            row: ImportRow {
                line,
                cells: row.to_row(),
            },
            mentions,
        });
        Ok(true)
    }

    /// Inserts the new messages and their mentions.
    pub(super) async fn insert_messages(
        &mut self,
        tx: &mut WriteTransaction,
    ) -> Result<(), ImportError> {
        let mut mentions: Vec<CellRow> = Vec::new();
        for message in &self.new_messages {
            let id = message.conversation.as_str();
            mentions.extend(message.mentions.iter().map(|user| {
                vec![
                    text(id),
                    text(user.as_str()),
                    number(message.seq),
                    number(message.created_at),
                ]
            }));
        }
        let rows: Vec<ImportRow> = self
            .new_messages
            .iter_mut()
            .map(|message| ImportRow {
                line: message.row.line,
                cells: std::mem::take(&mut message.row.cells),
            })
            .collect();
        let outcome = rows::insert_missing(tx, &MESSAGES, MESSAGES.columns().len(), &rows).await?;
        if let Some(line) = outcome.conflicts.first() {
            let text =
                "the message conflicts with another message in the database; give it another id";
            return Err(LineProblem::new("id", text).at(*line).into());
        }
        rows::execute_for_rows(tx, INSERT_MENTIONS, &mentions).await?;
        Ok(())
    }

    /// Members who joined after some of the new messages: these messages are before their membership.
    pub(super) async fn raise_joined_seqs(
        &mut self,
        tx: &mut WriteTransaction,
    ) -> Result<(), ImportError> {
        let mut by_conversation: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
        for message in &self.new_messages {
            let id = message.conversation.as_str();
            let messages = by_conversation.entry(id).or_default();
            messages.push((message.created_at, message.seq));
        }
        let first_times = by_conversation.iter();
        let first_times: Vec<CellRow> = first_times
            .map(|(id, messages)| vec![text(*id), number(messages[0].0)])
            .collect();
        let columns = [ColumnType::Text, ColumnType::Text, ColumnType::Integer];
        let later = rows::query_for_rows(tx, SELECT_LATER_MEMBERS, &first_times, &columns).await?;
        let raised = later.into_iter().filter_map(|row| {
            let mut cells = CellReader::new(row);
            let (id, user, joined_at) = (cells.text(), cells.text(), cells.number());
            let messages = by_conversation.get(id.as_str())?;
            let before = messages.partition_point(|(created_at, _)| *created_at < joined_at);
            let (_, seq) = messages[..before].last()?;
            Some(vec![text(id), text(user), number(*seq)])
        });
        let raised: Vec<CellRow> = raised.collect();
        rows::execute_for_rows(tx, RAISE_JOINED_SEQ, &raised).await?;
        Ok(())
    }

    /// Moves the positions of the senders to their last message.
    pub(super) async fn update_senders(
        &mut self,
        tx: &mut WriteTransaction,
    ) -> Result<(), ImportError> {
        let own = self.own_messages.iter().filter(|(_, own)| own.count > 0);
        let rows: Vec<CellRow> = own
            .map(|((id, user), own)| {
                vec![
                    text(id.as_str()),
                    text(user.as_str()),
                    number(own.last_seq),
                    number(own.count),
                ]
            })
            .collect();
        rows::execute_for_rows(tx, UPDATE_SENDERS, &rows).await?;
        Ok(())
    }
}

fn to_raw_json(
    text: Option<String>,
) -> Result<Option<Box<serde_json::value::RawValue>>, LineProblem> {
    let raw = text
        .map(serde_json::value::RawValue::from_string)
        .transpose();
    raw.map_err(|error| LineProblem::new("metadata", error.to_string()))
}

/// The id of a message: a UUIDv7 with the time of the message. The other bits follow from the message as well.
fn message_id(record: &MessageRecord, conversation: &ConversationId, sender: &UserId) -> String {
    let Timestamp(ms) = record.created_at.0;
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, conversation.as_str(), sender.as_str(), &record.id).hash(&mut hasher);
        hasher.finish()
    };
    let mut bits = [0; 10];
    bits[..8].copy_from_slice(&half(0).to_be_bytes());
    bits[8..].copy_from_slice(&half(1).to_be_bytes()[..2]);
    Builder::from_unix_timestamp_millis(ms, &bits)
        .into_uuid()
        .to_string()
}
