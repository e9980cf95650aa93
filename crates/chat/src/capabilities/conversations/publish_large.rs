//! Publishes a change of members of a conversation above the fan-out limit to the nodes that cache the members.

use super::Conversations;
use super::model::{LargeMembersChangedFrame, MembershipChange};
use crate::api::error::Result;
use crate::bus::frame::{self, BusFrameKind};

/// Maximum number of users that a frame names.
const MAX_NAMED_USERS: usize = 100;

impl Conversations {
    /// Publishes the change on the channel of large conversations. No node has cached the members before their first
    /// version. If the change does not name every user whose membership changed at its version, the nodes read all members
    /// again.
    pub(super) async fn publish_large_change(
        &self,
        change: &MembershipChange,
        names_all_users: bool,
    ) -> Result<()> {
        if change.member_count <= self.unread.fanout_limit() || change.members_version <= 1 {
            return Ok(());
        }
        let is_small = names_all_users && !change.deleted && change.users.len() <= MAX_NAMED_USERS;
        let users = change.users.iter().filter(|_| is_small);
        let body = LargeMembersChangedFrame {
            conversation_id: change.conversation.clone(),
            members_version: change.members_version,
            user_ids: users.map(|(user, _)| user.clone()).collect(),
        };
        let frame = frame::encode_json(BusFrameKind::LargeMembersChanged, &body);
        let channel = self.ctx.keys().large_conversations_channel();
        let bus = self.ctx.store().bus();
        bus.publish(channel.as_str(), frame).await?;
        Ok(())
    }
}
