//! `parlor import`: brings users, conversations and messages from a file into the database.
//!
//! Invariants:
//! 1. The whole file is checked before anything is written.
//! 2. No server uses the store or the database, and none starts before the import is complete.
//! 3. No event is published.

mod report;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::report::ImportReport;
use super::progress::TaskProgress;
use super::store_reader::{self, find_live_node};
use super::{CommandStatus, Output};
use crate::config::{Config, LoadedConfig};
use anyhow::{Context as _, bail};
use parlor_chat::context::{ChatContext, Timestamp};
use parlor_chat::database::DatabaseOptions;
use parlor_chat::keys::TtlName;
use parlor_chat::transfer::{
    FileCheck, FileFormat, Import, ImportError, ImportLimits, PAGE_SIZE, RecordReader,
    TransferError, bind_store, check_file, find_unknown_conversations, refresh_caches,
};
use parlor_embedded::{Clock as _, SystemClock};
use parlor_store::{Store, StoreKind};

/// Minimum timeout of a statement, because the last ones read whole tables.
const MIN_STATEMENT_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(clap::Args, Debug)]
#[command(after_help = "\
The file has one JSON object per line; docs/guide/importing.md describes the format. Stop every
server first. The command checks the whole file before it writes anything, and names the lines that
must be corrected. Messages keep their order and their times, and no event is published. If the
import is interrupted, run the same command again: it continues where it stopped, and no server
starts before it is complete. A second import of the same file changes nothing.

Examples:
  parlor import chat.jsonl --dry-run
  parlor import chat.jsonl
  parlor import chat.jsonl --store redis://cache --database postgres://db/parlor

Exit codes: 0 imported, 1 failure or invalid lines, 2 invalid usage or configuration.")]
pub struct Args {
    /// File to import
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Check the file; change nothing. Servers may be running
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(
    args: &Args,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let config = &loaded.config;
    let limits = ImportLimits {
        messages: config.chat.messages.clone(),
        now: Timestamp(SystemClock.now_ms()),
    };
    let database = DatabaseOptions {
        timeout: config.database.timeout.max(MIN_STATEMENT_TIMEOUT),
        ..config.database.clone()
    };
    let check = check(&args.file, &limits, &database).await?;
    let mut report = ImportReport::new(args, &database, &check);
    if report.problem_count > 0 || args.dry_run {
        report.print(args, output)?;
        return Ok(match report.problem_count {
            0 => CommandStatus::Succeeded,
            _ => CommandStatus::Failed,
        });
    }
    let store = open_unused_store(config).await?;
    let ctx = ChatContext::new(store.clone(), store_reader::keyspace(config)?);
    let imported = import(
        &args.file,
        config,
        &ctx,
        database,
        check.format,
        limits,
        &mut report,
    );
    let imported = imported.await;
    store.close().await;
    match imported {
        Ok(()) => {}
        // Unlike the others, this problem is only seen beside the rows of the database.
        Err(ImportError::Line(problem)) => report.add_problem(&problem),
        Err(ImportError::Transfer(error)) => return Err(error.into()),
    }
    report.print(args, output)?;
    Ok(match report.problem_count {
        0 => CommandStatus::Succeeded,
        _ => CommandStatus::Failed,
    })
}

fn open_file(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

/// Checks the whole file, and looks up conversations that it does not contain.
async fn check(
    path: &Path,
    limits: &ImportLimits,
    database: &DatabaseOptions,
) -> anyhow::Result<FileCheck> {
    let input = open_file(path)?;
    let size = input.get_ref().metadata()?.len();
    let mut progress = TaskProgress::new("checking the file", "bytes", size, 0);
    let mut done = 0;
    let checked = check_file(input, limits, |bytes| {
        progress.add(bytes - done);
        done = bytes;
    });
    let mut checked = checked.with_context(|| format!("cannot read {}", path.display()))?;
    progress.finish();
    let others = std::mem::take(&mut checked.other_conversations);
    for unknown in find_unknown_conversations(database, others).await? {
        checked.problems.push(unknown.into());
    }
    checked.problems.first.sort_by_key(|problem| problem.line);
    Ok(checked)
}

/// Opens the store, which locks an embedded one. Fails if servers use it.
async fn open_unused_store(config: &Config) -> anyhow::Result<Store> {
    let store = Store::open(config.store.clone()).await;
    let store = store.context("cannot open the store; if a server uses it, stop the server")?;
    if store.kind() != StoreKind::Embedded {
        let keys = store_reader::keyspace(config)?;
        if let Some(node) = find_live_node(&store, &keys).await? {
            store.close().await;
            bail!(
                "the store {} is in use by the node {node}; stop every server, then run the import again (a killed server counts as running for {} s)",
                config.store.url,
                keys.ttl(TtlName::NodeLease).as_secs()
            );
        }
    }
    Ok(store)
}

/// Imports a checked file.
async fn import(
    path: &Path,
    config: &Config,
    ctx: &ChatContext,
    database: DatabaseOptions,
    format: FileFormat,
    limits: ImportLimits,
    report: &mut ImportReport,
) -> Result<(), ImportError> {
    let mut import = Import::open(database, format, limits).await?;
    report.resumed = import.resumes();
    let done = match bind_store(ctx, import.database()).await {
        Ok(()) => write_pages(&mut import, path, report).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = done {
        import.abandon().await?;
        return Err(error);
    }
    import.complete_rows().await?;
    let bar = indicatif::ProgressBar::new(0).with_message("updating the store");
    let style = indicatif::ProgressStyle::with_template("{msg} {pos} of {len} users");
    bar.set_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()));
    let refreshed = refresh_caches(
        ctx,
        import.database(),
        config.chat.fanout_limit,
        |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        },
    );
    refreshed.await?;
    bar.finish_and_clear();
    Ok(import.complete().await?)
}

async fn write_pages(
    import: &mut Import,
    path: &Path,
    report: &mut ImportReport,
) -> Result<(), ImportError> {
    let file = File::open(path).map_err(TransferError::from)?;
    let mut reader = RecordReader::new(BufReader::with_capacity(1 << 20, file));
    let mut progress = TaskProgress::new("import", "records", report.total, 0);
    loop {
        let page = reader.next_page(PAGE_SIZE);
        let page = page.map_err(TransferError::from)??;
        if page.is_empty() {
            progress.finish();
            return Ok(());
        }
        report.counts.merge(&import.write_page(&page).await?);
        progress.add(page.len() as u64);
    }
}
