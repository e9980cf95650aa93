//! Conversations above the fan-out limit: their members' keys are not written with a message, so the nodes are told that
//! there is one, and tell the members who are there.
//!
//! Always true: a node says it of a conversation at most once a second, and the newest number is said. What is lost makes a
//! badge late until the next message: nothing that is counted depends on it.

use std::time::Duration;

use super::Unread;
use crate::bus::frame::{self, BusFrameKind};
use crate::error::Result;
use crate::ids::ConversationId;

/// How often a node says it of one conversation.
pub(crate) const MIN_NOTIFY_INTERVAL: Duration = Duration::from_secs(1);

/// The newest message of a conversation, and the version of its members then.
pub(crate) type Newest = (u64, u64);

impl Unread {
    /// There is a message in a conversation of this many members.
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

    /// Says what had to wait. To be called some times a second.
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

/// The frame: 8 bytes of the number, 8 of the version of the members, the conversation.
fn encode_large_frame(conversation: &ConversationId, (seq, members_version): Newest) -> Vec<u8> {
    let id = conversation.as_str().as_bytes();
    let mut frame = frame::head(BusFrameKind::LargeConversationMessage, 16 + id.len());
    frame.extend(seq.to_be_bytes());
    frame.extend(members_version.to_be_bytes());
    frame.extend(id);
    frame
}

/// What the body of a frame says; none if it says nothing.
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
