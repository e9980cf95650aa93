//! `parlor doctor`: checks store and database, and prints how to fix problems.
//!
//! Invariants:
//! 1. The checks change no data; only opening a new Redis store creates the key `parlor:epoch`.
//! 2. A value that a server does not report is reported as unknown.
//! 3. Each finding can be understood on its own.

mod access;
mod database;
mod embedded;
mod key_types;
mod merge;
mod open_failure;
mod redis_server;
mod server_info;

use serde::Serialize;

use super::store_reader::Reader;
use super::{CommandStatus, Output, store_reader};
use crate::config::{Config, LoadedConfig};
use parlor_store::StoreUrl;

/// Options of `doctor`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Results: ok and info need no action, warn should be checked, fail must be fixed (exit code 1). If
the server does not allow CONFIG, as managed Redis often does not, the command uses INFO and reports
the other values as unknown.

Examples:
  parlor doctor
  parlor doctor --store redis://:secret@cache:6379/0 --json")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Column where the text of a finding begins, after the severity and the name of the check.
const TEXT_COLUMN: usize = 19;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Ok,
    Info,
    Warn,
    Fail,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    level: Severity,
    #[serde(rename = "finding")]
    message: String,
    /// Command or change that fixes the problem.
    #[serde(rename = "mend", skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn new(check: &'static str, level: Severity, finding: impl Into<String>) -> Finding {
        Finding {
            check,
            level,
            message: finding.into(),
            fix: None,
        }
    }

    fn ok(check: &'static str, finding: impl Into<String>) -> Finding {
        Finding::new(check, Severity::Ok, finding)
    }

    fn info(check: &'static str, finding: impl Into<String>) -> Finding {
        Finding::new(check, Severity::Info, finding)
    }

    fn warn(check: &'static str, finding: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding {
            fix: Some(mend.into()),
            ..Finding::new(check, Severity::Warn, finding)
        }
    }

    fn fail(check: &'static str, finding: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding {
            fix: Some(mend.into()),
            ..Finding::new(check, Severity::Fail, finding)
        }
    }
}

/// Checks store and database.
pub async fn run(
    args: &Args,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let findings = examine(&loaded.config).await?;
    let failed = findings
        .iter()
        .any(|finding| finding.level == Severity::Fail);
    if args.json {
        output.json(&serde_json::json!({ "ok": !failed, "findings": findings }))?;
    } else {
        for finding in &findings {
            output.line(&finding_line(finding, output))?;
        }
    }
    Ok(if failed {
        CommandStatus::Failed
    } else {
        CommandStatus::Succeeded
    })
}

async fn examine(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let (mut findings, store) = examine_store(config).await?;
    findings.extend(database::check_database(config, store.as_ref()).await?);
    Ok(findings)
}

/// Checks the store; also returns the store if it could be opened.
async fn examine_store(config: &Config) -> anyhow::Result<(Vec<Finding>, Option<Reader>)> {
    let embedded = config.store.url == StoreUrl::Embedded;
    let mut findings = if embedded {
        embedded::check_folder(config)
    } else {
        Vec::new()
    };
    if embedded && !store_reader::has_store(&config.server.data_folder) {
        return Ok((findings, None));
    }
    let reader = match Reader::open_as_server(config).await {
        Ok(reader) => reader,
        Err(error) => {
            let mend = open_failure::fix_for_open_error(&error, config);
            findings.push(Finding::fail(
                "reachable",
                super::output::error_chain(error.as_ref()),
                mend,
            ));
            return Ok((findings, None));
        }
    };
    if embedded {
        findings.push(embedded::check_store_file(&reader).await);
    } else {
        findings.extend(redis_server::examine(&reader, config).await);
    }
    findings.push(
        key_types::check_key_types(
            &reader,
            &store_reader::keyspace(config)?,
            &server_info::cli(config),
        )
        .await,
    );
    Ok((findings, Some(reader)))
}

fn finding_line(finding: &Finding, output: &Output) -> String {
    let (word, color) = match finding.level {
        Severity::Ok => ("ok  ", 32),
        Severity::Info => ("info", 36),
        Severity::Warn => ("warn", 33),
        Severity::Fail => ("fail", 31),
    };
    let mut line = format!(
        "{}  {:11}  {}",
        output.colorize(color, word),
        finding.check,
        output.wrap_after_margin(TEXT_COLUMN, &finding.message)
    );
    if let Some(mend) = &finding.fix {
        let mend = output.wrap_after_margin(TEXT_COLUMN, &format!("fix: {mend}"));
        line += &format!("\n{:TEXT_COLUMN$}{mend}", "");
    }
    line
}
