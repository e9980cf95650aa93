//! `parlor export`: writes everything that the database holds for users to a file.
//!
//! Invariants:
//! 1. The file has its name only when it is complete.
//! 2. Nothing is written to the database, so servers may be running.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use parlor_chat::transfer::{Export, RecordCounts, RecordType, TransferError};
use serde_json::json;

use super::output::ClosedPipe;
use super::progress::TaskProgress;
use super::{CommandStatus, Output};
use crate::config::LoadedConfig;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Writes one JSON object per line: users, sessions, conversations, members, messages, mentions and
read positions. docs/guide/importing.md describes the format. Servers may be running: the file is a
snapshot of one moment. It contains the messages of all users, so only you can read it.

Examples:
  parlor export --output chat.jsonl
  parlor export --database postgres://db/parlor | gzip > chat.jsonl.gz

Exit codes: 0 exported, 1 failure, 2 invalid usage or configuration.")]
pub struct Args {
    /// Write to this file; default: standard output. An existing file is replaced when the export is complete
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print a summary as JSON
    #[arg(long, requires = "output")]
    json: bool,
}

pub async fn run(
    args: &Args,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let database = &loaded.config.database;
    let mut export = Export::open(database).await?;
    let Some(path) = &args.output else {
        let mut stdout = io::stdout().lock();
        match write_all(&mut export, &mut stdout).await {
            Err(TransferError::File(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(ClosedPipe.into());
            }
            written => written?,
        };
        export.close().await?;
        return Ok(CommandStatus::Succeeded);
    };
    let partial = partial_path(path);
    let written = write_file(&mut export, &partial).await;
    let counts = written.with_context(|| format!("cannot write {}", partial.display()))?;
    export.close().await?;
    std::fs::rename(&partial, path)
        .with_context(|| format!("cannot rename {} to {}", partial.display(), path.display()))?;
    print_summary(args, path, &database.url.to_string(), &counts, output)?;
    Ok(CommandStatus::Succeeded)
}

fn print_summary(
    args: &Args,
    path: &Path,
    database: &str,
    counts: &RecordCounts,
    output: &mut Output,
) -> anyhow::Result<()> {
    let types: Vec<_> = Export::parts()
        .iter()
        .map(|part| part.record_type)
        .collect();
    if args.json {
        let types = types.iter().map(|it| (it.name(), counts.get(*it).into()));
        let types: serde_json::Map<String, serde_json::Value> = types
            .map(|(name, count)| (name.to_owned(), count))
            .collect();
        return output.write_json(&json!({ "file": path, "database": database, "types": types }));
    }
    output.write_line(&format!("{database} -> {}", path.display()))?;
    let row = |record_type: &RecordType| {
        vec![
            record_type.name().to_owned(),
            counts.get(*record_type).to_string(),
        ]
    };
    output.write_table(&["TYPE", "RECORDS"], types.iter().map(row).collect())?;
    output.write_line(&format!("exported {} records", counts.total()))
}

/// Name of the file until it is complete.
fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

async fn write_file(export: &mut Export, path: &Path) -> Result<RecordCounts, TransferError> {
    // Other users of the machine must not be able to read chat data.
    let options = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    let mut file = options?;
    let counts = write_all(export, &mut file).await?;
    file.sync_all()?;
    Ok(counts)
}

/// Writes the whole export, one page at a time.
async fn write_all(
    export: &mut Export,
    to: &mut impl Write,
) -> Result<RecordCounts, TransferError> {
    let mut total = 0;
    for part in Export::parts() {
        total += export.count(part).await?;
    }
    let mut progress = TaskProgress::new("export", "records", total, 0);
    let mut counts = RecordCounts::default();
    to.write_all(Export::header().as_bytes())?;
    for part in Export::parts() {
        let written = export.write_part(part, |lines, count| {
            to.write_all(lines.as_bytes())?;
            progress.add(count);
            Ok(())
        });
        counts.add(part.record_type, written.await?);
    }
    to.write_all(Export::end(counts.total()).as_bytes())?;
    to.flush()?;
    progress.finish();
    Ok(counts)
}
