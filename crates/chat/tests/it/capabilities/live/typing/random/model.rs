//! Model of typing: what is stored, what is published, and what each subscriber receives.

use std::collections::BTreeMap;
use std::time::Duration;

use parlor_chat::clock::Timestamp;

use crate::capabilities::live::typing::fixture::describe;

const START_INTERVAL: Duration = Duration::from_secs(2);

/// Conversation and user.
pub type TypingKey = (String, String);

/// Receiver and conversation.
pub type SubscriptionKey = (usize, String);

pub struct Model {
    ttl: Duration,
    /// End time of each typing user.
    stored: BTreeMap<TypingKey, Timestamp>,
    /// Until when the throttle of a node suppresses starts.
    suppressed: BTreeMap<(usize, TypingKey), Timestamp>,
    feeds: BTreeMap<SubscriptionKey, FeedModel>,
    frames: BTreeMap<String, Vec<String>>,
}

struct FeedModel {
    node: usize,
    /// End time of each user that the feed knows.
    typing: BTreeMap<String, Timestamp>,
    events: Vec<String>,
}

impl Model {
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            stored: BTreeMap::new(),
            suppressed: BTreeMap::new(),
            feeds: BTreeMap::new(),
            frames: BTreeMap::new(),
        }
    }

    pub fn start(&mut self, node: usize, key: &TypingKey, now: Timestamp) {
        let throttle_key = (node, key.clone());
        let suppressed = self.suppressed.get(&throttle_key);
        if suppressed.is_some_and(|until| now < *until) {
            return;
        }
        let window = now.saturating_add(START_INTERVAL);
        self.suppressed.insert(throttle_key, window);
        let until = now.saturating_add(self.ttl);
        self.stored.insert(key.clone(), until);
        let (conv, who) = key;
        self.publish(conv, who, true);
        for feed in feeds_of(&mut self.feeds, conv) {
            // The other node may have published the same end time.
            if feed.typing.insert(who.clone(), until) != Some(until) {
                feed.events.push(describe(who, true));
            }
        }
    }

    pub fn stop(&mut self, node: usize, key: &TypingKey, now: Timestamp) {
        self.message_sent(node, key);
        let stored = self.stored.remove(key);
        if stored.is_none_or(|until| until <= now) {
            return;
        }
        let (conv, who) = key;
        self.publish(conv, who, false);
        for feed in feeds_of(&mut self.feeds, conv) {
            if feed.typing.remove(who).is_some() {
                feed.events.push(describe(who, false));
            }
        }
    }

    pub fn message_sent(&mut self, node: usize, key: &TypingKey) {
        self.suppressed.remove(&(node, key.clone()));
    }

    /// Ends the indicators that have expired on a node, the earliest first.
    pub fn expire(&mut self, node: usize, now: Timestamp) {
        for feed in self.feeds.values_mut().filter(|feed| feed.node == node) {
            let expired = feed.typing.extract_if(.., |_, until| *until <= now);
            let mut expired: Vec<_> = expired.map(|(who, until)| (until, who)).collect();
            expired.sort();
            let stopped = expired.iter().map(|(_, who)| describe(who, false));
            feed.events.extend(stopped);
        }
    }

    pub fn subscribe(&mut self, key: SubscriptionKey, node: usize, now: Timestamp) {
        let stored = self.stored.iter();
        let typing = stored.filter(|((conv, _), until)| *conv == key.1 && **until > now);
        let typing = typing.map(|((_, who), until)| (who.clone(), *until));
        let feed = FeedModel {
            node,
            typing: typing.collect(),
            events: Vec::new(),
        };
        self.feeds.insert(key, feed);
    }

    pub fn unsubscribe(&mut self, key: &SubscriptionKey) {
        self.feeds.remove(key);
    }

    pub fn typing_users(&self, conv: &str, now: Timestamp) -> Vec<String> {
        let stored = self.stored.iter();
        let stored = stored.filter(|(key, until)| key.0 == conv && **until > now);
        stored.map(|(key, _)| key.1.clone()).collect()
    }

    /// Takes the frames that were published since the last call.
    pub fn take_frames(&mut self, conv: &str) -> Vec<String> {
        self.frames.remove(conv).unwrap_or_default()
    }

    /// Takes the events that a subscriber received since the last call.
    pub fn take_events(&mut self, key: &SubscriptionKey) -> Vec<String> {
        let feed = self.feeds.get_mut(key).unwrap();
        std::mem::take(&mut feed.events)
    }

    fn publish(&mut self, conv: &str, who: &str, typing: bool) {
        let frames = self.frames.entry(conv.to_owned()).or_default();
        frames.push(describe(who, typing));
    }
}

fn feeds_of<'a>(
    feeds: &'a mut BTreeMap<SubscriptionKey, FeedModel>,
    conv: &'a str,
) -> impl Iterator<Item = &'a mut FeedModel> {
    let feeds = feeds.iter_mut().filter(move |(key, _)| key.1 == conv);
    feeds.map(|(_, feed)| feed)
}
