//! Which keys move, and what they are called where they go.
//!
//! Always true: what stays is either a fact about the old store itself or a moment that is over before the move is.

use parlor_chat::keys::Keyspace;

/// Declarations whose keys stay, by their patterns.
const SKIPPED_PATTERNS: &[&str] = &[
    // The target has its own, and the move writes the other one.
    "parlor:epoch",
    "parlor:database",
    // Who does something at this moment: nobody, the servers are stopped.
    "parlor:node:{node}",
    "parlor:job:{job}",
    "parlor:catch-up",
    "parlor:{stats}:nodes",
    "connections:http:current",
    "requests:speed_per_second",
    // Seconds.
    "typing:{conv}:{user}",
    "parlor:typing:{conv}",
    "parlor:typing:{conv}:names",
    "membership:{conv}:{user}",
    "parlor:membership:{conv}:{user}",
    "search:{hash of user and query}",
];

/// What becomes of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is copied to this name; the capability it belongs to.
    Moves(Vec<u8>, &'static str),
    /// It stays.
    Skip,
    /// It is not one of Parlor's.
    Undeclared,
}

/// How keys are called on both sides.
pub struct KeyMapping {
    /// On this side.
    pub from: Keyspace,
    /// On the other.
    pub to: Keyspace,
    /// Whether keys that are not Parlor's move, too.
    pub all: bool,
}

impl KeyMapping {
    /// What becomes of a key.
    pub fn fate(&self, key: &[u8]) -> Fate {
        match self.from.match_key(key) {
            Some(found) if SKIPPED_PATTERNS.contains(&found.spec.pattern.text()) => Fate::Skip,
            Some(found) => {
                let name = self.to.key_from_match(&found).into_string().into_bytes();
                Fate::Moves(name, found.capability.name)
            }
            None if self.all => Fate::Moves(key.to_vec(), "(not declared)"),
            None => Fate::Undeclared,
        }
    }

    /// The way back, for Parlor's own keys.
    pub fn reversed_own(&self) -> KeyMapping {
        KeyMapping {
            from: self.to.clone(),
            to: self.from.clone(),
            all: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parlor_chat::keys::{KeySettings, Preset};
    use parlor_chat::registry;

    #[test]
    fn every_key_pattern_excluded_from_migration_is_declared() {
        for pattern in SKIPPED_PATTERNS {
            let mut all = registry::all();
            assert!(
                all.any(|(_, spec)| spec.pattern.text() == *pattern),
                "{pattern}"
            );
        }
    }

    #[test]
    fn keys_are_renamed_for_a_cluster_and_back() {
        let settings = || KeySettings::from_preset(Preset::Parlor);
        let names = KeyMapping {
            from: Keyspace::new(settings(), false).expect("a preset"),
            to: Keyspace::new(settings(), true).expect("a preset"),
            all: false,
        };
        let moves = |key: &str, capability| Fate::Moves(key.as_bytes().to_vec(), capability);
        let there = names.fate(b"unread:alice:c1");
        assert_eq!(there, moves("unread:{alice}:c1", "unread"));
        let back = names.reversed_own().fate(b"unread:{alice}:c1");
        assert_eq!(back, moves("unread:alice:c1", "unread"));
        assert_eq!(names.fate(b"parlor:epoch"), Fate::Skip);
        assert_eq!(names.fate(b"somebody:else"), Fate::Undeclared);
    }
}
