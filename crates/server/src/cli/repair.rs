//! `parlor repair`: rebuilds store keys from the database.
//!
//! Invariant: a store that was not filled from this database is not changed.

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use parlor_chat::context::ChatContext;
use parlor_chat::database::{Database, DatabaseUrl};
use parlor_chat::unread::{CounterDifference, DifferenceKind, RepairReport, Unread};
use parlor_store::{Store, StoreUrl};

use super::store_reader::{self, query, require_store};
use super::{CommandStatus, Output};
use crate::config::{Config, LoadedConfig};

#[derive(clap::Subcommand, Debug)]
pub enum RepairCommand {
    /// Rebuild unread counters and totals from the database
    #[command(after_help = "\
Compares the unread counters, total and read positions of every user with the database, corrects
differences and reports them. Removes keys of former members. Counters of conversations that are not
in the database belong to other services: they stay, and they count in the total. On Redis it can run
while servers are running; an embedded store must not be in use. Servers do the same automatically
after a store has lost its data.

Exit codes: 0 no differences remain, 1 failure, or --dry-run found differences.

Examples:
  parlor repair unread
  parlor repair unread --dry-run --json
  parlor repair unread --store redis://cache --set database.url=postgres://db/chat")]
    Unread(RepairUnreadArgs),
}

#[derive(clap::Args, Debug)]
pub struct RepairUnreadArgs {
    /// Report differences and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(
    command: &RepairCommand,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let RepairCommand::Unread(args) = command;
    unread(args, &loaded.config, output).await
}

async fn unread(
    args: &RepairUnreadArgs,
    config: &Config,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let (store, database) = open(config).await?;
    let ctx = ChatContext::new(store.clone(), store_reader::keyspace(config)?);
    let limit = config.chat.fanout_limit;
    let report = repair(&Unread::new(ctx, database.clone(), limit), args.dry_run).await;
    database.close().await;
    store.close().await;
    let report = report?;
    if args.json {
        output.write_json(&report)?;
    } else {
        output.write_line(&report_text(&report))?;
    }
    let is_incomplete = args.dry_run && report.found() > 0 || report.failed_users > 0;
    Ok(match is_incomplete {
        true => CommandStatus::Failed,
        false => CommandStatus::Succeeded,
    })
}

/// Opens the store and the database; fails if the store was filled from another database.
pub(super) async fn open(config: &Config) -> anyhow::Result<(Store, Database)> {
    let options = &config.store;
    if options.url == StoreUrl::Embedded {
        require_store(&config.server.data_folder)?;
    }
    if let DatabaseUrl::Sqlite(path) = &config.database.url
        && !path.exists()
    {
        bail!(
            "there is no database at {}; choose another with --database",
            path.display()
        );
    }
    let database = Database::open(config.database.clone()).await?;
    let store = Store::open(options.clone())
        .await
        .context("cannot open the store; if a server uses it, stop the server")?;
    let key = store_reader::keyspace(config)?.database_id();
    let owner: Option<String> = query(&store, redis::cmd("GET").arg(&key)).await?;
    match owner {
        Some(id) if id == database.id() => Ok((store, database)),
        Some(_) => bail!("the store was filled from another database ({key}); use that database"),
        None => bail!(
            "the store was not filled from a database yet ({key} is missing); run `parlor serve` with both once"
        ),
    }
}

async fn repair(unread: &Unread, dry_run: bool) -> anyhow::Result<RepairReport> {
    // Without a terminal the bar is hidden.
    let bar = ProgressBar::new(0);
    let style = "{bar:40} {pos} of {len} users, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?);
    let report = unread.repair(dry_run, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    let report = report.await;
    bar.finish_and_clear();
    Ok(report?)
}

fn report_text(report: &RepairReport) -> String {
    let mut lines = Vec::new();
    for difference in &report.differences {
        lines.push(difference_line(difference));
    }
    let found = report.found();
    let listed = report.differences.len() as u64;
    if found > listed {
        lines.push(format!("… and {} more", found - listed));
    }
    let done = match (found, report.dry_run) {
        (0, _) if report.failed_users == 0 => "no differences".to_owned(),
        (_, true) => "nothing was changed".to_owned(),
        (_, false) if report.failed_users > 0 => format!(
            "the keys of {} users could not be corrected; the log names them",
            report.failed_users
        ),
        (_, false) => "all differences were corrected".to_owned(),
    };
    lines.push(format!(
        "{} users, {} of them with differences: {} counters, {} totals, {} positions, {} stray keys; {done}",
        report.users, report.users_with_differences, report.counters, report.totals, report.positions, report.orphans
    ));
    lines.join("\n")
}

fn difference_line(difference: &CounterDifference) -> String {
    let kind = match difference.what {
        DifferenceKind::Counter => "counter",
        DifferenceKind::Total => "total",
        DifferenceKind::Position => "position",
        DifferenceKind::Orphan => "stray key",
    };
    let user = &difference.user_id;
    let conversation = difference.conversation_id.as_deref();
    let conversation =
        conversation.map_or(String::new(), |conversation| format!(" in {conversation}"));
    let found = difference.found.as_deref().unwrap_or("nothing");
    format!(
        "{kind} of {user}{conversation}: found {found}, expected {}",
        difference.expected
    )
}
