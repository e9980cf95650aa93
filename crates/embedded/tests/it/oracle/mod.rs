//! Redis as the oracle: the same random commands go to the embedded engine and to a real Redis, and every reply and
//! what is left at the end must be equal.
//!
//! A difference is cut down to the fewest commands that still show it and printed in the form of `regressions.txt`,
//! where it belongs from then on.

mod compare;
mod generate;
mod peers;

use generate::{Generator, Step};
use peers::Peers;

/// How many sequences a run sends, and how long each is: some 120,000 commands.
const CASES: u64 = 1_000;
const LENGTH: usize = 120;

/// A longer run with other seeds, for whoever has the time.
#[expect(clippy::disallowed_methods, reason = "a knob of this test alone")]
fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_commands_get_the_same_replies_as_from_redis() {
    let redis = parlor_testkit::Redis::start().await;
    let mut peers = Peers::connect(&redis).await;
    let first = knob("PARLOR_ORACLE_SEED", 1);
    let mut sent = 0;
    for seed in first..first + knob("PARLOR_ORACLE_CASES", CASES) {
        let steps = Generator::new(seed).sequence(LENGTH);
        sent += steps.iter().map(Step::commands).sum::<usize>();
        if let Err(difference) = peers.run(&steps).await {
            let shortest = shorten(&mut peers, steps).await;
            let difference = peers.run(&shortest).await.err().unwrap_or(difference);
            let lines: String = shortest.iter().map(|step| format!("{step}\n")).collect();
            panic!("seed {seed}: {difference}\n\nadd to regressions.txt:\n\n{lines}");
        }
    }
    assert!(
        sent >= 100_000 || first != 1,
        "only {sent} commands were sent"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_found_before_stay_mended() {
    let redis = parlor_testkit::Redis::start().await;
    let mut peers = Peers::connect(&redis).await;
    for case in include_str!("regressions.txt").split("\n\n") {
        let lines = case
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let steps: Vec<Step> = lines.map(|line| line.parse().expect("a step")).collect();
        if let Err(difference) = peers.run(&steps).await {
            panic!("{difference}\n\n{case}");
        }
    }
}

/// Leaves out whatever can be left out with the difference still there: halves first, then smaller pieces.
async fn shorten(peers: &mut Peers, mut steps: Vec<Step>) -> Vec<Step> {
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + piece).min(steps.len()));
            if peers.run(&fewer).await.is_err() {
                steps = fewer;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    steps
}
