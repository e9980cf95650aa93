//! The keys of metrics.
//!
//! Always true: there is one key per route template, never one per path, and gauges are sums over the live nodes' shares.

use crate::ids::Endpoint;
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl};

/// What metrics own.
pub const CAPABILITY: Capability = Capability {
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

const fn figure(pattern: &'static str) -> KeySpec {
    KeySpec::new(pattern, Kind::Integer, Ttl::Never)
        .value("number")
        .source(&[Source::S4])
}

const HTTP_CURRENT: KeySpec =
    figure("connections:http:current").meaning("open HTTP connections of all live nodes");

const HTTP_MAX: KeySpec = figure("connections:http:max_since_startup")
    .meaning("most open HTTP connections; starts anew when a node starts and no other is alive");

const ACCEPTED: KeySpec =
    figure("requests:accepted").meaning("requests not answered 401, 403, 413, 429 or 503");

const REQUESTS: KeySpec = figure("requests:total").meaning("requests to all nodes");

const SPEED: KeySpec = figure("requests:speed_per_second").meaning("requests per second now");

const MAX_SPEED: KeySpec = figure("requests:max_speed_per_second")
    .meaning("most requests per second; starts anew when a node starts and no other is alive");

const REQUESTS_BY_ROUTE: KeySpec = figure("requests:endpoint:{METHOD route}")
    .meaning("requests by route template, e.g. `GET /v1/conversations/:id`; blank or `_` by `stats.endpoint_separator`");

const ERRORS: KeySpec = figure("errors:total").meaning("responses with status 400 and above");

const ERRORS_BY_ROUTE: KeySpec = figure("errors:endpoint:{METHOD route}")
    .meaning("responses with status 400 and above, by route template");

const NODES: KeySpec = KeySpec::internal("parlor:{stats}:nodes", Kind::Hash, Ttl::Never)
    .value("field node id = its share of the gauges and the deadline of it")
    .meaning("what each node adds to the gauges; shares of dead nodes are dropped");

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
            endpoint.spelled(self.settings().endpoint_separator),
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
            endpoint.spelled(self.settings().endpoint_separator),
        )
    }

    /// What each node adds to the gauges.
    pub fn stats_nodes(&self) -> Key {
        self.key0(&NODES)
    }
}
