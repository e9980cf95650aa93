//! What follows a commit: list, frame, event, counts.
//!
//! Always true:
//! 1. The messages of a conversation that were committed together are applied together, on a task of their own, in the
//!    order of their `seq`: one step for the list and the frames, one for the members' counts, however many they are.
//! 2. Whoever sent one is answered when the store has taken it, or after [`PATIENCE`]: whatever becomes of the rest, the row
//!    is there. What the store did not take is owed.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::Messages;
use super::append::{Appended, Batch, State};
use super::encode::{Encoded, Participants};
use super::owed::Step;
use super::rows::Head;
use super::turns::{Turn, Turns};
use super::writer::{After, Committed, Ticket, Written};
use crate::bus::frame::Kind;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::ticking::told;
use crate::unread::{self, Wrote};

/// How long the acknowledgement waits for the store.
const PATIENCE: Duration = Duration::from_secs(1);

/// Has messages applied when they are on disk.
pub(super) struct Applier {
    messages: Weak<Messages>,
    runtime: Handle,
    turns: Arc<Turns>,
}

/// Messages of one conversation and one commit.
struct Group {
    conversation: ConversationId,
    turn: Turn,
    committed: Vec<Committed>,
}

/// Messages that are new, one after the other.
struct New {
    encoded: Vec<Encoded>,
    wrote: Vec<Wrote>,
    /// The conversation after them.
    head: Head,
    /// The store was in this epoch before they were written.
    epoch: u64,
}

/// Who waits for a message, and what they are told.
type Answers = Vec<(Ticket, Written)>;

impl Applier {
    pub(super) fn new(messages: &Weak<Messages>) -> Arc<Self> {
        Arc::new(Self {
            messages: Weak::clone(messages),
            runtime: Handle::current(),
            turns: Arc::default(),
        })
    }
}

impl After for Applier {
    fn committed(&self, mut batch: Vec<Committed>) {
        let Some(messages) = self.messages.upgrade() else {
            return;
        };
        // Those of one conversation stay in their order.
        batch.sort_by(|one, other| one.conversation().cmp(other.conversation()));
        let mut groups = Vec::<Group>::new();
        for one in batch {
            match groups.last_mut() {
                Some(group) if group.conversation == *one.conversation() => {
                    group.committed.push(one);
                }
                _ => groups.push(Group {
                    conversation: one.conversation().clone(),
                    turn: self.turns.take(one.conversation()),
                    committed: vec![one],
                }),
            }
        }
        // From here the runtime is woken once, however many groups there are.
        self.runtime.spawn(async move {
            for group in groups {
                let messages = Arc::clone(&messages);
                tokio::spawn(async move { messages.apply(group).await });
            }
        });
    }

    fn in_doubt(&self, conversation: &ConversationId) {
        if let Some(messages) = self.messages.upgrade() {
            messages.owed.note(Step::Messages(conversation.clone()));
        }
    }
}

impl Messages {
    async fn apply(&self, group: Group) {
        let Group {
            conversation,
            turn,
            mut committed,
        } = group;
        let repeated = committed.extract_if(.., |it| it.is_repeated());
        let repeated: Vec<_> = repeated.collect();
        if !committed.is_empty() {
            self.apply_new(&conversation, turn, committed).await;
        }
        if !repeated.is_empty() {
            Box::pin(self.apply_repeated(&conversation, repeated)).await;
        }
    }

    async fn apply_new(&self, conversation: &ConversationId, turn: Turn, new: Vec<Committed>) {
        let (new, answers) = self.unpack(new);
        let applying = self.apply_in_turn(conversation, &new, turn);
        let (applied, places) = answered(answers, applying).await;
        match applied {
            Err(_) => self.owed.note(Step::Messages(conversation.clone())),
            Ok(it) if it.list_missing || it.participants_missing => {
                let mended = self.mend(conversation, it, new.head.members_version);
                told("mend caches", &Box::pin(mended).await);
            }
            Ok(_) => {}
        }
        drop(places);
    }

    fn unpack(&self, committed: Vec<Committed>) -> (New, Answers) {
        let layout = self.layout();
        let mut new = New {
            encoded: Vec::with_capacity(committed.len()),
            wrote: Vec::with_capacity(committed.len()),
            head: Head::default(),
            epoch: u64::MAX,
        };
        let mut answers = Vec::with_capacity(committed.len());
        for one in committed {
            let (row, written, ticket) = one.parts();
            let (encoded, message) = Encoded::new(Kind::MessageCreated, row, layout);
            let written = written(message);
            new.wrote.push(Wrote {
                user: encoded.sender.clone(),
                seq: encoded.seq,
                joined_version: written.joined_version,
                position_version: written.position_version,
            });
            new.head = Head {
                last_seq: encoded.seq,
                rev: encoded.rev,
                members_version: written.members_version,
                member_count: written.member_count,
            };
            new.epoch = new.epoch.min(ticket.epoch);
            new.encoded.push(encoded);
            answers.push((ticket, written));
        }
        (new, answers)
    }

    /// The steps after the commit, in one round trip for most messages.
    async fn apply_in_turn(
        &self,
        conversation: &ConversationId,
        new: &New,
        mut turn: Turn,
    ) -> Result<Appended> {
        for wrote in &new.wrote {
            self.typing.message_sent(conversation, &wrote.user);
        }
        let participants = self.participants(conversation, &new.head).await?;
        let first = new.encoded.first().is_some_and(|it| it.seq == 1);
        let call = self.append_call(&Batch {
            conversation,
            messages: &new.encoded,
            rev: new.head.rev,
            members_version: new.head.members_version,
            participants: &participants,
            // Before the first one there is nothing, unless the store has forgotten it since.
            start: (first && new.epoch == self.epoch()).then_some(0),
        });
        let store = self.ctx.store().repeatable();
        let append = async {
            turn.comes().await;
            let appended = call.run::<Appended>(&store).await;
            drop(turn);
            appended
        };
        let count = self.count(conversation, new, &participants);
        let (appended, counted) = tokio::join!(append, count);
        told("count messages", &counted);
        let appended = appended?;
        if appended.state != State::Applied {
            let rest = self.apply_rest(conversation, appended.state, appended.top);
            Box::pin(rest).await?;
        }
        Ok(appended)
    }

    async fn count(
        &self,
        conversation: &ConversationId,
        new: &New,
        participants: &Participants,
    ) -> Result<()> {
        let members = match participants {
            Participants::Named(users) => Some(&users[..]),
            Participants::Crowd(_) => None,
        };
        self.unread
            .sent(&unread::Sent {
                conversation,
                seq: new.head.last_seq,
                wrote: &new.wrote,
                members,
                members_version: new.head.members_version,
            })
            .await
    }

    /// Fills the caches that messages found missing, for other services and for the next who asks.
    async fn mend(
        &self,
        conversation: &ConversationId,
        appended: Appended,
        members_version: u64,
    ) -> Result<()> {
        if appended.list_missing {
            self.newest(conversation, None).await?;
        }
        if appended.participants_missing {
            self.conversations
                .refill_participants(conversation, members_version)
                .await?;
        }
        Ok(())
    }

    /// Their first sender may have ended before the steps after the commit.
    async fn apply_repeated(&self, conversation: &ConversationId, repeated: Vec<Committed>) {
        let mut answers = Vec::with_capacity(repeated.len());
        for one in repeated {
            let (row, written, ticket) = one.parts();
            if ticket.counted {
                self.give_back(&row.sender_id).await;
            }
            answers.push((ticket, written(row.into_message())));
        }
        let (applied, places) = answered(answers, self.catch_up(conversation)).await;
        if applied.is_err() {
            self.owed.note(Step::Messages(conversation.clone()));
        }
        drop(places);
    }
}

/// Waits for the store, and answers everybody then or when it takes too long. Their places are theirs until what is returned
/// is dropped.
async fn answered<T>(
    answers: Answers,
    applying: impl Future<Output = Result<T>>,
) -> (Result<T>, Vec<Option<OwnedSemaphorePermit>>) {
    let mut applying = pin!(applying);
    let answer = |answers: Answers| {
        let answers = answers.into_iter();
        answers.map(|(ticket, written)| ticket.answer(Ok(written)))
    };
    let (applied, places) = match timeout(PATIENCE, applying.as_mut()).await {
        Ok(applied) => (applied, answer(answers).collect()),
        Err(_) => {
            let places = answer(answers).collect();
            (applying.await, places)
        }
    };
    told("apply messages", &applied);
    (applied, places)
}
