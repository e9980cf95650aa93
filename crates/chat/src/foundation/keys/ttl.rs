//! TTLs of keys.
//!
//! Invariant: every TTL is either a named setting of the configuration or fixed in the declaration of its key.

use std::time::Duration;

use super::settings::{KeyLayouts, PresenceLayout, TypingLayout};
use super::{KeySettings, setting_enum};

/// Declares the settings as `Variant = "name" => default in seconds`. The default may depend on the key layouts: then it is
/// written as `|layouts| seconds`.
macro_rules! ttl_settings {
    (@seconds $layouts:ident, |$chosen:ident| $seconds:expr) => {{
        let $chosen = $layouts;
        $seconds
    }};
    (@seconds $layouts:ident, $seconds:literal) => { $seconds };
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal => ($($default:tt)+),)+) => {
        setting_enum! {
            /// A TTL that can be configured.
            pub enum TtlName for "ttl" {
                $($(#[doc = $doc])+ $variant = $name,)+
            }
        }

        impl TtlName {
            /// The default in seconds with these layouts.
            pub const fn default_seconds(self, layouts: &KeyLayouts) -> u64 {
                match self {
                    $(Self::$variant => ttl_settings!(@seconds layouts, $($default)+),)+
                }
            }
        }
    };
}

ttl_settings! {
    /// Time after the last heartbeat at which a device expires.
    Presence = "ttl.presence" => (|layouts| match layouts.presence {
        PresenceLayout::Devices | PresenceLayout::Sockets => 60,
        PresenceLayout::Document => 300,
        PresenceLayout::Status => 30,
    }),
    /// TTL of an explicit `offline` in the layout `status`.
    StatusOffline = "ttl.status_offline" => (86_400),
    /// Time after the last typing event at which a user no longer counts as typing.
    Typing = "ttl.typing" => (|layouts| match layouts.typing {
        TypingLayout::Document => 3,
        TypingLayout::Flag => 5,
    }),
    /// TTL of a cached membership.
    Membership = "ttl.membership" => (30),
    /// TTL of the cached set of participants.
    Participants = "ttl.participants" => (3_600),
    /// TTL of the list of recent messages after the last message.
    Recent = "ttl.recent" => (3_600),
    /// Time after the last request at which a session expires.
    Session = "ttl.session" => (604_800),
    /// Time after the last activity at which the presence of a support agent expires. Planned: it has no effect yet.
    AgentPresence = "ttl.agent_presence" => (1_800),
    /// TTL of the assignments of a support agent. Planned: it has no effect yet.
    Assignments = "ttl.assignments" => (3_600),
    /// TTL of the queues of the support desk. Planned: it has no effect yet.
    Queues = "ttl.queues" => (3_600),
    /// TTL of the dashboard figures of a support agent. Planned: it has no effect yet.
    Dashboard = "ttl.dashboard" => (300),
    /// TTL of the set of users that a user has blocked. Planned: it has no effect yet.
    Blocked = "ttl.blocked" => (3_600),
    /// TTL of a delivery position.
    Delivery = "ttl.delivery" => (3_600),
    /// TTL of a page of search results. Planned: it has no effect yet.
    Search = "ttl.search" => (60),
    /// Length of the window in which messages are counted.
    MessageWindow = "limits.message_window" => (60),
    /// Duration of a node's lease: without a renewal the node counts as dead.
    NodeLease = "presence.node_lease" => (5),
}

impl TtlName {
    /// True if the setting is in the section `ttl`.
    pub fn is_in_ttl_section(self) -> bool {
        self.name().starts_with("ttl.")
    }
}

/// The values of all TTL settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TtlValues([Duration; TtlName::ALL.len()]);

impl TtlValues {
    /// The defaults with these layouts.
    pub fn defaults_for(layouts: &KeyLayouts) -> Self {
        let mut ttls = Self([Duration::ZERO; TtlName::ALL.len()]);
        for name in TtlName::ALL {
            ttls.set(*name, Duration::from_secs(name.default_seconds(layouts)));
        }
        ttls
    }

    /// Value of one setting.
    pub fn get(&self, name: TtlName) -> Duration {
        self.0[name as usize]
    }

    /// Sets the value of one setting.
    pub fn set(&mut self, name: TtlName, time: Duration) {
        self.0[name as usize] = time;
    }
}

/// Rule for the TTL of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyTtl {
    /// The key does not expire.
    Never,
    /// A configured TTL.
    Configured(TtlName),
    /// A configured TTL plus a number of seconds.
    ConfiguredPlus(TtlName, u64),
    /// One of two configured TTLs, each with the condition under which it applies.
    OneOf(TtlName, &'static str, TtlName, &'static str),
    /// A fixed number of seconds.
    Fixed(u64),
    /// The caller decides; only a description is known.
    PerCall(&'static str),
    /// The key has a TTL only at times; the description says when.
    AtTimes(&'static str),
}

impl KeyTtl {
    /// The maximum remaining TTL; `None` if the key does not expire or the caller decides.
    pub fn max_duration(&self, settings: &KeySettings) -> Option<Duration> {
        match self {
            Self::Never | Self::PerCall(_) | Self::AtTimes(_) => None,
            Self::Configured(name) => Some(settings.ttls.get(*name)),
            Self::ConfiguredPlus(name, extra) => {
                Some(settings.ttls.get(*name) + Duration::from_secs(*extra))
            }
            Self::OneOf(one, _, other, _) => {
                Some(settings.ttls.get(*one).max(settings.ttls.get(*other)))
            }
            Self::Fixed(seconds) => Some(Duration::from_secs(*seconds)),
        }
    }

    /// The settings that decide the TTL.
    pub fn configured_by(&self) -> Vec<TtlName> {
        match self {
            Self::Configured(name) | Self::ConfiguredPlus(name, _) => vec![*name],
            Self::OneOf(one, _, other, _) => vec![*one, *other],
            Self::Never | Self::Fixed(_) | Self::PerCall(_) | Self::AtTimes(_) => Vec::new(),
        }
    }

    /// The TTL as text: `60 s`, `1 h + 60 s`, `30 s online, 24 h offline`, `none`.
    pub fn describe(&self, settings: &KeySettings) -> String {
        match self {
            Self::Never => "none".to_owned(),
            Self::PerCall(text) | Self::AtTimes(text) => (*text).to_owned(),
            Self::OneOf(one, when, other, then) => {
                let one = format_duration(settings.ttls.get(*one));
                let other = format_duration(settings.ttls.get(*other));
                format!("{one} {when}, {other} {then}")
            }
            Self::Configured(name) => format_duration(settings.ttls.get(*name)),
            Self::ConfiguredPlus(name, extra) => {
                let base = format_duration(settings.ttls.get(*name));
                let extra = format_duration(Duration::from_secs(*extra));
                format!("{base} + {extra}")
            }
            Self::Fixed(seconds) => format_duration(Duration::from_secs(*seconds)),
        }
    }
}

/// Formats a duration: `3 s`, `5 min`, `24 h`, `7 d`.
pub fn format_duration(time: Duration) -> String {
    let millis = time.as_millis();
    let seconds = time.as_secs();
    let multiple = |unit: u64, from: u64| seconds >= from && seconds.is_multiple_of(unit);
    if !millis.is_multiple_of(1_000) {
        format!("{millis} ms")
    } else if multiple(86_400, 604_800) {
        format!("{} d", seconds / 86_400)
    } else if multiple(3_600, 3_600) {
        format!("{} h", seconds / 3_600)
    } else if multiple(60, 120) {
        format!("{} min", seconds / 60)
    } else {
        format!("{seconds} s")
    }
}
