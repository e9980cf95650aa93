//! Notifications about conversations above the fan-out limit. A message does not update the keys of their members, so
//! it is published to all nodes, and each node notifies the members that are connected to it.
//!
//! Invariants:
//! 1. A node publishes at most one frame per second and conversation, with the newest `seq`.
//! 2. No count depends on the frame: if it is lost, unread badges are late until the next message.

use std::time::Duration;

use super::Unread;
use crate::api::error::Result;
use crate::bus::frame::{self, BusFrameKind};
use crate::ids::ConversationId;
use crate::throttle::NewestThrottle;

/// Minimum time between two frames of a node about one conversation.
const MIN_NOTIFY_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of conversations that a throttle remembers. Messages of further ones are notified at once.
const MAX_THROTTLED_CONVERSATIONS: usize = 10_000;

/// `last_seq` of a conversation and its `members_version` at that time.
pub(crate) type Newest = (u64, u64);

/// Throttle of the notifications of one node.
pub(crate) fn new_throttle() -> NewestThrottle<ConversationId, Newest> {
    NewestThrottle::new(MIN_NOTIFY_INTERVAL, MAX_THROTTLED_CONVERSATIONS)
}

impl Unread {
    /// Publishes the newest message of a conversation if it has more members than the fan-out limit; throttled.
    pub(crate) async fn notify_large_conversation(
        &self,
        conversation: &ConversationId,
        newest: Newest,
        members: Option<usize>,
    ) -> Result<()> {
        if members.is_some_and(|members| members as u64 <= self.fanout_limit) {
            return Ok(());
        }
        match self
            .large_throttle
            .submit(conversation, newest, self.ctx.now())
        {
            Some(newest) => Box::pin(self.publish_large(conversation, newest)).await,
            None => Ok(()),
        }
    }

    /// Publishes the throttled notifications that are due. The background task calls this several times a second.
    pub async fn publish_due_notifications(&self) -> Result<()> {
        for (conversation, newest) in self.large_throttle.take_due(self.ctx.now()) {
            self.publish_large(&conversation, newest).await?;
        }
        Ok(())
    }

    async fn publish_large(&self, conversation: &ConversationId, newest: Newest) -> Result<()> {
        let channel = self.ctx.keys().large_conversations_channel();
        let bus = self.ctx.store().bus();
        bus.publish(channel.as_str(), encode_large_frame(conversation, newest))
            .await?;
        Ok(())
    }
}

/// Encodes the frame: 8 bytes of the `seq`, 8 bytes of the `members_version`, the conversation id.
fn encode_large_frame(conversation: &ConversationId, (seq, members_version): Newest) -> Vec<u8> {
    let id = conversation.as_str().as_bytes();
    let mut frame = frame::start_frame(BusFrameKind::LargeConversationMessage, 16 + id.len());
    frame.extend(seq.to_be_bytes());
    frame.extend(members_version.to_be_bytes());
    frame.extend(id);
    frame
}

/// Decodes the body of that frame; `None` if it is malformed.
pub(crate) fn decode_large_frame(body: &[u8]) -> Option<(ConversationId, Newest)> {
    let (seq, body) = body.split_first_chunk()?;
    let (members_version, id) = body.split_first_chunk()?;
    let id = ConversationId::new(str::from_utf8(id).ok()?).ok()?;
    let newest = (
        u64::from_be_bytes(*seq),
        u64::from_be_bytes(*members_version),
    );
    Some((id, newest))
}
