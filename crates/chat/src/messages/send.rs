//! Sending a message.
//!
//! Always true:
//! 1. The acknowledgement means: on disk. What follows the commit (list, frame, event, counts) is waited for a short time
//!    only, and made up for if the store does not answer.
//! 2. The row decides who may write, and whether it is a repetition. Neither takes a place of the rate.
//! 3. From the write on a message has a task of its own: a caller who gives up leaves nothing half-done. There are at most
//!    so many of these; who comes then waits.

use std::sync::Arc;
use std::time::Duration;

use redis::pipe;
use tokio::sync::oneshot;
use uuid::{NoContext, Timestamp, Uuid};

use super::append::{Appended, Batch, State};
use super::content::{Content, check_client_id};
use super::encode::{Encoded, Participants};
use super::owed::Step;
use super::rows::{self, Head};
use super::writer::{Draft, Turn, Written};
use super::{Message, Messages};
use crate::access::Caller;
use crate::bus::frame::Kind;
use crate::context::Moment;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::limits::Verdict;
use crate::ticking::told;
use crate::unread;

/// How long the acknowledgement waits for the store.
const PATIENCE: Duration = Duration::from_secs(1);

/// A message that somebody wants to send.
#[derive(Debug, Clone, Default)]
pub struct NewMessage {
    /// The text.
    pub content: String,
    /// What is added to it: a JSON object.
    pub metadata: Option<serde_json::Value>,
    /// What the client calls it, so that a repetition is not a second message.
    pub client_id: Option<String>,
}

/// A message that is on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// The message.
    pub message: Message,
    /// It was sent before, with the same `client_id`.
    pub repeated: bool,
}

impl Messages {
    /// Sends a message.
    pub async fn send(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &ConversationId,
        new: NewMessage,
    ) -> Result<Sent> {
        let sender = caller.user()?;
        caller.may_write()?;
        let content = Content::check(new.content, new.metadata.as_ref(), &self.options)?;
        new.client_id.as_deref().map_or(Ok(()), check_client_id)?;
        let counted = match self.admit(conversation, sender).await? {
            Admission::Counted => true,
            Admission::Uncounted => false,
            Admission::Refused { retry_after_ms } => {
                let client_id = new.client_id.as_deref();
                let first = self.first(conversation, sender, client_id).await?;
                return first.ok_or(Error::RateLimited { retry_after_ms });
            }
        };
        let at = self.ctx.now();
        let draft = Draft {
            id: id_at(at),
            conversation: conversation.clone(),
            sender: sender.clone(),
            sender_role: caller.role,
            content: content.text,
            metadata: content.metadata,
            client_id: new.client_id,
            mentions: content.mentions,
            at,
        };
        self.write(draft, counted).await
    }

    /// Asks in one round trip whether the sender is known to be no member, and takes a place of their rate.
    async fn admit(&self, conversation: &ConversationId, sender: &UserId) -> Result<Admission> {
        let mut asked = pipe();
        asked
            // Not GET, which fails where somebody else wrote something else.
            .cmd("MGET")
            .arg(self.ctx.keys().membership(conversation, sender))
            .add_command(self.limits.message_call(sender, self.options.rate).cmd());
        let answered = asked.query_async(&mut self.ctx.store().clone()).await;
        let ((cached,), verdict): ((Option<String>,), Verdict) = match answered.map_err(Error::from)
        {
            Ok(answered) => answered,
            // Neither one that is away nor one that is full can count.
            Err(error) => {
                let cannot = error.is_away() || matches!(error, Error::StoreFull(_));
                return match cannot && self.options.without_store {
                    true => Ok(Admission::Uncounted),
                    false => Err(error),
                };
            }
        };
        let unknown = cached.is_some_and(|cached| cached.starts_with('0'));
        if unknown
            && self
                .conversations
                .member(conversation, sender)
                .await?
                .is_none()
        {
            if verdict.allowed {
                self.give_back(sender).await;
            }
            return Err(Error::NotAMember(conversation.clone()));
        }
        Ok(match verdict.allowed {
            true => Admission::Counted,
            false => Admission::Refused {
                retry_after_ms: verdict.retry_after_ms.unwrap_or_default(),
            },
        })
    }

    async fn give_back(&self, sender: &UserId) {
        told(
            "give a place of the rate back",
            &self.limits.give_back(sender).await,
        );
    }

    /// The message that the sender has sent by this name.
    async fn first(
        &self,
        conversation: &ConversationId,
        sender: &UserId,
        client_id: Option<&str>,
    ) -> Result<Option<Sent>> {
        let Some(client_id) = client_id else {
            return Ok(None);
        };
        let row = rows::by_client_id(&self.database, conversation, sender, client_id).await?;
        Ok(row.map(|row| Sent {
            message: row.into_message(),
            repeated: true,
        }))
    }

    async fn write(self: &Arc<Self>, draft: Draft, counted: bool) -> Result<Sent> {
        let (done, written) = oneshot::channel();
        let (applied, awaited) = oneshot::channel::<()>();
        let this = Arc::clone(self);
        let work = async move {
            let (conversation, sender) = (draft.conversation.clone(), draft.sender.clone());
            let was = Was {
                at: draft.at,
                epoch: this.epoch(),
                role: draft.sender_role.name(),
            };
            let (written, turn) = match this.writer.send_in_turn(draft).await {
                Ok((written, turn)) => (Ok(written), Some(turn)),
                Err(error) => (Err(error), None),
            };
            let sent = written.as_ref().ok().cloned();
            if matches!(written, Err(Error::DatabaseUnavailable(_))) {
                // It may be there all the same, and nobody else knows of it.
                this.owed.note(Step::Messages(conversation.clone()));
            }
            // Nobody may wait any more; the rest is done all the same.
            drop(done.send(written));
            if counted && sent.as_ref().is_none_or(|sent| sent.repeated) {
                this.give_back(&sender).await;
            }
            let (Some(sent), Some(turn)) = (sent, turn) else {
                return;
            };
            let appended = match sent.repeated {
                // Its first sender may have ended before the steps after the commit.
                true => this.catch_up(&conversation).await.map(|()| None),
                false => this.apply_new(&sent, &was, turn).await.map(Some),
            };
            if appended.is_err() {
                this.owed.note(Step::Messages(conversation));
            }
            told("apply a message", &appended);
            drop(applied);
            if let Ok(Some(appended)) = appended {
                told("mend caches", &this.mend(&sent, appended).await);
            }
        };
        self.spawn(work).await;
        let Ok(written) = written.await else {
            // The runtime ends.
            return std::future::pending().await;
        };
        let written = written?;
        // The row is there: whatever becomes of the rest, the answer is yes.
        drop(tokio::time::timeout(PATIENCE, awaited).await);
        Ok(Sent {
            message: written.message,
            repeated: written.repeated,
        })
    }

    /// The steps after the commit, in one round trip for most messages.
    async fn apply_new(&self, sent: &Written, was: &Was, mut turn: Turn) -> Result<Appended> {
        let message = &sent.message;
        let conversation = &message.conversation_id;
        self.typing.message_sent(conversation, &message.sender_id);
        let head = Head {
            last_seq: message.seq,
            rev: message.rev,
            members_version: sent.members_version,
            member_count: sent.member_count,
        };
        let participants = self.participants(conversation, &head).await?;
        let (layout, at) = (self.layout(), was.at.ms());
        let encoded = Encoded::of(Kind::MessageCreated, message, was.role, at, layout);
        let call = self.append_call(&Batch {
            conversation,
            messages: std::slice::from_ref(&encoded),
            rev: message.rev,
            members_version: sent.members_version,
            participants: &participants,
            // Before the first one there is nothing, unless the store has forgotten it since.
            start: (message.seq == 1 && was.epoch == self.epoch()).then_some(0),
        });
        let store = self.ctx.store().repeatable();
        let append = async {
            turn.comes().await;
            let appended = call.run::<Appended>(&store).await;
            drop(turn);
            appended
        };
        let (appended, counted) = tokio::join!(append, self.count(sent, &participants));
        told("count a message", &counted);
        let appended = appended?;
        if appended.state != State::Applied {
            self.apply_rest(conversation, appended.state, appended.top)
                .await?;
        }
        Ok(appended)
    }

    /// Fills the caches that the message found missing, for other services and for the next who asks.
    async fn mend(&self, sent: &Written, appended: Appended) -> Result<()> {
        let conversation = &sent.message.conversation_id;
        if appended.list_missing {
            self.newest(conversation, None).await?;
        }
        if appended.participants_missing {
            let version = sent.members_version;
            self.conversations
                .refill_participants(conversation, version)
                .await?;
        }
        Ok(())
    }

    async fn count(&self, sent: &Written, participants: &Participants) -> Result<()> {
        let members = match participants {
            Participants::Named(users) => Some(&users[..]),
            Participants::Crowd(_) => None,
        };
        let message = &sent.message;
        let counted = unread::Sent {
            conversation: &message.conversation_id,
            seq: message.seq,
            sender: &message.sender_id,
            members,
            members_version: sent.members_version,
            sender_position: (sent.joined_version, sent.position_version),
        };
        self.unread.sent(&counted).await
    }
}

/// What was true when a message was sent.
struct Was {
    at: Moment,
    epoch: u64,
    role: &'static str,
}

/// Whether a message may be sent.
enum Admission {
    /// Yes, and it took a place of the rate.
    Counted,
    /// Yes, and nobody could count it.
    Uncounted,
    /// Not now.
    Refused { retry_after_ms: u64 },
}

/// A new id of this moment.
fn id_at(moment: Moment) -> Uuid {
    let (seconds, ms) = (moment.ms() / 1_000, moment.ms() % 1_000);
    let nanos = u32::try_from(ms * 1_000_000).expect("less than a second");
    Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, nanos))
}
