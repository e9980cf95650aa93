//! How long keys live.
//!
//! Always true: every time that a key lives by has one name in the configuration or is fixed in its declaration.

use std::time::Duration;

use super::settings::{KeyLayouts, PresenceLayout, TypingLayout};
use super::{KeySettings, setting_enum};

setting_enum! {
    /// A time that can be set.
    pub enum TtlName for "ttl" {
        /// How long a device is present after its last beat.
        Presence = "ttl.presence",
        /// How long an explicit `offline` is kept in the layout `status`.
        StatusOffline = "ttl.status_offline",
        /// How long somebody types after the last sign of it.
        Typing = "ttl.typing",
        /// How long an answer about membership is kept.
        Membership = "ttl.membership",
        /// How long the set of participants is kept.
        Participants = "ttl.participants",
        /// How long the list of recent messages is kept after the last one.
        Recent = "ttl.recent",
        /// How long a session lasts after the last request.
        Session = "ttl.session",
        /// How long an agent is present after the last sign of them.
        AgentPresence = "ttl.agent_presence",
        /// How long an agent's assignments are kept.
        Assignments = "ttl.assignments",
        /// How long the desk's queues are kept.
        Queues = "ttl.queues",
        /// How long an agent's figures are kept.
        Dashboard = "ttl.dashboard",
        /// How long the set of blocked users is kept.
        Blocked = "ttl.blocked",
        /// How long a delivery position is kept.
        Delivery = "ttl.delivery",
        /// How long a page of search results is kept.
        Search = "ttl.search",
        /// The window in which messages are counted.
        MessageWindow = "limits.message_window",
        /// How long a node is believed alive without a sign.
        NodeLease = "presence.node_lease",
    }
}

impl TtlName {
    /// The default in seconds with these layouts.
    pub const fn default_seconds(self, layouts: &KeyLayouts) -> u64 {
        match self {
            Self::Presence => match layouts.presence {
                PresenceLayout::Devices | PresenceLayout::Sockets => 60,
                PresenceLayout::Document => 300,
                PresenceLayout::Status => 30,
            },
            Self::Typing => match layouts.typing {
                TypingLayout::Document => 3,
                TypingLayout::Flag => 5,
            },
            Self::NodeLease => 5,
            Self::Membership => 30,
            Self::Search | Self::MessageWindow => 60,
            Self::Dashboard => 300,
            Self::AgentPresence => 1_800,
            Self::Participants
            | Self::Recent
            | Self::Assignments
            | Self::Queues
            | Self::Blocked
            | Self::Delivery => 3_600,
            Self::StatusOffline => 86_400,
            Self::Session => 604_800,
        }
    }

    /// What the time is, for the reference.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Presence => "a device expires this long after its last heartbeat",
            Self::StatusOffline => "TTL of an explicit `offline` in the layout `status`",
            Self::Typing => "a user counts as typing this long after the last typing event",
            Self::Membership => "TTL of a cached membership",
            Self::Participants => "TTL of the cached set of participants",
            Self::Recent => "TTL of the list of recent messages after the last message",
            Self::Session => "a session expires this long after the last request",
            Self::AgentPresence => {
                "the presence of a support agent expires this long after the last activity"
            }
            Self::Assignments => "TTL of the assignments of a support agent",
            Self::Queues => "TTL of the queues of the support desk",
            Self::Dashboard => "TTL of the dashboard figures of a support agent",
            Self::Blocked => "TTL of the set of users that a user has blocked",
            Self::Delivery => "TTL of a delivery position",
            Self::Search => "TTL of a page of search results",
            Self::MessageWindow => "length of the window in which messages are counted",
            Self::NodeLease => "a node that does not renew its lease for this long counts as dead",
        }
    }

    /// Whether the time is one of the section `ttl` and not lent from another one.
    pub fn is_in_ttl_section(self) -> bool {
        self.name().starts_with("ttl.")
    }
}

/// The value of every time that can be set.
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

    /// One time.
    pub fn get(&self, name: TtlName) -> Duration {
        self.0[name as usize]
    }

    /// Sets one time.
    pub fn set(&mut self, name: TtlName, time: Duration) {
        self.0[name as usize] = time;
    }
}

/// When a key goes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyTtl {
    /// Never.
    Never,
    /// After a time that can be set.
    Configured(TtlName),
    /// Some seconds after a time that can be set.
    ConfiguredPlus(TtlName, u64),
    /// After one time or another, and which of them when.
    Either(TtlName, &'static str, TtlName, &'static str),
    /// After seconds that cannot be set.
    Fixed(u64),
    /// At a moment that the call decides.
    PerCall(&'static str),
}

impl KeyTtl {
    /// The longest time the key may have left; absent when it never goes or the call decides.
    pub fn longest(&self, settings: &KeySettings) -> Option<Duration> {
        match self {
            Self::Never | Self::PerCall(_) => None,
            Self::Configured(name) => Some(settings.ttls.get(*name)),
            Self::ConfiguredPlus(name, extra) => {
                Some(settings.ttls.get(*name) + Duration::from_secs(*extra))
            }
            Self::Either(one, _, other, _) => {
                Some(settings.ttls.get(*one).max(settings.ttls.get(*other)))
            }
            Self::Fixed(seconds) => Some(Duration::from_secs(*seconds)),
        }
    }

    /// The settings that decide it.
    pub fn configured_by(&self) -> Vec<TtlName> {
        match self {
            Self::Configured(name) | Self::ConfiguredPlus(name, _) => vec![*name],
            Self::Either(one, _, other, _) => vec![*one, *other],
            Self::Never | Self::Fixed(_) | Self::PerCall(_) => Vec::new(),
        }
    }

    /// The time in words: `60 s`, `1 h + 60 s`, `30 s online, 24 h offline`, `none`.
    pub fn text(&self, settings: &KeySettings) -> String {
        match self {
            Self::Never => "none".to_owned(),
            Self::PerCall(text) => (*text).to_owned(),
            Self::Either(one, when, other, then) => {
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

/// A time as people write it: `3 s`, `5 min`, `24 h`, `7 d`.
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
