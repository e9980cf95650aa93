//! Decides which keys are copied, and their names in the target.
//!
//! Invariant: a skipped key either describes the old store itself, or is short-lived and obsolete when the migration
//! ends.

use parlor_chat::keys::Keyspace;

/// Patterns of the declared keys that are not copied.
const SKIPPED_PATTERNS: &[&str] = &[
    // The target has its own; the migration writes `parlor:database` itself.
    "parlor:epoch",
    "parlor:database",
    // State of running servers; all servers are stopped.
    "parlor:node:{node}",
    "parlor:job:{job}",
    "parlor:catch-up",
    "parlor:{stats}:nodes",
    "connections:http:current",
    "requests:speed_per_second",
    // Keys that expire within seconds.
    "typing:{conv}:{user}",
    "parlor:typing:{conv}",
    "parlor:typing:{conv}:names",
    "membership:{conv}:{user}",
    "parlor:membership:{conv}:{user}",
    "search:{hash of user and query}",
];

/// Treatment of a key by the migration.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyAction {
    /// Copies the key to this name; the second field is its capability.
    Copy(Vec<u8>, &'static str),
    /// Skips the key.
    Skip,
    /// Skips the key because Parlor does not declare it.
    Undeclared,
}

/// Names of keys in source and target.
pub struct KeyMapping {
    /// Keyspace of the source.
    pub from: Keyspace,
    /// Keyspace of the target.
    pub to: Keyspace,
    /// True if keys that Parlor does not declare are copied, too.
    pub all: bool,
}

impl KeyMapping {
    /// Decides what happens to a key of the source.
    pub fn action_for(&self, key: &[u8]) -> KeyAction {
        match self.from.match_key(key) {
            Some(found) if SKIPPED_PATTERNS.contains(&found.spec.pattern.text()) => KeyAction::Skip,
            Some(found) => {
                let name = self.to.key_from_match(&found).into_string().into_bytes();
                KeyAction::Copy(name, found.group.name)
            }
            None if self.all => KeyAction::Copy(key.to_vec(), "(not declared)"),
            None => KeyAction::Undeclared,
        }
    }

    /// The mapping from target to source, for declared keys only.
    pub fn reversed(&self) -> KeyMapping {
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
    use parlor_chat::keys::registry;
    use parlor_chat::keys::{KeySettings, Preset};

    #[test]
    fn every_key_pattern_excluded_from_migration_is_declared() {
        for pattern in SKIPPED_PATTERNS {
            let mut all = registry::all_specs();
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
        let moves = |key: &str, capability| KeyAction::Copy(key.as_bytes().to_vec(), capability);
        let there = names.action_for(b"unread:alice:c1");
        assert_eq!(there, moves("unread:{alice}:c1", "unread"));
        let back = names.reversed().action_for(b"unread:{alice}:c1");
        assert_eq!(back, moves("unread:alice:c1", "unread"));
        assert_eq!(names.action_for(b"parlor:epoch"), KeyAction::Skip);
        assert_eq!(names.action_for(b"somebody:else"), KeyAction::Undeclared);
    }
}
