//! The keys of nodes and of the store itself.
//!
//! Always true: a node that cannot renew its lease judges nobody, and a store whose epoch changed is not believed unchecked.

use crate::ids::NodeId;
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Ttl, TtlName};

/// What nodes own.
pub const CAPABILITY: Capability = Capability {
    name: "nodes",
    title: "Nodes and store",
    keys: &[NODE, NODES, EPOCH, DATABASE, SCHEMA],
};

const NODE: KeySpec = KeySpec::internal(
    "parlor:node:{node}",
    Kind::String,
    Ttl::Setting(TtlName::NodeLease),
)
.value("the node's epoch, random per start")
.meaning("the node is alive; the lease is renewed by it alone");

const NODES: KeySpec = KeySpec::internal("parlor:nodes", Kind::SortedSet, Ttl::Never)
    .value("member node id, score = ms at which its lease ends")
    .meaning(
        "which nodes there are, and which have ended and wait for somebody to end their devices",
    );

const EPOCH: KeySpec = KeySpec::internal("parlor:epoch", Kind::Hash, Ttl::Never)
    .value("`epoch` (a number that only rises), `origin` (the server processes it was raised for)")
    .meaning("rises when the store's data may be stale: unclean start, failover, lost key");

const DATABASE: KeySpec = KeySpec::internal("parlor:database", Kind::String, Ttl::Never)
    .value("the database's random id")
    .meaning("which database the store belongs to; another one refuses the start");

const SCHEMA: KeySpec = KeySpec::internal("parlor:schema", Kind::Integer, Ttl::Never)
    .value("version of the internal values")
    .meaning("refuses an older binary that would not understand them");

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
