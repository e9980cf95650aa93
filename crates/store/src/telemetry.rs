//! Telemetry of the store: each event is one log line and one change of a metric.

use metrics::{counter, gauge};
use tracing::{debug, info, warn};

/// Something that is worth a log line and a metric.
#[derive(Debug)]
pub(crate) enum StoreTelemetryEvent<'a> {
    Opened { url: &'a str },
    Up { after_ms: u64 },
    Down { reason: &'a str },
    Connected { server: &'a str, version: &'a str },
    ConnectionLost { server: &'a str, reason: &'a str },
    Failover { from: &'a str, to: &'a str },
    EpochRaised { epoch: u64, origin: &'a str },
    EpochRaisedLocally { epoch: u64, reason: &'a str },
    BreakerOpened { server: &'a str, reason: &'a str },
    BreakerClosed { server: &'a str },
    ClockJumped { step_ms: i64 },
    TopologyChanged { primaries: usize },
    ServerInfoDenied { server: &'a str, reason: &'a str },
    ScriptLoaded { server: &'a str },
    BusConnected { server: &'a str, topics: usize },
    BusLost { reason: &'a str },
    BusRefused { topic: &'a str, reason: &'a str },
    SubscriptionLagged { topic: &'a str },
}

impl StoreTelemetryEvent<'_> {
    /// Writes the log line and changes the metric.
    pub(crate) fn emit(&self) {
        self.log();
        self.count();
    }

    fn log(&self) {
        match *self {
            Self::Opened { url } => info!(url, "store opened"),
            Self::Up { after_ms } => info!(after_ms, "store is up"),
            Self::Down { reason } => warn!(reason, "store is down"),
            Self::Connected { server, version } => info!(server, version, "connected to the store"),
            Self::ConnectionLost { server, reason } => {
                warn!(server, reason, "connection to the store lost");
            }
            Self::Failover { from, to } => warn!(from, to, "store failed over to another primary"),
            Self::EpochRaised { epoch, origin } => {
                info!(
                    epoch,
                    origin, "store epoch raised: earlier state is checked again before use"
                );
            }
            Self::EpochRaisedLocally { epoch, reason } => {
                warn!(
                    epoch,
                    reason,
                    "store epoch raised on this node only because the store rejected the write; it will be retried"
                );
            }
            Self::BreakerOpened { server, reason } => {
                warn!(server, reason, "circuit breaker opened");
            }
            Self::BreakerClosed { server } => info!(server, "circuit breaker closed"),
            Self::ClockJumped { step_ms } => warn!(step_ms, "the store's clock jumped"),
            Self::TopologyChanged { primaries } => info!(primaries, "cluster topology changed"),
            Self::ServerInfoDenied { server, reason } => {
                warn!(
                    server,
                    reason,
                    "a restarted server cannot be detected because the user may not run INFO: grant `+info`"
                );
            }
            Self::ScriptLoaded { server } => debug!(server, "script loaded on demand"),
            Self::BusConnected { server, topics } => info!(server, topics, "bus connected"),
            Self::BusLost { reason } => warn!(reason, "bus connection lost"),
            Self::BusRefused { topic, reason } => warn!(topic, reason, "bus subscription rejected"),
            Self::SubscriptionLagged { topic } => {
                debug!(topic, "bus subscriber too slow, messages dropped");
            }
        }
    }

    fn count(&self) {
        match *self {
            Self::Opened { .. } | Self::Up { .. } => gauge!("parlor_store_up").set(1.0),
            Self::Down { .. } => {
                gauge!("parlor_store_up").set(0.0);
                counter!("parlor_store_down_total").increment(1);
            }
            Self::Connected { .. } => counter!("parlor_store_connections_total").increment(1),
            Self::ConnectionLost { .. } => {
                counter!("parlor_store_connections_lost_total").increment(1);
            }
            Self::Failover { .. } => counter!("parlor_store_failovers_total").increment(1),
            Self::EpochRaised { .. } => counter!("parlor_store_epoch_raised_total").increment(1),
            Self::EpochRaisedLocally { .. } => {
                counter!("parlor_store_epoch_unsaved_total").increment(1);
            }
            Self::BreakerOpened { .. } => {
                gauge!("parlor_store_breakers_open").increment(1.0);
                counter!("parlor_store_breaker_opened_total").increment(1);
            }
            Self::BreakerClosed { .. } => gauge!("parlor_store_breakers_open").decrement(1.0),
            Self::ClockJumped { .. } => counter!("parlor_store_clock_jumps_total").increment(1),
            Self::TopologyChanged { .. } => {
                counter!("parlor_store_topology_changes_total").increment(1);
            }
            Self::ServerInfoDenied { .. } => {
                counter!("parlor_store_identity_unknown_total").increment(1);
            }
            Self::ScriptLoaded { .. } => counter!("parlor_store_scripts_loaded_total").increment(1),
            Self::BusConnected { .. } => {
                counter!("parlor_store_bus_connections_total").increment(1);
            }
            Self::BusLost { .. } => counter!("parlor_store_bus_lost_total").increment(1),
            Self::BusRefused { .. } => counter!("parlor_store_bus_refused_total").increment(1),
            Self::SubscriptionLagged { .. } => {
                counter!("parlor_store_bus_lagged_total").increment(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };
    use parking_lot::Mutex;

    use crate::options::StoreOptions;
    use crate::shared::StoreShared;

    /// Values of counters and gauges by name.
    #[derive(Default)]
    struct MetricCounts(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Recorder for MetricCounts {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let mut counts = self.0.lock();
            Counter::from_arc(Arc::clone(counts.entry(key.name().to_owned()).or_default()))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            let mut counts = self.0.lock();
            Gauge::from_arc(Arc::clone(counts.entry(key.name().to_owned()).or_default()))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_state_change_is_counted_once_however_often_it_is_noticed() {
        let counts = MetricCounts::default();
        metrics::with_local_recorder(&counts, || {
            let shared = StoreShared::new(&StoreOptions::default());
            let retired = AtomicBool::new(false);
            for _ in 0..3 {
                shared.mark_server_down("a", "gone", &retired);
            }
            for _ in 0..3 {
                shared.mark_server_up("a");
            }
        });
        let value = |name: &str| counts.0.lock()[name].load(Ordering::Relaxed);
        assert_eq!(value("parlor_store_down_total"), 1);
        assert_eq!(f64::from_bits(value("parlor_store_up")), 1.0);
    }
}
