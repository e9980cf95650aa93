//! Telemetry of the store: each function writes one log line and changes one metric.

use std::fmt::Display;

use metrics::{counter, gauge};
use tracing::{debug, info, warn};

pub(crate) fn opened(url: impl Display) {
    info!(%url, "store opened");
    gauge!("parlor_store_up").set(1.0);
}

pub(crate) fn up(after_ms: u64) {
    info!(after_ms, "store is up");
    gauge!("parlor_store_up").set(1.0);
}

pub(crate) fn down(reason: &str) {
    warn!(reason, "store is down");
    gauge!("parlor_store_up").set(0.0);
    counter!("parlor_store_down_total").increment(1);
}

pub(crate) fn full(server: &str, code: &str, rejected: u64) {
    warn!(
        server,
        code, rejected, "the store is out of memory or cannot write to its disk: add capacity"
    );
}

pub(crate) fn rejected_as_full() {
    counter!("parlor_store_full_total").increment(1);
}

pub(crate) fn connected(server: impl Display, version: &str) {
    info!(%server, version, "connected to the store");
    counter!("parlor_store_connections_total").increment(1);
}

pub(crate) fn connection_lost(server: impl Display, reason: &str) {
    warn!(%server, reason, "connection to the store lost");
    counter!("parlor_store_connections_lost_total").increment(1);
}

pub(crate) fn failover(from: impl Display, to: impl Display) {
    warn!(%from, %to, "store failed over to another primary");
    counter!("parlor_store_failovers_total").increment(1);
}

pub(crate) fn epoch_raised(epoch: u64, origin: &str) {
    info!(
        epoch,
        origin, "store epoch raised: earlier state is checked again before use"
    );
    counter!("parlor_store_epoch_raised_total").increment(1);
}

pub(crate) fn epoch_raised_locally(epoch: u64, reason: &str) {
    warn!(
        epoch,
        reason,
        "store epoch raised on this node only because the store rejected the write; it will be retried"
    );
    counter!("parlor_store_epoch_unsaved_total").increment(1);
}

pub(crate) fn breaker_opened(server: &str, reason: &str) {
    warn!(server, reason, "circuit breaker opened");
    gauge!("parlor_store_breakers_open").increment(1.0);
    counter!("parlor_store_breaker_opened_total").increment(1);
}

pub(crate) fn breaker_closed(server: &str) {
    info!(server, "circuit breaker closed");
    gauge!("parlor_store_breakers_open").decrement(1.0);
}

pub(crate) fn clock_jumped(step_ms: i64) {
    warn!(step_ms, "the store's clock jumped");
    counter!("parlor_store_clock_jumps_total").increment(1);
}

pub(crate) fn topology_changed(primaries: usize) {
    info!(primaries, "cluster topology changed");
    counter!("parlor_store_topology_changes_total").increment(1);
}

pub(crate) fn server_info_denied(server: &str, reason: &str) {
    warn!(
        server,
        reason,
        "a restarted server cannot be detected because the user may not run INFO: grant `+info`"
    );
    counter!("parlor_store_identity_unknown_total").increment(1);
}

pub(crate) fn script_loaded(server: &str, script: &str) {
    debug!(server, script, "script loaded on demand");
    counter!("parlor_store_scripts_loaded_total").increment(1);
}

pub(crate) fn bus_connected(server: impl Display, topics: usize) {
    info!(%server, topics, "bus connected");
    counter!("parlor_store_bus_connections_total").increment(1);
}

pub(crate) fn bus_lost(reason: &str) {
    warn!(reason, "bus connection lost");
    counter!("parlor_store_bus_lost_total").increment(1);
}

pub(crate) fn bus_subscription_rejected(topic: &[u8], reason: impl Display) {
    let topic = String::from_utf8_lossy(topic);
    warn!(%topic, %reason, "bus subscription rejected");
    counter!("parlor_store_bus_refused_total").increment(1);
}

pub(crate) fn subscription_lagged(topic: &[u8]) {
    let topic = String::from_utf8_lossy(topic);
    debug!(%topic, "bus subscriber too slow, messages dropped");
    counter!("parlor_store_bus_lagged_total").increment(1);
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

    use crate::health::StoreShared;
    use crate::options::StoreOptions;

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
