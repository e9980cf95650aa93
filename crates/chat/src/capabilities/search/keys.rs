//! The keys of search.
//!
//! Always true: a page belongs to one user and one query; nobody is served from another's.

use crate::ids::SearchHash;
use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace, TtlName};

/// What search owns.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "search",
    title: "Search",
    keys: &[PAGE],
};

const PAGE: KeySpec = KeySpec::documented(
    "search:{hash of user and query}",
    KeyKind::String,
    KeyTtl::Configured(TtlName::Search),
)
.value("result page as JSON")
.meaning("cached result page of a search by the user")
.sources(&[KeySource::S2Future]);

impl Keyspace {
    /// A page of results.
    pub fn search_page(&self, hash: &SearchHash) -> Key {
        self.key1(&PAGE, hash)
    }
}
