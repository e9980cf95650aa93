//! Layouts, presets and the settings that decide how keys look.
//!
//! Always true: a preset is nothing but a prefix and a choice of layouts. Times belong to layouts,
//! so replacing one layout of a preset brings that layout's times with it unless they are set too.

use std::time::Duration;

use super::setting_enum;
use super::ttl::{TtlName, TtlValues};
use crate::ids::EndpointSeparator;

setting_enum! {
    /// How presence is written.
    pub enum PresenceLayout for "keys.presence" {
        /// A hash of devices per user.
        Devices = "devices",
        /// A JSON document per user.
        Document = "document",
        /// A flag and a set of sockets per user.
        Sockets = "sockets",
        /// One word per user.
        Status = "status",
    }
}

setting_enum! {
    /// How typing is written.
    pub enum TypingLayout for "keys.typing" {
        /// A JSON document per typer.
        Document = "document",
        /// The value `1` per typer.
        Flag = "flag",
    }
}

setting_enum! {
    /// How recent messages are written.
    pub enum RecentLayout for "keys.recent" {
        /// `messages:{conv}:recent`
        Messages = "messages",
        /// `chat:conversation:{conv}:messages`
        Conversation = "conversation",
    }
}

setting_enum! {
    /// A named starting point.
    pub enum Preset for "keys.preset" {
        /// Parlor's own choice.
        Parlor = "parlor",
        /// A chat application that keeps one presence document per user.
        ChatApp = "chat-app",
        /// A rooms service that keeps a hash of sockets per user.
        Rooms = "rooms",
        /// A chat service that keeps a flag and a set of sockets per user.
        ChatService = "chat-service",
        /// A status service that keeps one word per user.
        UserStatus = "user-status",
        /// A support desk whose keys start with `ha:`.
        HomeAssistant = "home-assistant",
    }
}

impl Preset {
    /// What goes before every key and channel.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::HomeAssistant => "ha:",
            _ => "",
        }
    }

    /// The layouts it chooses.
    pub const fn layouts(self) -> KeyLayouts {
        let mut layouts = KeyLayouts {
            presence: PresenceLayout::Devices,
            typing: TypingLayout::Document,
            recent: RecentLayout::Messages,
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
    /// How presence is written.
    pub presence: PresenceLayout,
    /// How typing is written.
    pub typing: TypingLayout,
    /// How recent messages are written.
    pub recent: RecentLayout,
}

impl KeyLayouts {
    /// How often a client beats by default.
    pub const fn heartbeat(&self) -> Duration {
        Duration::from_secs(match self.presence {
            PresenceLayout::Devices | PresenceLayout::Sockets => 20,
            PresenceLayout::Document => 60,
            PresenceLayout::Status => 10,
        })
    }
}

/// Everything that decides how keys are spelled and how long they live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// Where the settings started from (`keys.preset`).
    pub preset: Preset,
    /// What goes before every key and channel (`keys.prefix`).
    pub prefix: String,
    /// The layouts (`keys.presence`, `keys.typing`, `keys.recent`).
    pub layouts: KeyLayouts,
    /// The times (`ttl.*` and the few of other sections that a key lives by).
    pub ttls: TtlValues,
    /// How often a client beats (`presence.heartbeat`).
    pub heartbeat: Duration,
    /// What stands between method and route (`stats.endpoint_separator`).
    pub endpoint_separator: EndpointSeparator,
    /// Another channel for created messages; used as it is, without prefix.
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

    /// The settings of a preset with other layouts and the times that belong to those.
    pub fn from_layouts(preset: Preset, layouts: KeyLayouts) -> Self {
        Self {
            preset,
            prefix: preset.prefix().to_owned(),
            layouts,
            ttls: TtlValues::defaults_for(&layouts),
            heartbeat: layouts.heartbeat(),
            endpoint_separator: EndpointSeparator::Space,
            message_channel_override: None,
        }
    }

    /// Refuses what would make keys ambiguous or let live users lapse.
    pub fn check(&self) -> Result<(), KeySettingsError> {
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
        if self.heartbeat.is_zero() || self.heartbeat >= presence {
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

/// Settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySettingsError {
    /// The prefix has a character that could be a hash tag, a glob or a blank.
    #[error("keys.prefix {0:?} has {1:?}; use A-Z a-z 0-9 . _ - @ + = ~ | : /")]
    PrefixCharacter(String, char),
    /// The prefix is too long.
    #[error("keys.prefix has {0} characters; use at most 64")]
    PrefixLength(usize),
    /// A key would expire at once.
    #[error("{0} is zero; use at least one millisecond")]
    ZeroTtl(&'static str),
    /// Live users would lapse between two beats.
    #[error(
        "presence.heartbeat is {0:?} and ttl.presence {1:?}; a device expires without a heartbeat within ttl.presence, so set the heartbeat to a third of it"
    )]
    HeartbeatTooLong(Duration, Duration),
    /// The channel's name cannot be one.
    #[error(
        "notifications.channel {0:?} is empty or has a control character; use a name such as events:message.created"
    )]
    MessageChannel(String),
}

impl KeySettingsError {
    /// The settings that do not fit, the likeliest first.
    pub fn settings(&self) -> &[&'static str] {
        match self {
            Self::PrefixCharacter(..) | Self::PrefixLength(_) => &["keys.prefix"],
            Self::ZeroTtl(name) => std::slice::from_ref(name),
            Self::HeartbeatTooLong(..) => &["presence.heartbeat", "ttl.presence"],
            Self::MessageChannel(_) => &["notifications.channel"],
        }
    }
}
