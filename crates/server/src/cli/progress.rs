//! Progress of a long task on stderr: a bar on a terminal, otherwise a line every second.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use tokio::time::Instant;

/// Minimum time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
const BAR_TEMPLATE: &str = "{msg} [{bar:30}] {human_pos} of {human_len}, {per_sec}, {eta} left";

/// Progress of one step of a task, with an optional limit of its rate.
pub struct TaskProgress {
    label: String,
    unit: &'static str,
    total: u64,
    done: u64,
    /// Maximum per second; 0 = unlimited.
    max_per_second: u64,
    started_at: Instant,
    last_line_at: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl TaskProgress {
    /// `total` is an estimate.
    pub fn new(label: &str, unit: &'static str, total: u64, max_per_second: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(BAR_TEMPLATE);
            let bar = ProgressBar::new(total).with_message(label.to_owned());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self {
            label: label.to_owned(),
            unit,
            total,
            done: 0,
            max_per_second,
            started_at: Instant::now(),
            last_line_at: None,
            bar,
        }
    }

    /// Adds finished keys, rows, records or bytes.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        if let Some(bar) = &self.bar {
            bar.set_length(self.total.max(self.done));
            bar.set_position(self.done);
        } else if more > 0
            && self
                .last_line_at
                .is_none_or(|last| last.elapsed() >= LINE_INTERVAL)
        {
            self.last_line_at = Some(Instant::now());
            let total = HumanCount(self.total.max(self.done));
            let (done, rate) = (HumanCount(self.done), HumanCount(self.rate()));
            let (label, unit) = (&self.label, self.unit);
            eprintln!("{label}: {done} of {total} {unit}, {rate} per second");
        }
    }

    /// Waits until the rate limit allows more.
    pub async fn throttle(&self) {
        let due = self
            .done
            .saturating_mul(1_000)
            .checked_div(self.max_per_second);
        if let Some(due) = due.map(Duration::from_millis) {
            tokio::time::sleep_until(self.started_at + due).await;
        }
    }

    /// Prints the final line.
    pub fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let (done, rate) = (HumanCount(self.done), HumanCount(self.rate()));
        let (label, unit, took) = (
            &self.label,
            self.unit,
            HumanDuration(self.started_at.elapsed()),
        );
        eprintln!("{label}: {done} {unit} done in {took}, {rate} per second");
    }

    fn rate(&self) -> u64 {
        let took = self.started_at.elapsed().as_secs_f64().max(0.001);
        (self.done as f64 / took) as u64
    }
}
