//! Measures rates, CPU time, memory and disk writes.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

/// Cost of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunCost {
    /// Completed operations.
    pub operations: u64,
    /// Wall-clock time.
    pub wall: Duration,
    /// CPU time of this process.
    pub cpu: Duration,
}

impl RunCost {
    /// Operations per second.
    pub fn ops_per_second(&self) -> f64 {
        self.operations as f64 / self.wall.as_secs_f64()
    }

    /// CPU microseconds of this process per operation.
    pub fn cpu_micros_per_op(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operations as f64
    }
}

/// CPU time that this process has used so far.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// CPU time that the threads of this process with this name have used so far.
pub fn thread_cpu_time(name: &str) -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm"))?.trim_end() == name {
            let figures = fs::read_to_string(task.join("schedstat"))?;
            let on_cpu = figures.split_whitespace().next();
            nanos += on_cpu
                .context("the kernel does not report CPU time")?
                .parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(nanos))
}

/// Resident memory of a process in bytes; `self` is this process.
pub fn resident(process: &str) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes
        .context("the kernel does not report VmRSS")?
        .parse::<u64>()?
        * 1_024)
}

/// Bytes that a process has written to disk so far; `self` is this process.
pub fn disk_bytes_written(process: &str) -> anyhow::Result<u64> {
    let figures = fs::read_to_string(format!("/proc/{process}/io"))?;
    let line = figures
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line
        .context("the kernel does not report write_bytes")?
        .parse()?)
}

/// Measures work that returns the number of its operations.
pub async fn measure_cost(
    work: impl Future<Output = anyhow::Result<u64>>,
) -> anyhow::Result<RunCost> {
    let (started, cpu) = (Instant::now(), cpu_time());
    let operations = work.await?;
    Ok(RunCost {
        operations,
        wall: started.elapsed(),
        cpu: cpu_time() - cpu,
    })
}

/// Returns the run with the median rate.
pub fn median_by_rate(mut runs: Vec<RunCost>) -> RunCost {
    runs.sort_by(|a, b| a.ops_per_second().total_cmp(&b.ops_per_second()));
    runs[runs.len() / 2]
}

/// Formats a number with a space between thousands.
pub fn format_thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
