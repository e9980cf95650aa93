//! Redis keys of messages.
//!
//! Invariants:
//! 1. The recent list has no gap below the watermark `parlor:top`, or it is not served.

use crate::ids::ConversationId;
use crate::keys::{
    Channel, Key, KeyGroup, KeyKind, KeyLayout, KeySpec, KeyTtl, Keyspace, RecentLayout,
    SchemaSource, TtlName,
};

/// How much longer the watermark lives than the recent list, in seconds.
pub(super) const WATERMARK_EXTRA_TTL_SECS: u64 = 60;
/// How long a claim on recovering an epoch lasts, in seconds.
pub(super) const RECOVERY_CLAIM_SECS: u64 = 10;

/// Keys and channels of messages.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "messages",
    title: "Messages",
    keys: &[
        RECENT_LIST,
        RECENT_LIST_CONVERSATION_LAYOUT,
        MESSAGE_CREATED_EVENTS,
        WATERMARK,
        RECOVERY_CLAIM,
    ],
};

const RECENT_LIST: KeySpec = KeySpec::documented(
    "messages:{conv}:recent",
    KeyKind::List,
    KeyTtl::Configured(TtlName::Recent),
)
.value("the message as clients receive it, as JSON, plus `timestamp` (= `createdAt`)")
.meaning("the newest messages, newest first, at most 100")
.sources(&[SchemaSource::ChatService])
.layout(KeyLayout::Recent(RecentLayout::Messages));

const RECENT_LIST_CONVERSATION_LAYOUT: KeySpec = KeySpec::documented(
    "chat:conversation:{conv}:messages",
    KeyKind::List,
    KeyTtl::Configured(TtlName::Recent),
)
.value("the message as clients receive it, as JSON, plus `timestamp` (= `createdAt`) and `sender_role`")
.meaning("the newest messages, newest first, at most 100")
.sources(&[SchemaSource::HomeAssistant])
.layout(KeyLayout::Recent(RecentLayout::Conversation));

/// Event: a message was created. The configuration can give this channel another name.
pub(crate) const MESSAGE_CREATED_EVENTS: KeySpec = KeySpec::channel("events:message.created")
    .value(r#"`{"conversationId","messageId","senderId","participantIds"}`; `participantIds` are the other members, without the sender; above 1,000 members it is `[]` and `participantCount` is set"#)
    .meaning("a message was created; a name from `NOTIFICATION_REDIS_CHANNEL` replaces this name and gets no prefix")
    .sources(&[SchemaSource::ChatService]);

const WATERMARK: KeySpec = KeySpec::internal(
    "parlor:top:{conv}",
    KeyKind::String,
    KeyTtl::ConfiguredPlus(TtlName::Recent, WATERMARK_EXTRA_TTL_SECS),
)
.value("`seq|epoch|rev`: the highest applied `seq`, the store epoch in which it was checked, the revision of the last published change")
.meaning("watermark: all messages up to this `seq` were applied to list, events and bus, in order");

const RECOVERY_CLAIM: KeySpec = KeySpec::internal(
    "parlor:catch-up",
    KeyKind::String,
    KeyTtl::Fixed(RECOVERY_CLAIM_SECS),
)
.value("`epoch|node`")
.meaning("the node that recovers messages after the store epoch rose");

impl Keyspace {
    /// Recent list of a conversation, in the configured layout.
    pub fn recent_list(&self, conversation: &ConversationId) -> Key {
        let spec = match self.settings().layouts.recent {
            RecentLayout::Messages => &RECENT_LIST,
            RecentLayout::Conversation => &RECENT_LIST_CONVERSATION_LAYOUT,
        };
        self.key1(spec, conversation)
    }

    /// Channel of the event that a message was created.
    pub fn message_created_events(&self) -> Channel {
        self.channel0(&MESSAGE_CREATED_EVENTS)
    }

    /// Watermark of a conversation: the highest applied `seq`.
    pub fn apply_watermark(&self, conversation: &ConversationId) -> Key {
        self.key1(&WATERMARK, conversation)
    }

    /// Claim on the recovery of an epoch.
    pub fn recovery_claim(&self) -> Key {
        self.key0(&RECOVERY_CLAIM)
    }
}
