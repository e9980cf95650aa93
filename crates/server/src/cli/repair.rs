//! `parlor repair`: set keys right by the rows.
//!
//! Always true: nothing is changed in a store that was not filled from this database.

use std::io::{IsTerminal, stderr};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parlor_chat::context::Context;
use parlor_chat::database::{Database, DatabaseUrl};
use parlor_chat::unread::{Difference, Report, Unread, What};
use parlor_store::{Store, StoreUrl};

use super::reader::{self, has_store};
use super::{Outcome, Output};
use crate::config::{Config, Loaded};

/// What `repair` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Set unread counters and totals right by the rows of the database
    #[command(after_help = "\
Every user's counters, total and positions are held against the database; what differs is set right
and reported, and keys of those who are no members are removed. It may run beside a server on Redis;
an embedded store has to be free. Servers do this by themselves when a store lost its data.

Exit codes: 0 all is right now, 1 failed, or --dry-run found something to mend.

Examples:
  parlor repair unread
  parlor repair unread --dry-run --json
  parlor repair unread --store redis://cache --set database.url=postgres://db/chat")]
    Unread(Unreads),
}

#[derive(clap::Args, Debug)]
struct Unreads {
    /// Report what differs and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub async fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Unread(args) => unread(args, &loaded.config, output).await,
    }
}

async fn unread(args: &Unreads, config: &Config, output: &mut Output) -> anyhow::Result<Outcome> {
    let (store, database) = open(config).await?;
    let ctx = Context::new(store.clone(), reader::keyspace(config)?);
    let limit = config.chat.fanout_limit;
    let report = repair(&Unread::new(ctx, database.clone(), limit), args.dry_run).await;
    database.close().await;
    store.close().await;
    let report = report?;
    if args.json {
        output.json(&report)?;
    } else {
        output.line(&text(&report))?;
    }
    Ok(match args.dry_run && report.found() > 0 {
        true => Outcome::Failed,
        false => Outcome::Done,
    })
}

/// The store and the database, if they belong together.
async fn open(config: &Config) -> anyhow::Result<(Store, Database)> {
    let options = &config.store.options;
    if options.url == StoreUrl::Embedded && !has_store(&config.server.data) {
        bail!(
            "there is no store in {} yet; start one with `parlor serve`, or name another with --data or --store",
            config.server.data.display()
        );
    }
    if let DatabaseUrl::Sqlite(path) = &config.database.url
        && !path.exists()
    {
        bail!(
            "there is no database at {}; name it with --set database.url=…",
            path.display()
        );
    }
    let database = Database::open(config.database.clone()).await?;
    let store = Store::open(options.clone())
        .await
        .context("the store cannot be opened; end the server that uses it")?;
    let key = reader::keyspace(config)?.database();
    let owner: Option<String> = redis::cmd("GET")
        .arg(&key)
        .query_async(&mut store.clone())
        .await?;
    match owner {
        Some(id) if id == database.id() => Ok((store, database)),
        Some(_) => bail!("the store was filled from another database ({key}); use that one"),
        None => bail!(
            "the store was filled from no database yet ({key} is missing); run `parlor serve` on both once"
        ),
    }
}

async fn repair(unread: &Unread, dry_run: bool) -> anyhow::Result<Report> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
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

fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    for difference in &report.differences {
        lines.push(line(difference));
    }
    let found = report.found();
    let told = report.differences.len() as u64;
    if found > told {
        lines.push(format!("… and {} more", found - told));
    }
    let done = match (found, report.dry_run) {
        (0, _) => "nothing differs".to_owned(),
        (_, true) => "nothing was changed".to_owned(),
        (_, false) => "all set right".to_owned(),
    };
    lines.push(format!(
        "{} users, {} of them with differences: {} counters, {} totals, {} positions, {} stray keys; {done}",
        report.users, report.differing, report.counters, report.totals, report.positions, report.strays
    ));
    lines.join("\n")
}

fn line(difference: &Difference) -> String {
    let what = match difference.what {
        What::Counter => "counter",
        What::Total => "total",
        What::Position => "position",
        What::Stray => "stray key",
    };
    let user = &difference.user_id;
    let place = difference.conversation_id.as_deref();
    let place = place.map_or(String::new(), |conversation| format!(" in {conversation}"));
    let found = difference.found.as_deref().unwrap_or("nothing");
    format!(
        "{what} of {user}{place}: found {found}, expected {}",
        difference.expected
    )
}
