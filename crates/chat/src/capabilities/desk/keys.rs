//! The keys of the support desk.
//!
//! Always true: queues, assignments and figures are caches over the rows and can be rebuilt at any time.

use crate::ids::AdminId;
use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace, TtlName};

/// What the desk owns.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "desk",
    title: "Support desk",
    keys: &[PRESENCE, ASSIGNMENTS, ACTIVE, UNREAD, DASHBOARD],
};

const PRESENCE: KeySpec = KeySpec::documented(
    "admin:{admin}:presence",
    KeyKind::String,
    KeyTtl::Configured(TtlName::AgentPresence),
)
.value("`online`, `away`, `busy`, `offline`")
.meaning("availability of the support agent; requests, heartbeats and an open socket renew it")
.sources(&[KeySource::S4]);

const ASSIGNMENTS: KeySpec = KeySpec::documented(
    "admin:{admin}:assignments",
    KeyKind::Set,
    KeyTtl::Configured(TtlName::Assignments),
)
.value("conversation ids")
.meaning("open conversations that are assigned to the support agent")
.sources(&[KeySource::S4]);

const ACTIVE: KeySpec = KeySpec::documented(
    "chat:conversations:active",
    KeyKind::SortedSet,
    KeyTtl::Configured(TtlName::Queues),
)
.value("member conversation id, score = unix seconds of the last message")
.meaning("open `support` conversations ordered by their last message; a resolved conversation is removed")
.sources(&[KeySource::S4]);

const UNREAD: KeySpec =
    KeySpec::documented("chat:conversations:unread", KeyKind::SortedSet, KeyTtl::Configured(TtlName::Queues))
        .value("member conversation id, score = weight × 10^10 + unix seconds of the first unanswered user message; weights urgent 1000, high 100, normal 10, low 1")
        .meaning("`support` conversations that wait for a reply, grouped by priority")
        .sources(&[KeySource::S4]);

const DASHBOARD: KeySpec =
    KeySpec::documented("chat:admin:dashboard:{admin}", KeyKind::Hash, KeyTtl::Configured(TtlName::Dashboard))
        .value("`total_active`, `assigned_to_me`, `unread_count`, `avg_response_time` (minutes, one decimal), `resolved_today` (UTC day)")
        .meaning("dashboard figures of the support agent; deleted when one of them changes")
        .sources(&[KeySource::S4]);

impl Keyspace {
    /// The availability of an agent.
    pub fn agent_presence(&self, agent: &AdminId) -> Key {
        self.key1(&PRESENCE, agent)
    }

    /// The open conversations of an agent.
    pub fn agent_assignments(&self, agent: &AdminId) -> Key {
        self.key1(&ASSIGNMENTS, agent)
    }

    /// Open conversations by last message.
    pub fn active_queue(&self) -> Key {
        self.key0(&ACTIVE)
    }

    /// Conversations that wait for an answer.
    pub fn unread_queue(&self) -> Key {
        self.key0(&UNREAD)
    }

    /// The figures of an agent.
    pub fn agent_dashboard(&self, agent: &AdminId) -> Key {
        self.key1(&DASHBOARD, agent)
    }
}
