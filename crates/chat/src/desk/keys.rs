//! The keys of the support desk.
//!
//! Always true: queues, assignments and figures are caches over the rows and can be rebuilt at any time.

use crate::ids::AdminId;
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl, TtlName};

/// What the desk owns.
pub const CAPABILITY: Capability = Capability {
    name: "desk",
    title: "Support desk",
    keys: &[PRESENCE, ASSIGNMENTS, ACTIVE, UNREAD, DASHBOARD],
};

const PRESENCE: KeySpec = KeySpec::new(
    "admin:{admin}:presence",
    Kind::String,
    Ttl::Setting(TtlName::AgentPresence),
)
.value("`online`, `away`, `busy`, `offline`")
.meaning("the agent's availability; renewed by their requests, beats and open socket")
.source(&[Source::S4]);

const ASSIGNMENTS: KeySpec = KeySpec::new(
    "admin:{admin}:assignments",
    Kind::Set,
    Ttl::Setting(TtlName::Assignments),
)
.value("conversation ids")
.meaning("the open conversations of the agent")
.source(&[Source::S4]);

const ACTIVE: KeySpec = KeySpec::new(
    "chat:conversations:active",
    Kind::SortedSet,
    Ttl::Setting(TtlName::Queues),
)
.value("member conversation id, score = unix seconds of the last message")
.meaning("open `support` conversations by last message; removed when resolved")
.source(&[Source::S4]);

const UNREAD: KeySpec =
    KeySpec::new("chat:conversations:unread", Kind::SortedSet, Ttl::Setting(TtlName::Queues))
        .value("member conversation id, score = weight × 10^10 + unix seconds of the first unanswered user message; weights urgent 1000, high 100, normal 10, low 1")
        .meaning("`support` conversations that wait for an answer, in bands of priority")
        .source(&[Source::S4]);

const DASHBOARD: KeySpec =
    KeySpec::new("chat:admin:dashboard:{admin}", Kind::Hash, Ttl::Setting(TtlName::Dashboard))
        .value("`total_active`, `assigned_to_me`, `unread_count`, `avg_response_time` (minutes, one decimal), `resolved_today` (UTC day)")
        .meaning("the agent's figures; dropped when something changes")
        .source(&[Source::S4]);

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
