//! Copies the database.

use parlor_chat::database::copy::{CopyMode, CopyProgress, DatabaseCopy, TABLES};
use parlor_chat::database::{DatabaseOptions, DatabaseUrl};

use super::MigrationOptions;
use super::progress::MigrationProgress;
use super::report::MigrationReport;
use crate::config::Config;

/// Rows per transaction.
const PAGE: u32 = 1_000;

/// Migration of the database.
pub struct Move {
    copy: DatabaseCopy,
    task: MigrationOptions,
    page: u32,
    report: MigrationReport,
}

impl Move {
    /// Opens both databases and rejects those that must not be used.
    pub async fn open(
        config: &Config,
        from: &str,
        to: &str,
        task: MigrationOptions,
    ) -> anyhow::Result<Self> {
        let options = |flag: &str, url: &str| {
            let url = DatabaseUrl::parse(url, &config.server.data_folder);
            let url = url.map_err(|error| anyhow::anyhow!("{flag}: {error}"))?;
            anyhow::Ok(DatabaseOptions {
                url,
                ..config.database.clone()
            })
        };
        let (from, to) = (
            options("--from-database", from)?,
            options("--to-database", to)?,
        );
        let report = MigrationReport::new(from.url.to_string(), to.url.to_string());
        let intent = match task {
            MigrationOptions { dry_run: true, .. } => CopyMode::DryRun,
            MigrationOptions { verify: true, .. } => CopyMode::Verify,
            MigrationOptions { force: true, .. } => CopyMode::Restart,
            _ => CopyMode::Copy,
        };
        let used = task.force || task.dry_run;
        Ok(Self {
            copy: DatabaseCopy::open(&from, &to, intent, used).await?,
            page: match u32::try_from(task.rate) {
                Ok(rate @ 1..PAGE) => rate,
                _ => PAGE,
            },
            task,
            report,
        })
    }

    /// Id of the database.
    pub fn id(&self) -> &str {
        self.copy.id()
    }

    /// Runs the migration. The copy is complete when all rows are equal.
    pub async fn run(mut self) -> anyhow::Result<MigrationReport> {
        for table in TABLES {
            let (found, there) = self.copy.count(table).await?;
            let part = self.report.part(table.name);
            part.found = found;
            part.already = there.min(found);
            if self.task.dry_run {
                part.copied = found - part.already;
            }
        }
        if !self.task.dry_run {
            let complete = self.copy.earlier_progress() == CopyProgress::Complete;
            self.report.complete_before = complete;
            let copies = !complete && !self.task.verify;
            if copies {
                self.copy().await?;
            }
            self.verify().await?;
            if self.report.different == 0 && copies {
                self.copy.complete().await?;
            }
        }
        self.copy.close().await;
        Ok(self.report)
    }

    async fn copy(&mut self) -> anyhow::Result<()> {
        let parts = self.report.parts.values();
        let total = parts.map(|part| part.found - part.already).sum();
        let mut progress =
            MigrationProgress::new("database", "rows", total, self.task.max_per_second());
        for table in TABLES {
            loop {
                let copied = self.copy.copy(table, self.page).await? as u64;
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
        let mut progress = MigrationProgress::new("database, verifying", "rows", total, 0);
        for table in TABLES {
            let compared = self
                .copy
                .compare(table, PAGE, |more| progress.add(more))
                .await?;
            self.report.part(table.name).verified = compared.equal_rows;
            let unnamed = compared.different_rows - compared.named.len() as u64;
            for named in compared.named {
                self.report.differs(named);
            }
            self.report.different += unnamed;
        }
        progress.end();
        Ok(())
    }
}
