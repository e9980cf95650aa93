//! The keys of nodes and of the store itself.
//!
//! Always true: a node that cannot renew its lease judges nobody, and a store whose epoch changed is not believed unchecked.

use crate::ids::NodeId;
use crate::keys::{Key, KeyGroup, KeyKind, KeySpec, KeyTtl, Keyspace, TtlName};

/// What nodes own.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "nodes",
    title: "Nodes and store",
    keys: &[NODE, NODES, EPOCH, DATABASE, SCHEMA],
};

const NODE: KeySpec = KeySpec::internal(
    "parlor:node:{node}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::NodeLease),
)
.value("the node's boot id, random per process start")
.meaning("lease of the node: the node is alive while the key exists, and only the node renews it");

const NODES: KeySpec = KeySpec::internal("parlor:nodes", KeyKind::SortedSet, KeyTtl::Never)
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

const SCHEMA: KeySpec = KeySpec::internal("parlor:schema", KeyKind::Integer, KeyTtl::Never)
    .value("version of the internal values")
    .meaning("reserved; this version neither reads nor writes it");

impl Keyspace {
    /// The lease of a node.
    pub fn node(&self, node: &NodeId) -> Key {
        self.key1(&NODE, node)
    }

    /// The index of nodes.
    pub fn nodes(&self) -> Key {
        self.key0(&NODES)
    }

    /// The epoch of the store.
    pub fn epoch(&self) -> Key {
        self.key0(&EPOCH)
    }

    /// The database the store belongs to.
    pub fn database(&self) -> Key {
        self.key0(&DATABASE)
    }

    /// The version of the internal values.
    pub fn schema_version(&self) -> Key {
        self.key0(&SCHEMA)
    }
}
