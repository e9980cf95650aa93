//! [`KeySpec`]: the declaration of a key or channel.
//!
//! Invariant: declarations are constants. Nothing is registered at run time.

use std::time::Duration;

use super::named_enum::named_enum;
use super::pattern::KeyPattern;
use super::settings::{
    KeyLayouts, KeySettings, PresenceLayout, RecentLayout, SessionLayout, TypingLayout,
};
use super::ttl::KeyTtl;

named_enum! {
    /// Redis type of a key, or that it is a channel. The name is that of the reference.
    pub enum KeyKind {
        /// String.
        String = "string",
        /// String that contains a counter.
        Counter = "counter",
        /// String that contains an integer which is not only counted up.
        Integer = "integer",
        /// Hash.
        Hash = "hash",
        /// List.
        List = "list",
        /// Set.
        Set = "set",
        /// Sorted set.
        SortedSet = "sorted set",
        /// Sorted set of geographical positions.
        Geo = "geo (sorted set)",
        /// Pub/sub channel that reaches every server of a cluster.
        Channel = "channel",
        /// Pub/sub channel that is sharded in cluster mode if the server supports it.
        ShardChannel = "channel (sharded)",
    }
}

impl KeyKind {
    /// Reply of the command `TYPE`; `None` for channels, which are not stored.
    pub const fn redis_type(self) -> Option<&'static str> {
        match self {
            Self::String | Self::Counter | Self::Integer => Some("string"),
            Self::Hash => Some("hash"),
            Self::List => Some("list"),
            Self::Set => Some("set"),
            Self::SortedSet | Self::Geo => Some("zset"),
            Self::Channel | Self::ShardChannel => None,
        }
    }

    /// True for channels, which are not stored.
    pub const fn is_channel(self) -> bool {
        matches!(self, Self::Channel | Self::ShardChannel)
    }
}

named_enum! {
    /// The documented schema that a key comes from. The reference describes the schemas by these names.
    pub enum SchemaSource {
        /// Key design of a chat application.
        ChatApp = "S0",
        /// Key structure of a rooms service.
        Rooms = "S1",
        /// Schema of a chat service.
        ChatService = "S2",
        /// Planned keys of the chat service's schema.
        ChatServicePlanned = "S2, future list",
        /// Data model of a user status service.
        UserStatus = "S3",
        /// Schema of a home-assistant backend.
        HomeAssistant = "S4",
        /// Parlor's own.
        Parlor = "ours",
    }
}

/// The layout that a declaration belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyLayout {
    /// All layouts.
    Any,
    /// A layout of presence.
    Presence(PresenceLayout),
    /// A layout of typing.
    Typing(TypingLayout),
    /// A layout of recent messages.
    Recent(RecentLayout),
    /// A layout of sessions.
    Session(SessionLayout),
}

impl KeyLayout {
    /// True if the layout is configured.
    pub fn is_active(self, layouts: &KeyLayouts) -> bool {
        match self {
            Self::Any => true,
            Self::Presence(layout) => layouts.presence == layout,
            Self::Typing(layout) => layouts.typing == layout,
            Self::Recent(layout) => layouts.recent == layout,
            Self::Session(layout) => layouts.session == layout,
        }
    }

    /// Setting and value that select the layout, for example `keys.presence = devices`.
    pub const fn selecting_setting(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Any => None,
            Self::Presence(layout) => Some((PresenceLayout::SETTING, layout.name())),
            Self::Typing(layout) => Some((TypingLayout::SETTING, layout.name())),
            Self::Recent(layout) => Some((RecentLayout::SETTING, layout.name())),
            Self::Session(layout) => Some((SessionLayout::SETTING, layout.name())),
        }
    }
}

/// Key declarations of a capability, of the bus or of the nodes.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyGroup {
    /// Name in the output of `parlor schema --json`. It stays the same if the folder gets another name.
    pub name: &'static str,
    /// Heading in the reference.
    pub title: &'static str,
    /// The declarations.
    pub keys: &'static [KeySpec],
}

/// Declaration of a key or channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpec {
    /// Pattern of the name.
    pub pattern: KeyPattern,
    /// Redis type, or that it is a channel.
    pub kind: KeyKind,
    /// When the key expires.
    pub ttl: KeyTtl,
    /// Format of the value.
    pub value: &'static str,
    /// Description for the reference.
    pub meaning: &'static str,
    /// Documented schemas that the key comes from.
    pub sources: &'static [SchemaSource],
    /// True if only Parlor may read the key.
    pub internal: bool,
    /// Layout that the key belongs to.
    pub layout: KeyLayout,
}

impl KeySpec {
    /// A documented key, which other services may read.
    pub(crate) const fn documented(pattern: &'static str, kind: KeyKind, ttl: KeyTtl) -> Self {
        Self {
            pattern: KeyPattern::parse(pattern),
            kind,
            ttl,
            value: "",
            meaning: "",
            sources: &[],
            internal: false,
            layout: KeyLayout::Any,
        }
    }

    /// An internal key, which only Parlor reads.
    pub(crate) const fn internal(pattern: &'static str, kind: KeyKind, ttl: KeyTtl) -> Self {
        let mut spec = Self::documented(pattern, kind, ttl).sources(&[SchemaSource::Parlor]);
        spec.internal = true;
        spec
    }

    /// A documented channel.
    pub(crate) const fn channel(name: &'static str) -> Self {
        Self::documented(name, KeyKind::Channel, KeyTtl::Never)
    }

    /// Sets the format of the value.
    pub(crate) const fn value(mut self, value: &'static str) -> Self {
        self.value = value;
        self
    }

    /// Sets the description.
    pub(crate) const fn meaning(mut self, meaning: &'static str) -> Self {
        self.meaning = meaning;
        self
    }

    /// Sets the schemas that the key comes from.
    pub(crate) const fn sources(mut self, sources: &'static [SchemaSource]) -> Self {
        self.sources = sources;
        self
    }

    /// Sets the layout.
    pub(crate) const fn layout(mut self, layout: KeyLayout) -> Self {
        self.layout = layout;
        self
    }

    /// True if a stored key may have this remaining TTL; `None` means that the key does not expire.
    pub fn allows_ttl(&self, settings: &KeySettings, left: Option<Duration>) -> bool {
        match left {
            None => matches!(self.ttl, KeyTtl::Never | KeyTtl::AtTimes(_)),
            Some(_) if self.ttl == KeyTtl::Never => false,
            Some(left) => self
                .ttl
                .max_duration(settings)
                .is_none_or(|max| left <= max),
        }
    }
}
