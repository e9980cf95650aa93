//! Which keys move, and what they are called where they go.
//!
//! Always true: what stays is either a fact about the old store itself or a moment that is over before the move is.

use parlor_chat::keys::Keyspace;

/// Declarations whose keys stay, by their patterns.
const STAY: &[&str] = &[
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
    Stays,
    /// It is not one of Parlor's.
    Foreign,
}

/// How keys are called on both sides.
pub struct Names {
    /// On this side.
    pub from: Keyspace,
    /// On the other.
    pub to: Keyspace,
    /// Whether keys that are not Parlor's move, too.
    pub all: bool,
}

impl Names {
    /// What becomes of a key.
    pub fn fate(&self, key: &[u8]) -> Fate {
        match self.from.match_key(key) {
            Some(found) if STAY.contains(&found.spec.pattern.text()) => Fate::Stays,
            Some(found) => {
                let name = self.to.key_of(&found).into_string().into_bytes();
                Fate::Moves(name, found.capability.name)
            }
            None if self.all => Fate::Moves(key.to_vec(), "(not declared)"),
            None => Fate::Foreign,
        }
    }

    /// The way back, for Parlor's own keys.
    pub fn reversed_own(&self) -> Names {
        Names {
            from: self.to.clone(),
            to: self.from.clone(),
            all: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parlor_chat::keys::{Preset, Settings};
    use parlor_chat::registry;

    #[test]
    fn what_stays_is_declared() {
        for pattern in STAY {
            let mut all = registry::all();
            assert!(
                all.any(|(_, spec)| spec.pattern.text() == *pattern),
                "{pattern}"
            );
        }
    }

    #[test]
    fn keys_are_renamed_for_a_cluster_and_back() {
        let settings = || Settings::from_preset(Preset::Parlor);
        let names = Names {
            from: Keyspace::new(settings(), false).expect("a preset"),
            to: Keyspace::new(settings(), true).expect("a preset"),
            all: false,
        };
        let moves = |key: &str, capability| Fate::Moves(key.as_bytes().to_vec(), capability);
        let there = names.fate(b"unread:alice:c1");
        assert_eq!(there, moves("unread:{alice}:c1", "unread"));
        let back = names.reversed_own().fate(b"unread:{alice}:c1");
        assert_eq!(back, moves("unread:alice:c1", "unread"));
        assert_eq!(names.fate(b"parlor:epoch"), Fate::Stays);
        assert_eq!(names.fate(b"somebody:else"), Fate::Foreign);
    }
}
