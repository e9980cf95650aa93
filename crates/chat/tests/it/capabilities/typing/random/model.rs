//! Model of typing: the expected typing users.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parlor_chat::context::Timestamp;

const WINDOW: Duration = Duration::from_secs(2);

/// Conversation and user.
pub type Place = (String, String);

/// Node, place, and whether the user types.
pub type Told = (usize, Place, bool);

pub struct Model {
    ttl: Duration,
    /// End time of each typing user.
    stored: BTreeMap<Place, Timestamp>,
    /// Until when the throttle of a node suppresses starts.
    held_back: BTreeMap<(usize, Place), Timestamp>,
    rooms: BTreeMap<(usize, String), Room>,
    told: Vec<Told>,
}

struct Room {
    seats: usize,
    typers: BTreeMap<String, Timestamp>,
}

impl Model {
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            stored: BTreeMap::new(),
            held_back: BTreeMap::new(),
            rooms: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    pub fn start(&mut self, node: usize, place: &Place, now: Timestamp) {
        let held_back = (node, place.clone());
        if self.held_back.get(&held_back).is_some_and(|it| now < *it) {
            return;
        }
        self.held_back.insert(held_back, now.saturating_add(WINDOW));
        let until = now.saturating_add(self.ttl);
        self.stored.insert(place.clone(), until);
        for ((at, _), room) in self.rooms.iter_mut().filter(|it| it.0.1 == place.0) {
            // Another node may have said the same at the same moment.
            if room.typers.insert(place.1.clone(), until) != Some(until) {
                self.told.push((*at, place.clone(), true));
            }
        }
    }

    pub fn stop(&mut self, node: usize, place: &Place, now: Timestamp) {
        self.message_sent(node, place);
        if self.stored.remove(place).is_none_or(|until| until <= now) {
            return;
        }
        for ((at, _), room) in self.rooms.iter_mut().filter(|it| it.0.1 == place.0) {
            if room.typers.remove(&place.1).is_some() {
                self.told.push((*at, place.clone(), false));
            }
        }
    }

    pub fn message_sent(&mut self, node: usize, place: &Place) {
        self.held_back.remove(&(node, place.clone()));
    }

    pub fn expire(&mut self, node: usize, now: Timestamp) {
        let rooms: Vec<_> = self
            .rooms
            .keys()
            .filter(|it| it.0 == node)
            .cloned()
            .collect();
        for room in rooms {
            self.end(&room, now);
        }
    }

    fn end(&mut self, key: &(usize, String), now: Timestamp) {
        let room = self.rooms.get_mut(key).expect("it is open");
        let over = room.typers.extract_if(.., |_, until| *until <= now);
        let told = over.map(|(who, _)| (key.0, (key.1.clone(), who), false));
        self.told.extend(told);
    }

    pub fn sit(&mut self, node: usize, conv: &str, now: Timestamp) -> BTreeSet<String> {
        let key = (node, conv.to_owned());
        if self.rooms.contains_key(&key) {
            self.end(&key, now);
        } else {
            let here = self
                .stored
                .iter()
                .filter(|it| it.0.0 == conv && *it.1 > now);
            let typers = here
                .map(|(place, until)| (place.1.clone(), *until))
                .collect();
            self.rooms.insert(key.clone(), Room { seats: 0, typers });
        }
        self.rooms.get_mut(&key).expect("it is open").seats += 1;
        self.known(node, conv)
    }

    pub fn rise(&mut self, node: usize, conv: &str) {
        let key = (node, conv.to_owned());
        let room = self.rooms.get_mut(&key).expect("somebody sits there");
        room.seats -= 1;
        if room.seats == 0 {
            self.rooms.remove(&key);
        }
    }

    /// Whom a node believes to type.
    pub fn known(&self, node: usize, conv: &str) -> BTreeSet<String> {
        let room = &self.rooms[&(node, conv.to_owned())];
        room.typers.keys().cloned().collect()
    }

    pub fn typers(&self, conv: &str, now: Timestamp) -> Vec<String> {
        let here = self.stored.iter().filter(|it| it.0.0 == conv);
        let here = here.filter(|it| *it.1 > now);
        here.map(|it| it.0.1.clone()).collect()
    }

    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }
}
