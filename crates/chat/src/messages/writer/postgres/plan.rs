//! What a batch changes, worked out from what is there.
//!
//! Always true: of several drafts by one name only the first is new; messages of a conversation are numbered in the order of
//! the drafts, and each moves its sender's position by one version.

use std::collections::{BTreeMap, HashMap};

use crate::messages::row::MessageRow;
use crate::messages::writer::Draft;
use crate::messages::writer::job::{Outcome, Place, Row};

/// A conversation that is locked.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct Head {
    pub id: String,
    pub last_seq: i64,
    pub last_at: i64,
    pub rev: i64,
    members_version: i64,
    member_count: i64,
}

/// What there is of a draft.
#[derive(Debug)]
pub(super) struct Found {
    /// `joined_version` and `position_version` of its sender.
    pub member: Option<(i64, i64)>,
    pub message: Option<MessageRow>,
}

/// A message that is to be inserted.
#[derive(Debug)]
pub(super) struct New<'a> {
    pub draft: &'a Draft,
    pub seq: i64,
    pub rev: i64,
    pub created_at: i64,
    /// Which of its sender's messages in this conversation it is, from 1.
    nth: i64,
}

/// Where a sender's position goes, after how many messages.
#[derive(Debug)]
pub(super) struct Move<'a> {
    pub conversation: &'a str,
    pub sender: &'a str,
    pub seq: i64,
    pub count: i64,
}

/// A sender after the move.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct Moved {
    conversation_id: String,
    user_id: String,
    joined_version: i64,
    position_version: i64,
}

/// What becomes of a draft.
#[derive(Debug)]
enum Fate {
    NotAMember,
    Old(Box<MessageRow>, (i64, i64)),
    /// The new message at this place.
    New(usize),
    /// The new message at this place is another draft by the same name.
    Again(usize),
}

#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub new: Vec<New<'a>>,
    drafts: &'a [&'a Draft],
    fates: Vec<Fate>,
    heads: HashMap<String, Head>,
    /// Last `seq` and count of each sender's new messages in each conversation.
    moves: BTreeMap<(&'a str, &'a str), (i64, i64)>,
}

impl<'a> Plan<'a> {
    pub fn new(drafts: &'a [&'a Draft], heads: Vec<Head>, found: Vec<Found>) -> Self {
        let mut plan = Self {
            new: Vec::new(),
            drafts,
            fates: Vec::with_capacity(drafts.len()),
            heads: heads.into_iter().map(|it| (it.id.clone(), it)).collect(),
            moves: BTreeMap::new(),
        };
        let mut named = HashMap::new();
        for (draft, found) in drafts.iter().zip(found) {
            let fate = plan.decide(draft, found, &mut named);
            plan.fates.push(fate);
        }
        plan
    }

    fn decide(
        &mut self,
        draft: &'a Draft,
        found: Found,
        named: &mut HashMap<(&'a str, &'a str, &'a str), usize>,
    ) -> Fate {
        if let Some(row) = found.message {
            return Fate::Old(Box::new(row), found.member.unwrap_or_default());
        }
        let (conversation, sender) = (draft.conversation.as_str(), draft.sender.as_str());
        let (Some(head), Some(_)) = (self.heads.get_mut(conversation), found.member) else {
            return Fate::NotAMember;
        };
        if let Some(name) = &draft.client_id {
            let next = self.new.len();
            let first = *named.entry((conversation, sender, name)).or_insert(next);
            if first != next {
                return Fate::Again(first);
            }
        }
        head.last_seq += 1;
        head.rev += 1;
        head.last_at = head.last_at.max(draft.at.ms().cast_signed());
        let (last, count) = self.moves.entry((conversation, sender)).or_default();
        (*last, *count) = (head.last_seq, *count + 1);
        self.new.push(New {
            draft,
            seq: head.last_seq,
            rev: head.rev,
            created_at: head.last_at,
            nth: *count,
        });
        Fate::New(self.new.len() - 1)
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty()
    }

    /// The conversations that have new messages.
    pub fn changed_heads(&self) -> Vec<&Head> {
        let mut ids: Vec<_> = self
            .moves
            .keys()
            .map(|(conversation, _)| *conversation)
            .collect();
        ids.dedup();
        ids.into_iter()
            .filter_map(|id| self.heads.get(id))
            .collect()
    }

    /// Who is mentioned, where, in which message.
    pub fn mentions(&self) -> Vec<(&str, &str, i64)> {
        let of = |new: &New<'a>| {
            let (conversation, seq) = (new.draft.conversation.as_str(), new.seq);
            let users = new.draft.mentioned().into_iter();
            users.map(move |user| (user.as_str(), conversation, seq))
        };
        self.new.iter().flat_map(of).collect()
    }

    /// Where the senders' positions go.
    pub fn moves(&self) -> Vec<Move<'a>> {
        let of =
            |(&(conversation, sender), &(seq, count)): (&(&'a str, &'a str), &(i64, i64))| Move {
                conversation,
                sender,
                seq,
                count,
            };
        self.moves.iter().map(of).collect()
    }

    /// What the commit did, by where the senders are now.
    pub fn outcomes(self, moved: &[Moved]) -> Vec<Outcome> {
        let moved: HashMap<_, _> = moved
            .iter()
            .map(|it| ((it.conversation_id.as_str(), it.user_id.as_str()), it))
            .collect();
        let versions = |new: &New<'_>| {
            let key = (new.draft.conversation.as_str(), new.draft.sender.as_str());
            let count = self.moves.get(&key).map_or(new.nth, |(_, count)| *count);
            moved.get(&key).map_or((0, 0), |it| {
                (it.joined_version, it.position_version - count + new.nth)
            })
        };
        let mut outcomes = Vec::with_capacity(self.drafts.len());
        for (draft, fate) in self.drafts.iter().zip(self.fates) {
            let (row, versions) = match fate {
                Fate::NotAMember => {
                    outcomes.push(Outcome::NotAMember);
                    continue;
                }
                Fate::Old(row, versions) => (Row::Old(row), versions),
                Fate::New(at) => (self.new[at].row(), versions(&self.new[at])),
                Fate::Again(at) => (self.new[at].again(), versions(&self.new[at])),
            };
            let head = self.heads.get(draft.conversation.as_str());
            outcomes.push(match head {
                Some(head) => Outcome::There(row, head.place(versions)),
                None => Outcome::NotAMember,
            });
        }
        outcomes
    }
}

impl New<'_> {
    fn row(&self) -> Row {
        Row::New {
            seq: self.seq.cast_unsigned(),
            rev: self.rev.cast_unsigned(),
            created_at: self.created_at.cast_unsigned(),
        }
    }

    /// The row for another draft by the same name.
    fn again(&self) -> Row {
        let [seq, rev, at] = [self.seq, self.rev, self.created_at].map(i64::cast_unsigned);
        Row::Old(Box::new(self.draft.clone().into_row(seq, rev, at)))
    }
}

impl Head {
    fn place(&self, (joined, position): (i64, i64)) -> Place {
        Place {
            members_version: self.members_version.cast_unsigned(),
            member_count: self.member_count.cast_unsigned(),
            joined_version: joined.cast_unsigned(),
            position_version: position.cast_unsigned(),
        }
    }
}
