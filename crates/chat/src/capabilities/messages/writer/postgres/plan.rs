//! Computes the rows that a batch writes, from the rows that exist.
//!
//! Invariants:
//! 1. Of several drafts with the same client id, only the first is inserted.
//! 2. Messages of a conversation are numbered in the order of the drafts. Each message increments the
//!    `position_version` of its sender by one.

use std::collections::{BTreeMap, HashMap};

use crate::messages::message_row::MessageRow;
use crate::messages::writer::MessageDraft;
use crate::messages::writer::job::{DraftOutcome, SenderSnapshot, StoredRow};

/// A locked conversation row.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct LockedConversation {
    pub id: String,
    pub last_seq: i64,
    pub last_at: i64,
    pub rev: i64,
    members_version: i64,
    member_count: i64,
}

/// Membership of the sender and existing message of one draft.
#[derive(Debug)]
pub(super) struct ExistingState {
    /// `joined_version` and `position_version` of the sender, `None` if the sender is not a member.
    pub member: Option<(i64, i64)>,
    pub message: Option<MessageRow>,
}

/// A message to insert.
#[derive(Debug)]
pub(super) struct MessageInsert<'a> {
    pub draft: &'a MessageDraft,
    pub seq: i64,
    pub rev: i64,
    pub created_at: i64,
    /// Number of this message among its sender's messages in this conversation and batch, from 1.
    nth_of_sender: i64,
}

/// New position of a sender, and the number of messages that moved it.
#[derive(Debug)]
pub(super) struct PositionUpdate<'a> {
    pub conversation: &'a str,
    pub sender: &'a str,
    pub seq: i64,
    pub count: i64,
}

/// The sender's row after the update.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct UpdatedSender {
    conversation_id: String,
    user_id: String,
    joined_version: i64,
    position_version: i64,
}

/// Decision for one draft.
#[derive(Debug)]
enum DraftDecision {
    NotAMember,
    Existing(Box<MessageRow>, (i64, i64)),
    /// Inserted as the new message at this index.
    Insert(usize),
    /// Duplicate of the new message at this index, which has the same client id.
    DuplicateOf(usize),
}

#[derive(Debug)]
pub(super) struct BatchPlan<'a> {
    pub new: Vec<MessageInsert<'a>>,
    drafts: &'a [&'a MessageDraft],
    decisions: Vec<DraftDecision>,
    conversations: HashMap<String, LockedConversation>,
    /// Last `seq` and count of each sender's new messages in each conversation.
    sender_positions: BTreeMap<(&'a str, &'a str), (i64, i64)>,
}

impl<'a> BatchPlan<'a> {
    pub fn new(
        drafts: &'a [&'a MessageDraft],
        conversations: Vec<LockedConversation>,
        existing: Vec<ExistingState>,
    ) -> Self {
        let mut plan = Self {
            new: Vec::new(),
            drafts,
            decisions: Vec::with_capacity(drafts.len()),
            conversations: conversations
                .into_iter()
                .map(|it| (it.id.clone(), it))
                .collect(),
            sender_positions: BTreeMap::new(),
        };
        let mut by_client_id = HashMap::new();
        for (draft, existing) in drafts.iter().zip(existing) {
            let decision = plan.decide(draft, existing, &mut by_client_id);
            plan.decisions.push(decision);
        }
        plan
    }

    fn decide(
        &mut self,
        draft: &'a MessageDraft,
        existing: ExistingState,
        by_client_id: &mut HashMap<(&'a str, &'a str, &'a str), usize>,
    ) -> DraftDecision {
        let (conversation, sender) = (draft.conversation.as_str(), draft.sender.as_str());
        // The messages of a deleted conversation are removed later, so there may be a message with the same client id.
        let Some(head) = self.conversations.get_mut(conversation) else {
            return DraftDecision::NotAMember;
        };
        if let Some(row) = existing.message {
            return DraftDecision::Existing(Box::new(row), existing.member.unwrap_or_default());
        }
        if existing.member.is_none() {
            return DraftDecision::NotAMember;
        }
        if let Some(name) = &draft.client_id {
            let next = self.new.len();
            let first = *by_client_id
                .entry((conversation, sender, name))
                .or_insert(next);
            if first != next {
                return DraftDecision::DuplicateOf(first);
            }
        }
        head.last_seq += 1;
        head.rev += 1;
        head.last_at = head.last_at.max(draft.at.as_millis().cast_signed());
        let (last, count) = self
            .sender_positions
            .entry((conversation, sender))
            .or_default();
        (*last, *count) = (head.last_seq, *count + 1);
        self.new.push(MessageInsert {
            draft,
            seq: head.last_seq,
            rev: head.rev,
            created_at: head.last_at,
            nth_of_sender: *count,
        });
        DraftDecision::Insert(self.new.len() - 1)
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty()
    }

    /// Conversations with new messages.
    pub fn changed_conversations(&self) -> Vec<&LockedConversation> {
        let mut ids: Vec<_> = self
            .sender_positions
            .keys()
            .map(|(conversation, _)| *conversation)
            .collect();
        ids.dedup();
        ids.into_iter()
            .filter_map(|id| self.conversations.get(id))
            .collect()
    }

    /// Mentioned user, conversation and `seq` of each mention.
    pub fn mentions(&self) -> Vec<(&str, &str, i64)> {
        let of = |new: &MessageInsert<'a>| {
            let (conversation, seq) = (new.draft.conversation.as_str(), new.seq);
            let users = new.draft.stored_mentions();
            users.map(move |user| (user.as_str(), conversation, seq))
        };
        self.new.iter().flat_map(of).collect()
    }

    /// Position updates to write.
    pub fn position_updates(&self) -> Vec<PositionUpdate<'a>> {
        let of = |(&(conversation, sender), &(seq, count)): (&(&'a str, &'a str), &(i64, i64))| {
            PositionUpdate {
                conversation,
                sender,
                seq,
                count,
            }
        };
        self.sender_positions.iter().map(of).collect()
    }

    /// Results of the drafts, from the updated rows of the senders.
    pub fn into_outcomes(self, updated: &[UpdatedSender]) -> Vec<DraftOutcome> {
        let updated: HashMap<_, _> = updated
            .iter()
            .map(|it| ((it.conversation_id.as_str(), it.user_id.as_str()), it))
            .collect();
        let versions = |new: &MessageInsert<'_>| {
            let key = (new.draft.conversation.as_str(), new.draft.sender.as_str());
            let count = self
                .sender_positions
                .get(&key)
                .map_or(new.nth_of_sender, |(_, count)| *count);
            updated.get(&key).map_or((0, 0), |it| {
                (
                    it.joined_version,
                    it.position_version - count + new.nth_of_sender,
                )
            })
        };
        let mut outcomes = Vec::with_capacity(self.drafts.len());
        for (draft, decision) in self.drafts.iter().zip(self.decisions) {
            let (row, versions) = match decision {
                DraftDecision::NotAMember => {
                    outcomes.push(DraftOutcome::NotAMember);
                    continue;
                }
                DraftDecision::Existing(row, versions) => (StoredRow::Existing(row), versions),
                DraftDecision::Insert(at) => (self.new[at].row(), versions(&self.new[at])),
                DraftDecision::DuplicateOf(at) => {
                    (self.new[at].duplicate_row(), versions(&self.new[at]))
                }
            };
            let head = self.conversations.get(draft.conversation.as_str());
            outcomes.push(match head {
                Some(head) => DraftOutcome::Stored(row, head.sender_snapshot(versions)),
                None => DraftOutcome::NotAMember,
            });
        }
        outcomes
    }
}

impl MessageInsert<'_> {
    fn row(&self) -> StoredRow {
        StoredRow::New {
            seq: self.seq.cast_unsigned(),
            rev: self.rev.cast_unsigned(),
            created_at: self.created_at.cast_unsigned(),
        }
    }

    /// Row for a later draft with the same client id.
    fn duplicate_row(&self) -> StoredRow {
        let [seq, rev, at] = [self.seq, self.rev, self.created_at].map(i64::cast_unsigned);
        StoredRow::Existing(Box::new(self.draft.clone().into_row(seq, rev, at)))
    }
}

impl LockedConversation {
    fn sender_snapshot(&self, (joined, position): (i64, i64)) -> SenderSnapshot {
        SenderSnapshot {
            members_version: self.members_version.cast_unsigned(),
            member_count: self.member_count.cast_unsigned(),
            joined_version: joined.cast_unsigned(),
            position_version: position.cast_unsigned(),
        }
    }
}
