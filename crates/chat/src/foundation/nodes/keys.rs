//! The keys of the nodes and of the store itself.
//!
//! Invariant: a node that cannot renew its lease expires no device and declares no node dead. After a change of the
//! store epoch, data in the store is compared with the database before it is used.

use crate::ids::NodeId;
use crate::keys::{Key, KeyGroup, KeyKind, KeySpec, KeyTtl, Keyspace, TtlName};

/// The keys of the nodes and of the store.
pub const KEY_GROUP: KeyGroup = KeyGroup {
    name: "nodes",
    title: "Nodes and store",
    keys: &[NODE_LEASE, NODE_INDEX, EPOCH, DATABASE, SCHEMA],
};

const NODE_LEASE: KeySpec = KeySpec::internal(
    "parlor:node:{node}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::NodeLease),
)
.value("the node's boot id, random per process start")
.meaning("lease of the node: the node is alive while the key exists, and only the node renews it");

const NODE_INDEX: KeySpec = KeySpec::internal("parlor:nodes", KeyKind::SortedSet, KeyTtl::Never)
    .value("member node id, score = ms at which its lease ends, or the claim of the node that removes its devices")
    .meaning(
        "index of the nodes, used to find dead nodes whose devices must be removed",
    );

const EPOCH: KeySpec = KeySpec::internal("parlor:epoch", KeyKind::Hash, KeyTtl::Never)
    .value("`epoch` (a number that only rises), `origin` (the server processes it was raised for)")
    .meaning("rises when the store's data may be stale: unclean start, failover, lost key");

const DATABASE: KeySpec = KeySpec::internal("parlor:database", KeyKind::String, KeyTtl::Never)
    .value("random id of the database")
    .meaning(
        "the database that the store belongs to; a server with another database does not start",
    );

const SCHEMA: KeySpec = KeySpec::internal("parlor:schema", KeyKind::String, KeyTtl::Never)
    .value("number of the newest key schema that a server has used with this store")
    .meaning("a server that knows only older key schemas does not start");

impl Keyspace {
    /// Lease of a node.
    pub fn node_lease(&self, node: &NodeId) -> Key {
        self.key1(&NODE_LEASE, node)
    }

    /// Index of the nodes by the end of their lease.
    pub fn node_index(&self) -> Key {
        self.key0(&NODE_INDEX)
    }

    /// Epoch of the store. The store crate reads and writes it; `parlor migrate-store` copies it.
    pub fn epoch(&self) -> Key {
        self.key0(&EPOCH)
    }

    /// Id of the database that the store belongs to.
    pub fn database_id(&self) -> Key {
        self.key0(&DATABASE)
    }

    /// Number of the newest key schema that was used with the store.
    pub fn schema(&self) -> Key {
        self.key0(&SCHEMA)
    }
}
