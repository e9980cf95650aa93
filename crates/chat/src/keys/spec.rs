//! The declaration of a key or channel.
//!
//! Always true: a declaration is complete when the program is compiled; there is nothing to register at run time.

use std::time::Duration;

use super::pattern::KeyPattern;
use super::settings::{KeyLayouts, KeySettings, PresenceLayout, RecentLayout, TypingLayout};
use super::ttl::KeyTtl;

/// What a key holds, or that it is a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// A string.
    String,
    /// A string that counts.
    Counter,
    /// A string that is a number, not only counted up.
    Integer,
    /// A hash.
    Hash,
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A sorted set of places.
    Geo,
    /// A pub/sub channel, the same on every server of a cluster.
    Channel,
    /// A pub/sub channel that is sharded in cluster mode, where the server can.
    ShardChannel,
}

impl KeyKind {
    /// The name in the reference.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Counter => "counter",
            Self::Integer => "integer",
            Self::Hash => "hash",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted set",
            Self::Geo => "geo (sorted set)",
            Self::Channel => "channel",
            Self::ShardChannel => "channel (sharded)",
        }
    }

    /// What `TYPE` answers; absent for channels, which are not stored.
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

    /// Whether it is published and subscribed, not stored.
    pub const fn is_channel(self) -> bool {
        matches!(self, Self::Channel | Self::ShardChannel)
    }
}

/// Whose idea a key is. The documents are named in the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// Key design of a chat application.
    S0,
    /// Key structure of a rooms service.
    S1,
    /// Schema of a chat service.
    S2,
    /// The same schema's list of future work.
    S2Future,
    /// Data model of a user status service.
    S3,
    /// Schema of a home-assistant backend.
    S4,
    /// Parlor's own.
    Ours,
}

impl KeySource {
    /// The name in the reference.
    pub const fn name(self) -> &'static str {
        match self {
            Self::S0 => "S0",
            Self::S1 => "S1",
            Self::S2 => "S2",
            Self::S2Future => "S2, future list",
            Self::S3 => "S3",
            Self::S4 => "S4",
            Self::Ours => "ours",
        }
    }
}

/// The layout a declaration belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyLayout {
    /// Every one.
    Any,
    /// One of presence.
    Presence(PresenceLayout),
    /// One of typing.
    Typing(TypingLayout),
    /// One of recent messages.
    Recent(RecentLayout),
}

impl KeyLayout {
    /// Whether it is among the chosen ones.
    pub fn is_active(self, layouts: &KeyLayouts) -> bool {
        match self {
            Self::Any => true,
            Self::Presence(layout) => layouts.presence == layout,
            Self::Typing(layout) => layouts.typing == layout,
            Self::Recent(layout) => layouts.recent == layout,
        }
    }

    /// The setting and value that choose it, such as `keys.presence = devices`.
    pub const fn selecting_setting(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Any => None,
            Self::Presence(layout) => Some((PresenceLayout::SETTING, layout.name())),
            Self::Typing(layout) => Some((TypingLayout::SETTING, layout.name())),
            Self::Recent(layout) => Some((RecentLayout::SETTING, layout.name())),
        }
    }
}

/// A part of the product that owns keys.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyGroup {
    /// The folder's name.
    pub name: &'static str,
    /// The heading in the reference.
    pub title: &'static str,
    /// Its declarations.
    pub keys: &'static [KeySpec],
}

/// A declared key or channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpec {
    /// How it is spelled.
    pub pattern: KeyPattern,
    /// What it holds.
    pub kind: KeyKind,
    /// When it goes by itself.
    pub ttl: KeyTtl,
    /// Whether a key that could go by itself must always have its time.
    pub ttl_required: bool,
    /// What the value looks like.
    pub value: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// Whose idea it is.
    pub sources: &'static [KeySource],
    /// Whether only Parlor may read it.
    pub internal: bool,
    /// The layout it belongs to.
    pub layout: KeyLayout,
}

impl KeySpec {
    /// A documented key, that others may read.
    pub(crate) const fn documented(pattern: &'static str, kind: KeyKind, ttl: KeyTtl) -> Self {
        Self {
            pattern: KeyPattern::parse(pattern),
            kind,
            ttl,
            ttl_required: !matches!(ttl, KeyTtl::Never),
            value: "",
            meaning: "",
            sources: &[],
            internal: false,
            layout: KeyLayout::Any,
        }
    }

    /// A key of Parlor alone.
    pub(crate) const fn internal(pattern: &'static str, kind: KeyKind, ttl: KeyTtl) -> Self {
        let mut spec = Self::documented(pattern, kind, ttl).sources(&[KeySource::Ours]);
        spec.internal = true;
        spec
    }

    /// A documented channel.
    pub(crate) const fn channel(name: &'static str) -> Self {
        Self::documented(name, KeyKind::Channel, KeyTtl::Never)
    }

    /// Says what the value looks like.
    pub(crate) const fn value(mut self, value: &'static str) -> Self {
        self.value = value;
        self
    }

    /// Says what it is for.
    pub(crate) const fn meaning(mut self, meaning: &'static str) -> Self {
        self.meaning = meaning;
        self
    }

    /// Says whose idea it is.
    pub(crate) const fn sources(mut self, sources: &'static [KeySource]) -> Self {
        self.sources = sources;
        self
    }

    /// Says which layout it belongs to.
    pub(crate) const fn layout(mut self, layout: KeyLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Whether a stored key may have this much time left; `None` is a key that never goes.
    pub fn allows_ttl(&self, settings: &KeySettings, left: Option<Duration>) -> bool {
        match left {
            None => !self.ttl_required,
            Some(_) if self.ttl == KeyTtl::Never => false,
            Some(left) => self.ttl.longest(settings).is_none_or(|most| left <= most),
        }
    }
}
