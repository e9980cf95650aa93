//! Layouts, presets and settings of key names.
//!
//! Invariant: a preset consists of a prefix and a choice of layouts. TTL defaults belong to the layouts, so replacing
//! one layout of a preset also replaces the TTLs of this layout, unless they are configured.

use std::time::Duration;

use super::setting_enum;
use super::ttl::{TtlName, TtlValues};

setting_enum! {
    /// How presence is written to documented keys.
    pub enum PresenceLayout for "keys.presence" {
        /// One hash of devices per user.
        Devices = "devices",
        /// One JSON document per user.
        Document = "document",
        /// A flag and a set of sockets per user.
        Sockets = "sockets",
        /// One status word per user.
        Status = "status",
    }
}

setting_enum! {
    /// How typing is written to documented keys.
    pub enum TypingLayout for "keys.typing" {
        /// A JSON document per typing user.
        Document = "document",
        /// The value `1` per typing user.
        Flag = "flag",
    }
}

setting_enum! {
    /// How recent messages are written to documented keys.
    pub enum RecentLayout for "keys.recent" {
        /// `messages:{conv}:recent`
        Messages = "messages",
        /// `chat:conversation:{conv}:messages`
        Conversation = "conversation",
    }
}

setting_enum! {
    /// Whether sessions are written to documented keys.
    pub enum SessionLayout for "keys.session" {
        /// `user:{user}`
        Hash = "hash",
        /// Sessions are stored in the database only.
        Off = "off",
    }
}

setting_enum! {
    /// A named set of prefix, layouts and TTLs.
    pub enum Preset for "keys.preset" {
        /// Parlor's own layouts.
        Parlor = "parlor",
        /// A chat application with one presence document per user.
        ChatApp = "chat-app",
        /// A rooms service with a hash of sockets per user.
        Rooms = "rooms",
        /// A chat service with a flag and a set of sockets per user.
        ChatService = "chat-service",
        /// A status service with one word per user.
        UserStatus = "user-status",
        /// A support desk whose keys start with `ha:`.
        HomeAssistant = "home-assistant",
    }
}

setting_enum! {
    /// Character between method and route in the names of counters.
    pub enum EndpointSeparator for "stats.endpoint_separator" {
        /// `GET /v1/users`
        Space = " ",
        /// `GET_/v1/users`
        Underscore = "_",
    }
}

impl Preset {
    /// Prefix of every key and channel.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::HomeAssistant => "ha:",
            _ => "",
        }
    }

    /// Default of `presence.external`: other services write the presence keys of the documents.
    pub const fn shares_presence(self) -> bool {
        !matches!(self, Self::Parlor)
    }

    /// The layouts of the preset.
    pub const fn layouts(self) -> KeyLayouts {
        let mut layouts = KeyLayouts {
            presence: PresenceLayout::Devices,
            typing: TypingLayout::Document,
            recent: RecentLayout::Messages,
            session: SessionLayout::Hash,
        };
        match self {
            Self::Parlor | Self::Rooms => {}
            Self::ChatApp => layouts.presence = PresenceLayout::Document,
            Self::ChatService => {
                layouts.presence = PresenceLayout::Sockets;
                layouts.typing = TypingLayout::Flag;
            }
            Self::UserStatus => layouts.presence = PresenceLayout::Status,
            Self::HomeAssistant => layouts.recent = RecentLayout::Conversation,
        }
        layouts
    }
}

/// One layout for each capability that has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyLayouts {
    /// Layout of presence.
    pub presence: PresenceLayout,
    /// Layout of typing.
    pub typing: TypingLayout,
    /// Layout of recent messages.
    pub recent: RecentLayout,
    /// Layout of sessions.
    pub session: SessionLayout,
}

impl KeyLayouts {
    /// Default interval between two heartbeats of a client.
    pub const fn heartbeat(&self) -> Duration {
        Duration::from_secs(match self.presence {
            PresenceLayout::Devices | PresenceLayout::Sockets => 20,
            PresenceLayout::Document => 60,
            PresenceLayout::Status => 10,
        })
    }

    /// Default of `presence.beat_registers`. In the layout `status`, a heartbeat only extends the TTL.
    pub const fn beat_registers(&self) -> bool {
        !matches!(self.presence, PresenceLayout::Status)
    }
}

/// Settings of key names and TTLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// The preset (`keys.preset`).
    pub preset: Preset,
    /// Prefix of every key and channel (`keys.prefix`).
    pub prefix: String,
    /// The layouts (`keys.presence`, `keys.typing`, `keys.recent`, `keys.session`).
    pub layouts: KeyLayouts,
    /// The TTLs (`ttl.*`, and the settings of other sections that are TTLs of keys).
    pub ttls: TtlValues,
    /// Interval between two heartbeats of a client (`presence.heartbeat`).
    pub heartbeat: Duration,
    /// Entries of other services in the presence keys count as online (`presence.external`).
    pub presence_external: bool,
    /// A heartbeat over HTTP or gRPC registers an unknown device (`presence.beat_registers`).
    pub beat_registers: bool,
    /// Character between method and route (`stats.endpoint_separator`).
    pub endpoint_separator: EndpointSeparator,
    /// Channel name that replaces `events:message.created`. It is used without the prefix.
    pub message_channel_override: Option<String>,
}

impl Default for KeySettings {
    fn default() -> Self {
        Self::from_preset(Preset::Parlor)
    }
}

impl KeySettings {
    /// The settings of a preset.
    pub fn from_preset(preset: Preset) -> Self {
        Self::from_layouts(preset, preset.layouts())
    }

    /// The settings of a preset with other layouts and the TTLs of those layouts.
    pub fn from_layouts(preset: Preset, layouts: KeyLayouts) -> Self {
        Self {
            preset,
            prefix: preset.prefix().to_owned(),
            layouts,
            ttls: TtlValues::defaults_for(&layouts),
            heartbeat: layouts.heartbeat(),
            presence_external: preset.shares_presence(),
            beat_registers: layouts.beat_registers(),
            endpoint_separator: EndpointSeparator::Space,
            message_channel_override: None,
        }
    }

    /// Rejects settings that make keys ambiguous or expire devices between two heartbeats.
    pub fn validate(&self) -> Result<(), KeySettingsError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-@+=~|:/".contains(c);
        if let Some(bad) = self.prefix.chars().find(|c| !fits(*c)) {
            return Err(KeySettingsError::PrefixCharacter(self.prefix.clone(), bad));
        }
        if self.prefix.len() > 64 {
            return Err(KeySettingsError::PrefixLength(self.prefix.len()));
        }
        for name in TtlName::ALL {
            let ttl = self.ttls.get(*name);
            if ttl < Duration::from_millis(1) {
                return Err(KeySettingsError::ZeroTtl(name.name()));
            }
        }
        let presence = self.ttls.get(TtlName::Presence);
        if self.heartbeat.is_zero() || self.heartbeat > presence / 2 {
            return Err(KeySettingsError::HeartbeatTooLong(self.heartbeat, presence));
        }
        match &self.message_channel_override {
            Some(name) if name.is_empty() || name.chars().any(char::is_control) => {
                Err(KeySettingsError::MessageChannel(name.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Invalid settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySettingsError {
    /// The prefix contains a character that could be part of a hash tag or a glob, or a space.
    #[error("keys.prefix {0:?} has {1:?}; use A-Z a-z 0-9 . _ - @ + = ~ | : /")]
    PrefixCharacter(String, char),
    /// The prefix is too long.
    #[error("keys.prefix has {0} characters; use at most 64")]
    PrefixLength(usize),
    /// A TTL is zero, so the key would expire at once.
    #[error("{0} is zero; use at least one millisecond")]
    ZeroTtl(&'static str),
    /// The heartbeat interval is longer than half of `ttl.presence`, so one late heartbeat would make a device expire.
    #[error(
        "presence.heartbeat is {0:?} and ttl.presence {1:?}; a device expires without a heartbeat within ttl.presence, so set the heartbeat to a third of it, at most to half of it"
    )]
    HeartbeatTooLong(Duration, Duration),
    /// The channel name is empty or contains a control character.
    #[error(
        "notifications.channel {0:?} is empty or has a control character; use a name such as events:message.created"
    )]
    MessageChannel(String),
}

impl KeySettingsError {
    /// The settings that contradict each other, the most likely cause first.
    pub fn settings(&self) -> &[&'static str] {
        match self {
            Self::PrefixCharacter(..) | Self::PrefixLength(_) => &["keys.prefix"],
            Self::ZeroTtl(name) => std::slice::from_ref(name),
            Self::HeartbeatTooLong(..) => &["presence.heartbeat", "ttl.presence"],
            Self::MessageChannel(_) => &["notifications.channel"],
        }
    }
}
