//! Results of all runs, and the tables made from them.
//!
//! Invariant: a result is the median of the valid runs. A run is void if the load of the generator exceeded
//! [`MAX_GENERATOR_LOAD`].

use comfy_table::{Table, presets};

use super::servers::BenchServerKind;
use crate::measure::format_thousands;

/// Part of its core that the generator may use.
pub const MAX_GENERATOR_LOAD: f64 = 0.9;

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    pub name: &'static str,
    /// Target of Parlor.
    pub target: Target,
    pub better: Direction,
    /// Digits after the decimal point.
    pub digits: usize,
}

/// Target of Parlor for a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    None,
    /// This value or better.
    Value(f64),
    /// This factor better than Node with Redis in the same measurement.
    TimesNodeRedis(f64),
}

/// Direction in which a value is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    HigherIsBetter,
    LowerIsBetter,
}

impl Metric {
    /// Target as text.
    fn format_target(&self) -> String {
        let sign = match self.better {
            Direction::HigherIsBetter => "≥",
            Direction::LowerIsBetter => "≤",
        };
        match self.target {
            Target::None => String::new(),
            Target::Value(value) => format!("{sign} {}", format_value(value, self.digits)),
            Target::TimesNodeRedis(times) => {
                format!("{times:.0} × {}", BenchServerKind::NodeRedis.name())
            }
        }
    }
}

/// Result of one run for one metric.
#[derive(Debug, Clone, Copy)]
struct RunResult {
    measure: &'static str,
    server: BenchServerKind,
    value: f64,
    generator_load: f64,
}

/// Results of all runs.
#[derive(Debug, Default)]
pub struct Results {
    entries: Vec<RunResult>,
}

impl Results {
    /// Records a run; `generator_load` is the part of its core that the generator used.
    pub fn record(
        &mut self,
        measure: &'static str,
        server: BenchServerKind,
        value: f64,
        busy: f64,
    ) {
        self.entries.push(RunResult {
            measure,
            server,
            value,
            generator_load: busy,
        });
    }

    fn runs(&self, measure: &str, server: BenchServerKind) -> impl Iterator<Item = &RunResult> {
        let of = move |it: &&RunResult| it.measure == measure && it.server == server;
        self.entries.iter().filter(of)
    }

    /// Median of the valid runs.
    pub fn median(&self, measure: &str, server: BenchServerKind) -> Option<f64> {
        let runs = self
            .runs(measure, server)
            .filter(|it| it.generator_load <= MAX_GENERATOR_LOAD);
        let mut values: Vec<_> = runs.map(|it| it.value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    /// Target as a number.
    pub fn target_value(&self, measure: &Metric) -> Option<f64> {
        match (measure.target, measure.better) {
            (Target::None, _) => None,
            (Target::Value(value), _) => Some(value),
            (Target::TimesNodeRedis(times), better) => {
                let redis = self.median(measure.name, BenchServerKind::NodeRedis)?;
                Some(match better {
                    Direction::HigherIsBetter => redis * times,
                    Direction::LowerIsBetter => redis / times,
                })
            }
        }
    }

    /// Factor by which Parlor is better than a peer.
    pub fn ratio(&self, measure: &Metric, peer: BenchServerKind) -> Option<f64> {
        let ours = self.median(measure.name, BenchServerKind::Parlor)?;
        let theirs = self.median(measure.name, peer)?;
        Some(match measure.better {
            Direction::HigherIsBetter => ours / theirs,
            Direction::LowerIsBetter => theirs / ours,
        })
    }

    /// Table of the medians of all servers.
    pub fn results_table(&self, measures: &[Metric]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "",
            "target",
            BenchServerKind::Parlor.name(),
            BenchServerKind::NodeStateless.name(),
            BenchServerKind::NodeRedis.name(),
            "ratio to Node",
            "ratio to Node + Redis",
        ]);
        for measure in measures {
            if self.entries.iter().all(|it| it.measure != measure.name) {
                continue;
            }
            let figure = |server| self.format_median(measure, server);
            let ratio = |peer| match self.ratio(measure, peer) {
                Some(ratio) => format!("{ratio:.1}"),
                None => String::new(),
            };
            table.add_row([
                measure.name.to_owned(),
                measure.format_target(),
                figure(BenchServerKind::Parlor),
                figure(BenchServerKind::NodeStateless),
                figure(BenchServerKind::NodeRedis),
                ratio(BenchServerKind::NodeStateless),
                ratio(BenchServerKind::NodeRedis),
            ]);
        }
        table
    }

    fn format_median(&self, measure: &Metric, server: BenchServerKind) -> String {
        match self.median(measure.name, server) {
            Some(value) => format_value(value, measure.digits),
            None if self.runs(measure.name, server).next().is_some() => "void".to_owned(),
            None => String::new(),
        }
    }

    /// Table of all runs, with the load of the generator.
    pub fn runs_table(&self, measures: &[Metric]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["", "server", "runs", "generator load, %"]);
        for measure in measures {
            for server in BenchServerKind::ALL {
                let runs: Vec<_> = self.runs(measure.name, server).collect();
                if runs.is_empty() {
                    continue;
                }
                let values = runs
                    .iter()
                    .map(|it| match it.generator_load > MAX_GENERATOR_LOAD {
                        true => format!("void ({})", format_value(it.value, measure.digits)),
                        false => format_value(it.value, measure.digits),
                    });
                let busy = runs
                    .iter()
                    .map(|it| format!("{:.0}", it.generator_load * 100.0));
                table.add_row([
                    measure.name.to_owned(),
                    server.name().to_owned(),
                    values.collect::<Vec<_>>().join(", "),
                    busy.collect::<Vec<_>>().join(", "),
                ]);
            }
        }
        table
    }
}

/// Formats a value with spaces between thousands, or with digits after the decimal point.
pub fn format_value(value: f64, digits: usize) -> String {
    match digits {
        0 => format_thousands(value),
        digits => format!("{value:.digits$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_a_busy_generator_does_not_count() {
        let mut results = Results::default();
        for (value, busy) in [(1.0, 0.5), (9.0, 0.95), (3.0, 0.5), (2.0, 0.5)] {
            results.record("rate", BenchServerKind::Parlor, value, busy);
        }
        assert_eq!(results.median("rate", BenchServerKind::Parlor), Some(2.0));
        results.record("rate", BenchServerKind::NodeStateless, 1.0, 0.95);
        assert_eq!(results.median("rate", BenchServerKind::NodeStateless), None);
    }

    #[test]
    fn a_cost_that_is_half_is_twice_as_good() {
        let mut results = Results::default();
        results.record("cost", BenchServerKind::Parlor, 2.0, 0.1);
        results.record("cost", BenchServerKind::NodeRedis, 4.0, 0.1);
        let measure = Metric {
            name: "cost",
            target: Target::TimesNodeRedis(4.0),
            better: Direction::LowerIsBetter,
            digits: 1,
        };
        assert_eq!(
            results.ratio(&measure, BenchServerKind::NodeRedis),
            Some(2.0)
        );
        assert_eq!(
            results.ratio(&measure, BenchServerKind::NodeStateless),
            None
        );
        assert_eq!(results.target_value(&measure), Some(1.0));
    }
}
