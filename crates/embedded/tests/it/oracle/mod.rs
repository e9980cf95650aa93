//! Redis as the oracle: the same random commands go to the embedded engine and to a real Redis server. Every reply and
//! the final state must be equal.
//!
//! A difference is reduced to the fewest commands that still show it, and printed in the format of `regressions.txt`.
//! Add it there.

mod compare;
mod engines;
mod generate;

use engines::OraclePair;
use generate::{Generator, OracleStep};

/// Number of sequences of a run and their length, about 120,000 commands in total.
const SEQUENCE_COUNT: u64 = 1_000;
const SEQUENCE_LENGTH: usize = 120;

/// A number from the environment, for longer runs with other seeds.
#[expect(clippy::disallowed_methods, reason = "a setting of this test alone")]
fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_commands_get_the_same_replies_as_from_redis() {
    let redis = parlor_testkit::Redis::start().await;
    let mut pair = OraclePair::connect(&redis).await;
    let first = env_number("PARLOR_ORACLE_SEED", 1);
    let mut sent = 0;
    for seed in first..first + env_number("PARLOR_ORACLE_CASES", SEQUENCE_COUNT) {
        let steps = Generator::new(seed).sequence(SEQUENCE_LENGTH);
        sent += steps.iter().map(OracleStep::commands).sum::<usize>();
        if let Err(difference) = pair.run(&steps).await {
            let shortest = minimize(&mut pair, steps).await;
            let difference = pair.run(&shortest).await.err().unwrap_or(difference);
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
async fn recorded_oracle_regressions_pass() {
    let redis = parlor_testkit::Redis::start().await;
    let mut pair = OraclePair::connect(&redis).await;
    for case in include_str!("regressions.txt").split("\n\n") {
        let lines = case
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let steps: Vec<OracleStep> = lines.map(|line| line.parse().expect("a step")).collect();
        if let Err(difference) = pair.run(&steps).await {
            panic!("{difference}\n\n{case}");
        }
    }
}

/// Leaves out every step that the difference does not need: halves first, then smaller pieces.
async fn minimize(pair: &mut OraclePair, mut steps: Vec<OracleStep>) -> Vec<OracleStep> {
    let mut piece = steps.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + piece).min(steps.len()));
            if pair.run(&fewer).await.is_err() {
                steps = fewer;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    steps
}
