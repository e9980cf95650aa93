//! `make bench`: measures Parlor and its peers on this machine and prints tables with ratios. `make bench ONLY=store`
//! runs one benchmark.
//!
//! Timing is printed, never asserted. CPU time per operation stays comparable on a busy machine, so it is printed
//! beside every rate.

mod flush_latency;
mod gateway;
mod limits;
mod measure;
mod messages;
mod presence;
mod store;
mod store_fixture;
mod store_restart;

type Benchmark = (&'static str, fn() -> anyhow::Result<()>);

const BENCHMARKS: [Benchmark; 8] = [
    ("store", store::run),
    ("restart", store_restart::run),
    ("flush-latency", flush_latency::run),
    ("presence", presence::run),
    ("messages", messages::run),
    ("deletion", messages::deletion::run),
    ("limits", limits::run),
    ("gateway", gateway::run),
];

fn main() -> anyhow::Result<()> {
    let only = std::env::args().nth(1);
    let wanted = |(name, _): &&Benchmark| only.as_deref().is_none_or(|only| only == *name);
    let parts: Vec<_> = BENCHMARKS.iter().filter(wanted).collect();
    anyhow::ensure!(
        !parts.is_empty(),
        "unknown benchmark; choose one of {:?}",
        BENCHMARKS.map(|(name, _)| name)
    );
    println!("Parlor benchmarks.\n");
    parts.into_iter().try_for_each(|(_, run)| run())
}
