//! Keys of planned features. Nothing writes them, but `parlor keys`, `parlor doctor` and `parlor migrate-store` recognise
//! them.
//!
//! Invariant: a declaration moves to the `keys.rs` of its capability when the capability is built.

use super::{KeyGroup, KeyKind, KeySpec, KeyTtl, SchemaSource, TtlName};

/// The key groups of planned features, in the order of the reference.
pub(super) static KEY_GROUPS: &[KeyGroup] = &[
    KeyGroup {
        name: "desk",
        title: "Support desk",
        keys: &[
            cache("admin:{admin}:presence", KeyKind::String, TtlName::AgentPresence)
                .value("`online`, `away`, `busy`, `offline`")
                .meaning("availability of the support agent; requests, heartbeats and an open socket renew it")
                .sources(&[SchemaSource::HomeAssistant]),
            cache("admin:{admin}:assignments", KeyKind::Set, TtlName::Assignments)
                .value("conversation ids")
                .meaning("open conversations that are assigned to the support agent")
                .sources(&[SchemaSource::HomeAssistant]),
            cache("chat:conversations:active", KeyKind::SortedSet, TtlName::Queues)
                .value("member conversation id, score = unix seconds of the last message")
                .meaning("open `support` conversations ordered by their last message; a resolved conversation is removed")
                .sources(&[SchemaSource::HomeAssistant]),
            cache("chat:conversations:unread", KeyKind::SortedSet, TtlName::Queues)
                .value("member conversation id, score = weight × 10^10 + unix seconds of the first unanswered user message; weights urgent 1000, high 100, normal 10, low 1")
                .meaning("`support` conversations that wait for a reply, grouped by priority")
                .sources(&[SchemaSource::HomeAssistant]),
            cache("chat:admin:dashboard:{admin}", KeyKind::Hash, TtlName::Dashboard)
                .value("`total_active`, `assigned_to_me`, `unread_count`, `avg_response_time` (minutes, one decimal), `resolved_today` (UTC day)")
                .meaning("dashboard figures of the support agent; deleted when one of them changes")
                .sources(&[SchemaSource::HomeAssistant]),
        ],
    },
    KeyGroup {
        name: "stats",
        title: "Metrics",
        keys: &[
            counter("connections:http:current")
                .meaning("open HTTP connections of all live nodes"),
            counter("connections:http:max_since_startup")
                .meaning("highest number of open HTTP connections; reset when a node starts and no other node is alive"),
            counter("requests:accepted")
                .meaning("requests that were answered with a status other than 401, 403, 413, 429 and 503"),
            counter("requests:total").meaning("requests to all nodes"),
            counter("requests:speed_per_second").meaning("current requests per second"),
            counter("requests:max_speed_per_second")
                .meaning("highest number of requests per second; reset when a node starts and no other node is alive"),
            counter("requests:endpoint:{METHOD route}")
                .meaning("requests by route template, e.g. `GET /v1/conversations/:id`; the separator is a space or `_` (`stats.endpoint_separator`)"),
            counter("errors:total").meaning("responses with status 400 and above"),
            counter("errors:endpoint:{METHOD route}")
                .meaning("responses with status 400 and above, by route template"),
            KeySpec::internal("parlor:{stats}:nodes", KeyKind::Hash, KeyTtl::Never)
                .value("field = node id; value = its part of the gauges and the deadline of this part")
                .meaning("the part of the gauges that each node contributes; parts of dead nodes are removed"),
        ],
    },
    KeyGroup {
        name: "jobs",
        title: "Jobs",
        keys: &[
            KeySpec::documented("cron:last-run:{job}", KeyKind::String, KeyTtl::Never)
                .value("unix ms at which the run was due to start")
                .meaning("last run of the job `unread-reminder` (every 2 h) or `cleanup-tokens` (every 24 h); written when the run ends, restored from the job's row if it is missing")
                .sources(&[SchemaSource::ChatApp]),
            KeySpec::internal("parlor:job:{job}", KeyKind::String, KeyTtl::PerCall("the runner's lease"))
                .value("node id and boot id of the node that runs the job")
                .meaning("lease of the node that runs the job; another node takes over when it expires"),
        ],
    },
    KeyGroup {
        name: "blocks",
        title: "Blocked users",
        keys: &[cache("blocked:{user}", KeyKind::Set, TtlName::Blocked)
            .value("user ids")
            .meaning("users that the user has blocked")
            .sources(&[SchemaSource::ChatServicePlanned])],
    },
    KeyGroup {
        name: "places",
        title: "Places",
        keys: &[KeySpec::documented("geo:users", KeyKind::Geo, KeyTtl::Never)
            .value("member user id")
            .meaning("positions of users, used to find users nearby")
            .sources(&[SchemaSource::ChatServicePlanned])],
    },
    KeyGroup {
        name: "uploads",
        title: "Uploads",
        keys: &[KeySpec::documented("uploads:pending", KeyKind::SortedSet, KeyTtl::Never)
            .value("member upload id, score = ms of expiry")
            .meaning("announced uploads that have not arrived yet")
            .sources(&[SchemaSource::ChatServicePlanned])],
    },
    KeyGroup {
        name: "search",
        title: "Search",
        keys: &[cache("search:{hash of user and query}", KeyKind::String, TtlName::Search)
            .value("result page as JSON")
            .meaning("cached result page of a search by the user")
            .sources(&[SchemaSource::ChatServicePlanned])],
    },
];

const fn cache(pattern: &'static str, kind: KeyKind, ttl: TtlName) -> KeySpec {
    KeySpec::documented(pattern, kind, KeyTtl::Configured(ttl))
}

const fn counter(pattern: &'static str) -> KeySpec {
    KeySpec::documented(pattern, KeyKind::Integer, KeyTtl::Never)
        .value("number")
        .sources(&[SchemaSource::HomeAssistant])
}
