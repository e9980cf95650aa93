//! `make bench`: Parlor and its peers side by side on this machine, with ratios.
//!
//! Timing is printed, never asserted. CPU per operation is what a noisy machine leaves comparable, so it stands beside
//! every rate.

mod measure;
mod pauses;
mod restart;
mod store;

fn main() -> anyhow::Result<()> {
    println!(
        "Parlor benchmarks: one process, calls through the store contract, 200-byte values.\n"
    );
    store::run()?;
    restart::run()?;
    pauses::run()
}
