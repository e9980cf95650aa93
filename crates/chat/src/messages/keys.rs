//! The keys of messages.
//!
//! Always true: the recent list has no hole below `parlor:top`, or it is not served.

use super::catch_up::CLAIMED;
use crate::ids::ConversationId;
use crate::keys::{
    Capability, Channel, Key, KeySpec, Keyspace, Kind, Layout, RecentLayout, Source, Ttl, TtlName,
};

/// What messages own.
pub const CAPABILITY: Capability = Capability {
    name: "messages",
    title: "Messages",
    keys: &[RECENT, CONVERSATION, CREATED, TOP, CATCH_UP],
};

const RECENT: KeySpec = KeySpec::new(
    "messages:{conv}:recent",
    Kind::List,
    Ttl::Setting(TtlName::Recent),
)
.value("the client's message as JSON plus `timestamp` (= `createdAt`)")
.meaning("the newest messages, newest first, at most 100")
.source(&[Source::S2])
.layout(Layout::Recent(RecentLayout::Messages));

const CONVERSATION: KeySpec = KeySpec::new(
    "chat:conversation:{conv}:messages",
    Kind::List,
    Ttl::Setting(TtlName::Recent),
)
.value("the client's message as JSON plus `timestamp` (= `createdAt`) and `sender_role`")
.meaning("the newest messages, newest first, at most 100")
.source(&[Source::S4])
.layout(Layout::Recent(RecentLayout::Conversation));

/// A message was created. The configuration may give this channel another name.
pub(crate) const CREATED: KeySpec = KeySpec::channel("events:message.created")
    .value(r#"`{"conversationId","messageId","senderId","participantIds"}`; above 1,000 members `participantIds` is `[]` and `participantCount` is there"#)
    .meaning("a message was created; another name from `NOTIFICATION_REDIS_CHANNEL` is used as it is, without prefix")
    .source(&[Source::S2]);

const TOP: KeySpec = KeySpec::internal(
    "parlor:top:{conv}",
    Kind::String,
    Ttl::After(TtlName::Recent, 60),
)
.value("`seq|epoch|rev`: the highest `seq` applied, the epoch it was checked in, the revision of the last change that was shown")
.meaning("up to where the conversation's messages were applied to list, events and bus, in order");

const CATCH_UP: KeySpec = KeySpec::internal("parlor:catch-up", Kind::String, Ttl::Fixed(CLAIMED))
    .value("`epoch|node`")
    .meaning("which node catches up with messages after the epoch rose");

impl Keyspace {
    /// The newest messages of a conversation, by the active layout.
    pub fn recent(&self, conversation: &ConversationId) -> Key {
        let spec = match self.settings().layouts.recent {
            RecentLayout::Messages => &RECENT,
            RecentLayout::Conversation => &CONVERSATION,
        };
        self.key1(spec, conversation)
    }

    /// Tells other services of a created message.
    pub fn message_created_events(&self) -> Channel {
        self.channel0(&CREATED)
    }

    /// Up to where a conversation's messages were applied.
    pub fn top(&self, conversation: &ConversationId) -> Key {
        self.key1(&TOP, conversation)
    }

    /// Which node catches up with messages.
    pub fn catch_up(&self) -> Key {
        self.key0(&CATCH_UP)
    }
}
