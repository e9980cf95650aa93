//! Model of typing: the expected typing users.

use std::collections::BTreeMap;
use std::time::Duration;

use parlor_chat::clock::Timestamp;

const START_INTERVAL: Duration = Duration::from_secs(2);

/// Conversation and user.
pub type TypingKey = (String, String);

pub struct Model {
    ttl: Duration,
    /// End time of each typing user.
    stored: BTreeMap<TypingKey, Timestamp>,
    /// Until when the throttle of a node suppresses starts.
    suppressed: BTreeMap<(usize, TypingKey), Timestamp>,
}

impl Model {
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            stored: BTreeMap::new(),
            suppressed: BTreeMap::new(),
        }
    }

    /// Returns true if a frame is published.
    pub fn start(&mut self, node: usize, key: &TypingKey, now: Timestamp) -> bool {
        let throttle_key = (node, key.clone());
        if self
            .suppressed
            .get(&throttle_key)
            .is_some_and(|it| now < *it)
        {
            return false;
        }
        let until = now.saturating_add(START_INTERVAL);
        self.suppressed.insert(throttle_key, until);
        self.stored
            .insert(key.clone(), now.saturating_add(self.ttl));
        true
    }

    /// Returns true if a frame is published.
    pub fn stop(&mut self, node: usize, key: &TypingKey, now: Timestamp) -> bool {
        self.message_sent(node, key);
        self.stored.remove(key).is_some_and(|until| now < until)
    }

    pub fn message_sent(&mut self, node: usize, key: &TypingKey) {
        self.suppressed.remove(&(node, key.clone()));
    }

    pub fn typers(&self, conv: &str, now: Timestamp) -> Vec<String> {
        let stored = self
            .stored
            .iter()
            .filter(|it| it.0.0 == conv && *it.1 > now);
        stored.map(|it| it.0.1.clone()).collect()
    }
}
