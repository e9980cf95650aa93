//! The keys of search.
//!
//! Always true: a page belongs to one user and one query; nobody is served from another's.

use crate::ids::SearchHash;
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl, TtlName};

/// What search owns.
pub const CAPABILITY: Capability = Capability {
    name: "search",
    title: "Search",
    keys: &[PAGE],
};

const PAGE: KeySpec = KeySpec::new(
    "search:{hash of user and query}",
    Kind::String,
    Ttl::Setting(TtlName::Search),
)
.value("result page as JSON")
.meaning("what a search of the user found a moment ago")
.source(&[Source::S2Future]);

impl Keyspace {
    /// A page of results.
    pub fn search_page(&self, hash: &SearchHash) -> Key {
        self.key1(&PAGE, hash)
    }
}
