//! Copies the database.

use parlor_chat::database::copy::{CopyMode, CopyProgress, DatabaseCopy, TABLES};
use parlor_chat::database::{DatabaseOptions, DatabaseUrl};

use super::super::progress::TaskProgress;
use super::MigrationOptions;
use super::report::MigrationReport;
use crate::config::Config;

/// Rows per transaction.
const ROWS_PER_BATCH: u32 = 1_000;

/// Migration of the database.
pub struct DatabaseMigration {
    copy: DatabaseCopy,
    options: MigrationOptions,
    page: u32,
    report: MigrationReport,
}

impl DatabaseMigration {
    /// Opens both databases and rejects those that must not be used.
    pub async fn open(
        config: &Config,
        from: &str,
        to: &str,
        migration: MigrationOptions,
    ) -> anyhow::Result<Self> {
        let database_options = |flag: &str, url: &str| {
            let url = DatabaseUrl::parse(url, &config.server.data_folder);
            let url = url.map_err(|error| anyhow::anyhow!("{flag}: {error}"))?;
            anyhow::Ok(DatabaseOptions {
                url,
                ..config.database.clone()
            })
        };
        let (from, to) = (
            database_options("--from-database", from)?,
            database_options("--to-database", to)?,
        );
        let report = MigrationReport::new(from.url.to_string(), to.url.to_string());
        let intent = match migration {
            MigrationOptions { dry_run: true, .. } => CopyMode::DryRun,
            MigrationOptions { verify: true, .. } => CopyMode::Verify,
            MigrationOptions { force: true, .. } => CopyMode::Restart,
            _ => CopyMode::Copy,
        };
        let used = migration.force || migration.dry_run;
        Ok(Self {
            copy: DatabaseCopy::open(&from, &to, intent, used).await?,
            page: match u32::try_from(migration.max_per_second) {
                Ok(rate @ 1..ROWS_PER_BATCH) => rate,
                _ => ROWS_PER_BATCH,
            },
            options: migration,
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
            let counts = self.report.counts_of(table.name);
            counts.found = found;
            counts.unchanged = there.min(found);
            if self.options.dry_run {
                counts.copied = found - counts.unchanged;
            }
        }
        if !self.options.dry_run {
            let complete = self.copy.earlier_progress() == CopyProgress::Complete;
            self.report.complete_before = complete;
            let copies = !complete && !self.options.verify;
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
        let total = parts.map(|part| part.found - part.unchanged).sum();
        let mut progress =
            TaskProgress::new("database", "rows", total, self.options.max_per_second);
        for table in TABLES {
            loop {
                let copied = self.copy.copy(table, self.page).await? as u64;
                if copied == 0 {
                    break;
                }
                self.report.counts_of(table.name).copied += copied;
                progress.add(copied);
                progress.throttle().await;
            }
        }
        progress.finish();
        Ok(())
    }

    async fn verify(&mut self) -> anyhow::Result<()> {
        let total = self.report.parts.values().map(|part| part.found).sum();
        let mut progress = TaskProgress::new("database, verifying", "rows", total, 0);
        for table in TABLES {
            let compared = self
                .copy
                .compare(table, ROWS_PER_BATCH, |more| progress.add(more))
                .await?;
            self.report.counts_of(table.name).verified = compared.equal_rows;
            let unnamed = compared.different_rows - compared.examples.len() as u64;
            for named in compared.examples {
                self.report.add_difference(named);
            }
            self.report.different += unnamed;
        }
        progress.finish();
        Ok(())
    }
}
