//! The keys of metrics.
//!
//! Always true: there is one key per route template, never one per path, and gauges are sums over the live nodes' shares.

use crate::ids::Endpoint;
use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace};

/// What metrics own.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "stats",
    title: "Metrics",
    keys: &[
        HTTP_CURRENT,
        HTTP_MAX,
        ACCEPTED,
        REQUESTS,
        SPEED,
        MAX_SPEED,
        REQUESTS_BY_ROUTE,
        ERRORS,
        ERRORS_BY_ROUTE,
        NODES,
    ],
};

const fn counter_spec(pattern: &'static str) -> KeySpec {
    KeySpec::documented(pattern, KeyKind::Integer, KeyTtl::Never)
        .value("number")
        .sources(&[KeySource::S4])
}

const HTTP_CURRENT: KeySpec =
    counter_spec("connections:http:current").meaning("open HTTP connections of all live nodes");

const HTTP_MAX: KeySpec = counter_spec("connections:http:max_since_startup").meaning(
    "highest number of open HTTP connections; reset when a node starts and no other node is alive",
);

const ACCEPTED: KeySpec = counter_spec("requests:accepted")
    .meaning("requests that were answered with a status other than 401, 403, 413, 429 and 503");

const REQUESTS: KeySpec = counter_spec("requests:total").meaning("requests to all nodes");

const SPEED: KeySpec =
    counter_spec("requests:speed_per_second").meaning("current requests per second");

const MAX_SPEED: KeySpec = counter_spec("requests:max_speed_per_second").meaning(
    "highest number of requests per second; reset when a node starts and no other node is alive",
);

const REQUESTS_BY_ROUTE: KeySpec = counter_spec("requests:endpoint:{METHOD route}")
    .meaning("requests by route template, e.g. `GET /v1/conversations/:id`; the separator is a space or `_` (`stats.endpoint_separator`)");

const ERRORS: KeySpec = counter_spec("errors:total").meaning("responses with status 400 and above");

const ERRORS_BY_ROUTE: KeySpec = counter_spec("errors:endpoint:{METHOD route}")
    .meaning("responses with status 400 and above, by route template");

const NODES: KeySpec = KeySpec::internal("parlor:{stats}:nodes", KeyKind::Hash, KeyTtl::Never)
    .value("field = node id; value = its part of the gauges and the deadline of this part")
    .meaning("the part of the gauges that each node contributes; parts of dead nodes are removed");

impl Keyspace {
    /// Open HTTP connections.
    pub fn http_connections(&self) -> Key {
        self.key0(&HTTP_CURRENT)
    }

    /// Most open HTTP connections.
    pub fn http_connections_max(&self) -> Key {
        self.key0(&HTTP_MAX)
    }

    /// Requests that were not refused.
    pub fn requests_accepted(&self) -> Key {
        self.key0(&ACCEPTED)
    }

    /// Requests in all.
    pub fn requests_total(&self) -> Key {
        self.key0(&REQUESTS)
    }

    /// Requests per second now.
    pub fn requests_speed(&self) -> Key {
        self.key0(&SPEED)
    }

    /// Most requests per second.
    pub fn requests_speed_max(&self) -> Key {
        self.key0(&MAX_SPEED)
    }

    /// Requests to one endpoint.
    pub fn requests_by_endpoint(&self, endpoint: &Endpoint) -> Key {
        self.key1_spelled(
            &REQUESTS_BY_ROUTE,
            endpoint.with_separator(self.settings().endpoint_separator),
        )
    }

    /// Errors in all.
    pub fn errors_total(&self) -> Key {
        self.key0(&ERRORS)
    }

    /// Errors of one endpoint.
    pub fn errors_by_endpoint(&self, endpoint: &Endpoint) -> Key {
        self.key1_spelled(
            &ERRORS_BY_ROUTE,
            endpoint.with_separator(self.settings().endpoint_separator),
        )
    }

    /// What each node adds to the gauges.
    pub fn stats_nodes(&self) -> Key {
        self.key0(&NODES)
    }
}
