//! How far it is: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use tokio::time::Instant;

/// Between two lines.
const PAUSE: Duration = Duration::from_secs(1);
const BAR: &str = "{msg} [{bar:30}] {human_pos} of {human_len}, {per_sec}, {eta} left";

/// The progress of one part, with a pace that is kept.
pub struct Progress {
    label: String,
    unit: &'static str,
    total: u64,
    done: u64,
    /// Most per second; 0 is any.
    pace: u64,
    began: Instant,
    told: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of so many keys or rows, as far as that is known.
    pub fn new(label: &str, unit: &'static str, total: u64, pace: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(BAR);
            let bar = ProgressBar::new(total).with_message(label.to_owned());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self {
            label: label.to_owned(),
            unit,
            total,
            done: 0,
            pace,
            began: Instant::now(),
            told: None,
            bar,
        }
    }

    /// So many more are done.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        if let Some(bar) = &self.bar {
            bar.set_length(self.total.max(self.done));
            bar.set_position(self.done);
        } else if more > 0 && self.told.is_none_or(|told| told.elapsed() >= PAUSE) {
            self.told = Some(Instant::now());
            let total = HumanCount(self.total.max(self.done));
            let (done, rate) = (HumanCount(self.done), HumanCount(self.rate()));
            let (label, unit) = (&self.label, self.unit);
            eprintln!("{label}: {done} of {total} {unit}, {rate} per second");
        }
    }

    /// Waits until the pace allows more.
    pub async fn rest(&self) {
        let due = self.done.saturating_mul(1_000).checked_div(self.pace);
        if let Some(due) = due.map(Duration::from_millis) {
            tokio::time::sleep_until(self.began + due).await;
        }
    }

    /// It is done.
    pub fn end(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let (done, rate) = (HumanCount(self.done), HumanCount(self.rate()));
        let (label, unit, took) = (&self.label, self.unit, HumanDuration(self.began.elapsed()));
        eprintln!("{label}: {done} {unit} done in {took}, {rate} per second");
    }

    fn rate(&self) -> u64 {
        let took = self.began.elapsed().as_secs_f64().max(0.001);
        (self.done as f64 / took) as u64
    }
}
