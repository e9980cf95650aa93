//! Metrics, in the order of the tables.

use super::results::{Direction, Metric, Target};
use super::users_and_rooms::RoomLayout;

pub const MEMORY: &str = "idle: resident KiB/connection";
pub const MEMORY_STORE: &str = "idle: of it in the store";
pub const MEMORY_OWN: &str = "idle: of it for the connection";
pub const FIRST_RATE: &str = "connects/s, new session";
pub const FIRST_CPU: &str = "CPU µs/connect, new session";
pub const KNOWN_RATE: &str = "connects/s, existing session";
pub const KNOWN_CPU: &str = "CPU µs/connect, existing session";
pub const STORM_WALL: &str = "reconnect storm: s until all are connected";
pub const STORM_FIRST: &str = "reconnect storm: connected at the first attempt, %";
pub const STORM_AGAIN: &str = "reconnect storm: retries";
pub const STORM_LOST: &str = "reconnect storm: failed clients";
pub const BEAT_RATE: &str = "heartbeat acks/s";
pub const BEAT_CPU: &str = "CPU µs/heartbeat";

/// Names of the metrics of one room size.
pub struct RoomMetrics {
    pub shape: RoomLayout,
    pub messages: &'static str,
    pub message_cpu: &'static str,
    pub deliveries: &'static str,
    pub delivery_cpu: &'static str,
    /// Events other than `message:new`.
    pub events: &'static str,
    pub p50: &'static str,
    pub p99: &'static str,
    pub fixed_rate_cpu: &'static str,
}

pub const ROOMS: [RoomMetrics; 2] = [
    RoomMetrics {
        shape: RoomLayout::SMALL,
        messages: "100 rooms of 10: message acks/s",
        message_cpu: "100 rooms of 10: CPU µs/message",
        deliveries: "100 rooms of 10: deliveries/s",
        delivery_cpu: "100 rooms of 10: CPU µs/delivery",
        events: "100 rooms of 10: other events/message",
        p50: "100 rooms of 10, 200 messages/s: delivery latency p50, ms",
        p99: "100 rooms of 10, 200 messages/s: delivery latency p99, ms",
        fixed_rate_cpu: "100 rooms of 10, 200 messages/s: CPU µs/delivery",
    },
    RoomMetrics {
        shape: RoomLayout::LARGE,
        messages: "10 rooms of 100: message acks/s",
        message_cpu: "10 rooms of 100: CPU µs/message",
        deliveries: "10 rooms of 100: deliveries/s",
        delivery_cpu: "10 rooms of 100: CPU µs/delivery",
        events: "10 rooms of 100: other events/message",
        p50: "10 rooms of 100, 50 messages/s: delivery latency p50, ms",
        p99: "10 rooms of 100, 50 messages/s: delivery latency p99, ms",
        fixed_rate_cpu: "10 rooms of 100, 50 messages/s: CPU µs/delivery",
    },
];

/// All metrics.
pub fn all() -> Vec<Metric> {
    let mut all = vec![
        lower_is_better(MEMORY, 2),
        lower_is_better(MEMORY_STORE, 2),
        lower_is_better(MEMORY_OWN, 2).with_target(Target::Value(3.0)),
        higher_is_better(KNOWN_RATE).with_target(Target::Value(12_000.0)),
        lower_is_better(KNOWN_CPU, 0),
        higher_is_better(FIRST_RATE),
        lower_is_better(FIRST_CPU, 0),
        lower_is_better(STORM_WALL, 1),
        higher_is_better(STORM_FIRST),
        lower_is_better(STORM_AGAIN, 0),
        lower_is_better(STORM_LOST, 0).with_target(Target::Value(0.0)),
        higher_is_better(BEAT_RATE),
        lower_is_better(BEAT_CPU, 1).with_target(Target::Value(10.0)),
    ];
    for rooms in &ROOMS {
        let small = rooms.shape.members_per_room == RoomLayout::SMALL.members_per_room;
        let (rate, cost) = match small {
            true => (Target::TimesNodeRedis(8.0), Target::None),
            false => (Target::None, Target::Value(2.5)),
        };
        all.extend([
            higher_is_better(rooms.messages).with_target(rate),
            lower_is_better(rooms.message_cpu, 0),
            higher_is_better(rooms.deliveries),
            lower_is_better(rooms.delivery_cpu, 1).with_target(cost),
            lower_is_better(rooms.events, 1),
            lower_is_better(rooms.p50, 2),
            lower_is_better(rooms.p99, 2),
            lower_is_better(rooms.fixed_rate_cpu, 1),
        ]);
    }
    all
}

/// Metrics in the plot.
pub const PLOTTED: [&str; 8] = [
    MEMORY,
    KNOWN_RATE,
    BEAT_CPU,
    ROOMS[0].messages,
    ROOMS[0].delivery_cpu,
    ROOMS[1].delivery_cpu,
    ROOMS[0].p50,
    ROOMS[1].p99,
];

impl Metric {
    fn with_target(self, target: Target) -> Self {
        Self { target, ..self }
    }
}

const fn higher_is_better(name: &'static str) -> Metric {
    Metric {
        name,
        target: Target::None,
        better: Direction::HigherIsBetter,
        digits: 0,
    }
}

const fn lower_is_better(name: &'static str, digits: usize) -> Metric {
    Metric {
        name,
        target: Target::None,
        better: Direction::LowerIsBetter,
        digits,
    }
}
