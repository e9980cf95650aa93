//! `parlor migrate-store`: copies the store, the database or both to other servers.
//!
//! Invariants:
//! 1. The source is not changed. The target is not usable before all of it was compared with the source.
//! 2. An interrupted migration continues where it stopped when the same command is run again.

mod copy_key;
mod copy_value;
mod database;
mod key_mapping;
mod report;
mod store;
mod store_pair;

use serde_json::json;

use super::{CommandStatus, Output};
use crate::config::LoadedConfig;
use database::DatabaseMigration;
use report::MigrationReport;
use store::StoreMigration;
use store_pair::StorePair;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Stop every server first. The source is not changed; servers do not start with the target until all
of it was copied and compared. If the migration is interrupted, run the same command again: it
continues where it stopped. embedded: and sqlite: are in the data folder (--data). Key names and
layouts are those of the configuration; for a Redis Cluster, names get hash tags. Short-lived keys
are not copied: leases of nodes, typing indicators, cached results.

Complete migration, from one machine to Redis and PostgreSQL:
  systemctl stop parlor
  parlor migrate-store --data /var/lib/parlor \\
    --from embedded: --to redis://:secret@cache:6379/0 \\
    --from-database sqlite: --to-database postgres://parlor:secret@db/parlor
  parlor serve --store redis://:secret@cache:6379/0 --database postgres://parlor:secret@db/parlor

More examples:
  parlor migrate-store --from embedded: --to redis://cache --dry-run
  parlor migrate-store --from redis://cache --to redis+cluster://c1:7000,c2:7000
  parlor migrate-store --from-database sqlite: --to-database postgres://db/parlor --verify

Exit codes: 0 copied and verified, 1 failure or differences, 2 invalid usage or configuration.")]
#[command(group = clap::ArgGroup::new("what").args(["from", "from_database"]).required(true).multiple(true))]
pub struct Args {
    /// URL of the current store: embedded:, redis://, redis+sentinel:// or redis+cluster://
    #[arg(long, value_name = "URL", requires = "to")]
    from: Option<String>,
    /// URL of the new store
    #[arg(long, value_name = "URL", requires = "from")]
    to: Option<String>,
    /// URL of the current database: sqlite:, sqlite:FILE or postgres://
    #[arg(long, value_name = "URL", requires = "to_database")]
    from_database: Option<String>,
    /// URL of the new database
    #[arg(long, value_name = "URL", requires = "from_database")]
    to_database: Option<String>,
    /// Key prefix in the new store; default: keys.prefix
    #[arg(long, value_name = "TEXT", requires = "to")]
    to_prefix: Option<String>,
    /// Also copy keys that Parlor does not declare
    #[arg(long, requires = "from")]
    all: bool,
    /// Count what would be copied; change nothing. Servers may be running
    #[arg(long, conflicts_with_all = ["verify", "force"])]
    dry_run: bool,
    /// Compare an earlier copy with its source; change nothing
    #[arg(long, conflicts_with = "force")]
    verify: bool,
    /// Skip the check for running servers, overwrite keys in the target, restart a half-copied database
    #[arg(long)]
    force: bool,
    /// Maximum number of keys or rows copied per second; 0 = unlimited
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    rate: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of a migration.
#[derive(Debug, Clone, Copy)]
pub struct MigrationOptions {
    dry_run: bool,
    verify: bool,
    force: bool,
    /// Maximum number of keys or rows per second; 0 = unlimited.
    max_per_second: u64,
}

/// The arguments that concern the store.
pub struct StoreArgs<'a> {
    from: &'a str,
    to: &'a str,
    to_prefix: Option<&'a str>,
    all: bool,
}

pub async fn run(
    args: &Args,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let config = &loaded.config;
    let options = MigrationOptions {
        dry_run: args.dry_run,
        verify: args.verify,
        force: args.force,
        max_per_second: args.rate,
    };
    // Both are opened before anything is copied, so that an unsuitable store or database is rejected at once.
    let stores = match (&args.from, &args.to) {
        (Some(from), Some(to)) => {
            let args = StoreArgs {
                from,
                to,
                to_prefix: args.to_prefix.as_deref(),
                all: args.all,
            };
            Some(StorePair::open(loaded, &args, options).await?)
        }
        _ => None,
    };
    let database = match (&args.from_database, &args.to_database) {
        (Some(from), Some(to)) => Some(DatabaseMigration::open(config, from, to, options).await?),
        _ => None,
    };
    let id = database.as_ref().map(|database| database.id().to_owned());
    let store = match stores {
        Some(stores) => Some(StoreMigration::open(stores, options, id.as_deref()).await?),
        None => None,
    };
    let mut result = MigrationResult::default();
    if let Some(database) = database {
        result.database = Some(database.run().await?);
    }
    // The store is not copied if the copy of the database differs: its counters would not match.
    if let Some(store) = store
        && (args.verify || result.different() == 0)
    {
        result.store = Some(store.run().await?);
    }
    result.print(args, output)?;
    Ok(match result.different() {
        0 => CommandStatus::Succeeded,
        _ => CommandStatus::Failed,
    })
}

/// Reports of a migration.
#[derive(Default)]
struct MigrationResult {
    database: Option<MigrationReport>,
    store: Option<MigrationReport>,
}

impl MigrationResult {
    fn different(&self) -> u64 {
        let all = self.database.iter().chain(&self.store);
        all.map(|report| report.different).sum()
    }

    fn print(&self, args: &Args, output: &mut Output) -> anyhow::Result<()> {
        let different = self.different();
        if args.json {
            return output.write_json(&json!({
                "database": self.database,
                "store": self.store,
                "dryRun": args.dry_run,
                "same": !args.dry_run && different == 0,
            }));
        }
        if let Some(report) = &self.database {
            report.print("TABLE", output)?;
        }
        if let Some(report) = &self.store {
            report.print("CAPABILITY", output)?;
        }
        output.write_line(&match (different, args.dry_run, args.verify) {
            (_, true, _) => "nothing was changed".to_owned(),
            (0, _, true) => "the copy is identical to its source".to_owned(),
            (0, ..) => format!("moved and verified; start the servers with{}", self.server_flags()),
            (different, ..) => format!(
                "{different} keys or rows differ: the source or the target was changed since the copy began. Run the command again; to restart a half-copied database, add --force"
            ),
        })
    }

    /// Flags that the servers have to be started with, without passwords.
    fn server_flags(&self) -> String {
        let flag = |name: &str, report: &Option<MigrationReport>| {
            let url = report.as_ref().map(|report| &report.to);
            url.map_or(String::new(), |url| format!(" --{name} {url}"))
        };
        flag("store", &self.store) + &flag("database", &self.database)
    }
}
