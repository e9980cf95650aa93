//! Moving the database.

use parlor_chat::database::copy::{Copying, Intent, TABLES, Target};
use parlor_chat::database::{DatabaseUrl, Options};

use super::Task;
use super::progress::Progress;
use super::report::Report;
use crate::config::Config;

/// Rows of a transaction.
const PAGE: u32 = 1_000;

/// A move of the database.
pub struct Move {
    copying: Copying,
    task: Task,
    page: u32,
    report: Report,
}

impl Move {
    /// Opens both sides and refuses what would do harm.
    pub async fn open(config: &Config, from: &str, to: &str, task: Task) -> anyhow::Result<Self> {
        let options = |flag: &str, url: &str| {
            let url = DatabaseUrl::parse(url, &config.server.data);
            let url = url.map_err(|error| anyhow::anyhow!("{flag}: {error}"))?;
            anyhow::Ok(Options {
                url,
                ..config.database.clone()
            })
        };
        let (from, to) = (
            options("--from-database", from)?,
            options("--to-database", to)?,
        );
        let report = Report::new(from.url.to_string(), to.url.to_string());
        let intent = match task {
            Task { dry_run: true, .. } => Intent::Look,
            Task { verify: true, .. } => Intent::Compare,
            Task { force: true, .. } => Intent::CopyAnew,
            _ => Intent::Copy,
        };
        let used = task.force || task.dry_run;
        Ok(Self {
            copying: Copying::open(&from, &to, intent, used).await?,
            page: match u32::try_from(task.rate) {
                Ok(rate @ 1..PAGE) => rate,
                _ => PAGE,
            },
            task,
            report,
        })
    }

    /// What the database is called.
    pub fn id(&self) -> &str {
        self.copying.id()
    }

    /// Does it. The copy is complete when everything is the same.
    pub async fn run(mut self) -> anyhow::Result<Report> {
        for table in TABLES {
            let (found, there) = self.copying.count(table).await?;
            let part = self.report.part(table.name);
            part.found = found;
            part.already = there.min(found);
            if self.task.dry_run {
                part.copied = found - part.already;
            }
        }
        if !self.task.dry_run {
            let complete = self.copying.state() == Target::Complete;
            self.report.complete_before = complete;
            let copies = !complete && !self.task.verify;
            if copies {
                self.copy().await?;
            }
            self.verify().await?;
            if self.report.different == 0 && copies {
                self.copying.complete().await?;
            }
        }
        self.copying.close().await;
        Ok(self.report)
    }

    async fn copy(&mut self) -> anyhow::Result<()> {
        let parts = self.report.parts.values();
        let total = parts.map(|part| part.found - part.already).sum();
        let mut progress = Progress::new("database", "rows", total, self.task.pace());
        for table in TABLES {
            loop {
                let copied = self.copying.copy(table, self.page).await? as u64;
                if copied == 0 {
                    break;
                }
                self.report.part(table.name).copied += copied;
                progress.add(copied);
                progress.rest().await;
            }
        }
        progress.end();
        Ok(())
    }

    async fn verify(&mut self) -> anyhow::Result<()> {
        let total = self.report.parts.values().map(|part| part.found).sum();
        let mut progress = Progress::new("database, verifying", "rows", total, 0);
        for table in TABLES {
            let compared = self
                .copying
                .compare(table, PAGE, |more| progress.add(more))
                .await?;
            self.report.part(table.name).verified = compared.same;
            let unnamed = compared.different - compared.named.len() as u64;
            for named in compared.named {
                self.report.differs(named);
            }
            self.report.different += unnamed;
        }
        progress.end();
        Ok(())
    }
}
