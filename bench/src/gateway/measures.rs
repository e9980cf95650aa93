//! What is measured, in the order of the tables.

use super::book::{Aim, Better, Measure};
use super::people::Shape;

pub const MEMORY: &str = "idle, KiB resident per connection, all";
pub const MEMORY_STORE: &str = "of it the store";
pub const MEMORY_OWN: &str = "of it the connection";
pub const FIRST_RATE: &str = "connects/s, first time";
pub const FIRST_CPU: &str = "CPU µs/connect, first time";
pub const KNOWN_RATE: &str = "connects/s, session exists";
pub const KNOWN_CPU: &str = "CPU µs/connect, session exists";
pub const STORM_WALL: &str = "all at once after a restart: s until they are in";
pub const STORM_FIRST: &str = "all at once: in at the first try, %";
pub const STORM_AGAIN: &str = "all at once: tries that were refused for a while";
pub const STORM_LOST: &str = "all at once: failed for good";
pub const BEAT_RATE: &str = "heartbeat acks/s";
pub const BEAT_CPU: &str = "CPU µs/heartbeat";

/// What is measured of rooms of one size.
pub struct Rooms {
    pub shape: Shape,
    pub messages: &'static str,
    pub message_cpu: &'static str,
    pub deliveries: &'static str,
    pub delivery_cpu: &'static str,
    /// Beside `message:new`.
    pub events: &'static str,
    pub median: &'static str,
    pub slowest: &'static str,
    pub paced_cpu: &'static str,
}

pub const ROOMS: [Rooms; 2] = [
    Rooms {
        shape: Shape::SMALL,
        messages: "100 rooms of 10: message acks/s",
        message_cpu: "100 rooms of 10: CPU µs/message",
        deliveries: "100 rooms of 10: deliveries/s",
        delivery_cpu: "100 rooms of 10: CPU µs/delivery",
        events: "100 rooms of 10: other events/message",
        median: "100 rooms of 10, 200 messages/s: ms to delivery, p50",
        slowest: "100 rooms of 10, 200 messages/s: ms to delivery, p99",
        paced_cpu: "100 rooms of 10, 200 messages/s: CPU µs/delivery",
    },
    Rooms {
        shape: Shape::LARGE,
        messages: "10 rooms of 100: message acks/s",
        message_cpu: "10 rooms of 100: CPU µs/message",
        deliveries: "10 rooms of 100: deliveries/s",
        delivery_cpu: "10 rooms of 100: CPU µs/delivery",
        events: "10 rooms of 100: other events/message",
        median: "10 rooms of 100, 50 messages/s: ms to delivery, p50",
        slowest: "10 rooms of 100, 50 messages/s: ms to delivery, p99",
        paced_cpu: "10 rooms of 100, 50 messages/s: CPU µs/delivery",
    },
];

/// All of them.
pub fn all() -> Vec<Measure> {
    let mut all = vec![
        less(MEMORY, 2),
        less(MEMORY_STORE, 2),
        less(MEMORY_OWN, 2).aiming(Aim::Of(3.0)),
        more(KNOWN_RATE).aiming(Aim::Of(12_000.0)),
        less(KNOWN_CPU, 0),
        more(FIRST_RATE),
        less(FIRST_CPU, 0),
        less(STORM_WALL, 1),
        more(STORM_FIRST),
        less(STORM_AGAIN, 0),
        less(STORM_LOST, 0).aiming(Aim::Of(0.0)),
        more(BEAT_RATE),
        less(BEAT_CPU, 1).aiming(Aim::Of(10.0)),
    ];
    for rooms in &ROOMS {
        let small = rooms.shape.size == Shape::SMALL.size;
        let (rate, cost) = match small {
            true => (Aim::TimesRedis(8.0), Aim::None),
            false => (Aim::None, Aim::Of(2.5)),
        };
        all.extend([
            more(rooms.messages).aiming(rate),
            less(rooms.message_cpu, 0),
            more(rooms.deliveries),
            less(rooms.delivery_cpu, 1).aiming(cost),
            less(rooms.events, 1),
            less(rooms.median, 2),
            less(rooms.slowest, 2),
            less(rooms.paced_cpu, 1),
        ]);
    }
    all
}

/// Those that the plot shows.
pub const PLOTTED: [&str; 8] = [
    MEMORY,
    KNOWN_RATE,
    BEAT_CPU,
    ROOMS[0].messages,
    ROOMS[0].delivery_cpu,
    ROOMS[1].delivery_cpu,
    ROOMS[0].median,
    ROOMS[1].slowest,
];

impl Measure {
    fn aiming(self, aim: Aim) -> Self {
        Self { aim, ..self }
    }
}

const fn more(name: &'static str) -> Measure {
    Measure {
        name,
        aim: Aim::None,
        better: Better::More,
        digits: 0,
    }
}

const fn less(name: &'static str, digits: usize) -> Measure {
    Measure {
        name,
        aim: Aim::None,
        better: Better::Less,
        digits,
    }
}
