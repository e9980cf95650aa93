//! What was measured, run by run, and the tables made of it.
//!
//! Always true: a figure is the median of the runs that count; a run in which the generator was busier than [`BUSY`] does not.

use comfy_table::{Table, presets};

use super::servers::Kind;
use crate::measure::grouped;

/// The generator, of its core.
pub const BUSY: f64 = 0.9;

/// One thing that is measured.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    pub name: &'static str,
    /// What Parlor aims at.
    pub aim: Aim,
    pub better: Better,
    /// Digits after the point.
    pub digits: usize,
}

/// What Parlor aims at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    None,
    /// So much, or better.
    Of(f64),
    /// So many times as good as Node with Redis in the same run.
    TimesRedis(f64),
}

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

impl Measure {
    /// The aim in words.
    fn wish(&self) -> String {
        let sign = match self.better {
            Better::More => "≥",
            Better::Less => "≤",
        };
        match self.aim {
            Aim::None => String::new(),
            Aim::Of(value) => format!("{sign} {}", shown(value, self.digits)),
            Aim::TimesRedis(times) => format!("{times:.0} × {}", Kind::Redis.name()),
        }
    }
}

/// One run of one measure.
#[derive(Debug, Clone, Copy)]
struct Entry {
    measure: &'static str,
    server: Kind,
    value: f64,
    busy: f64,
}

/// All runs.
#[derive(Debug, Default)]
pub struct Book {
    entries: Vec<Entry>,
}

impl Book {
    /// Writes a run down; `busy` is the generator's part of its core.
    pub fn note(&mut self, measure: &'static str, server: Kind, value: f64, busy: f64) {
        self.entries.push(Entry {
            measure,
            server,
            value,
            busy,
        });
    }

    fn runs(&self, measure: &str, server: Kind) -> impl Iterator<Item = &Entry> {
        let of = move |it: &&Entry| it.measure == measure && it.server == server;
        self.entries.iter().filter(of)
    }

    /// The median of what counts.
    pub fn median(&self, measure: &str, server: Kind) -> Option<f64> {
        let runs = self.runs(measure, server).filter(|it| it.busy <= BUSY);
        let mut values: Vec<_> = runs.map(|it| it.value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    /// The figure that Parlor aims at.
    pub fn aim(&self, measure: &Measure) -> Option<f64> {
        match (measure.aim, measure.better) {
            (Aim::None, _) => None,
            (Aim::Of(value), _) => Some(value),
            (Aim::TimesRedis(times), better) => {
                let redis = self.median(measure.name, Kind::Redis)?;
                Some(match better {
                    Better::More => redis * times,
                    Better::Less => redis / times,
                })
            }
        }
    }

    /// How many times as good as a peer Parlor is.
    pub fn ratio(&self, measure: &Measure, peer: Kind) -> Option<f64> {
        let ours = self.median(measure.name, Kind::Parlor)?;
        let theirs = self.median(measure.name, peer)?;
        Some(match measure.better {
            Better::More => ours / theirs,
            Better::Less => theirs / ours,
        })
    }

    /// The figures side by side.
    pub fn figures(&self, measures: &[Measure]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "",
            "aim",
            Kind::Parlor.name(),
            Kind::Plain.name(),
            Kind::Redis.name(),
            "times as good as Node",
            "as Node + Redis",
        ]);
        for measure in measures {
            if self.entries.iter().all(|it| it.measure != measure.name) {
                continue;
            }
            let figure = |server| self.figure(measure, server);
            let ratio = |peer| match self.ratio(measure, peer) {
                Some(ratio) => format!("{ratio:.1}"),
                None => String::new(),
            };
            table.add_row([
                measure.name.to_owned(),
                measure.wish(),
                figure(Kind::Parlor),
                figure(Kind::Plain),
                figure(Kind::Redis),
                ratio(Kind::Plain),
                ratio(Kind::Redis),
            ]);
        }
        table
    }

    fn figure(&self, measure: &Measure, server: Kind) -> String {
        match self.median(measure.name, server) {
            Some(value) => shown(value, measure.digits),
            None if self.runs(measure.name, server).next().is_some() => "void".to_owned(),
            None => String::new(),
        }
    }

    /// Every run, and how busy the generator was.
    pub fn runs_table(&self, measures: &[Measure]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["", "server", "runs", "generator busy, %"]);
        for measure in measures {
            for server in Kind::ALL {
                let runs: Vec<_> = self.runs(measure.name, server).collect();
                if runs.is_empty() {
                    continue;
                }
                let values = runs.iter().map(|it| match it.busy > BUSY {
                    true => format!("void ({})", shown(it.value, measure.digits)),
                    false => shown(it.value, measure.digits),
                });
                let busy = runs.iter().map(|it| format!("{:.0}", it.busy * 100.0));
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

/// A figure with thousands apart or digits after the point.
pub fn shown(value: f64, digits: usize) -> String {
    match digits {
        0 => grouped(value),
        digits => format!("{value:.digits$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_a_busy_generator_does_not_count() {
        let mut book = Book::default();
        for (value, busy) in [(1.0, 0.5), (9.0, 0.95), (3.0, 0.5), (2.0, 0.5)] {
            book.note("rate", Kind::Parlor, value, busy);
        }
        assert_eq!(book.median("rate", Kind::Parlor), Some(2.0));
        book.note("rate", Kind::Plain, 1.0, 0.95);
        assert_eq!(book.median("rate", Kind::Plain), None);
    }

    #[test]
    fn a_cost_that_is_half_is_twice_as_good() {
        let mut book = Book::default();
        book.note("cost", Kind::Parlor, 2.0, 0.1);
        book.note("cost", Kind::Redis, 4.0, 0.1);
        let measure = Measure {
            name: "cost",
            aim: Aim::TimesRedis(4.0),
            better: Better::Less,
            digits: 1,
        };
        assert_eq!(book.ratio(&measure, Kind::Redis), Some(2.0));
        assert_eq!(book.ratio(&measure, Kind::Plain), None);
        assert_eq!(book.aim(&measure), Some(1.0));
    }
}
