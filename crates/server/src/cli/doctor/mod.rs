//! `parlor doctor`: checks store and database, and prints how to fix problems.
//!
//! Invariants:
//! 1. The checks change no data.
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
mod session_keys;

use serde::Serialize;

use super::{CommandStatus, Output, store_reader};
use crate::config::{Config, LoadedConfig};
use parlor_store::{Store, StoreUrl};

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

/// Maximum number of keys that a finding names.
const MAX_NAMED_KEYS: usize = 5;

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
    fn new(check: &'static str, level: Severity, message: impl Into<String>) -> Finding {
        Finding {
            check,
            level,
            message: message.into(),
            fix: None,
        }
    }

    fn ok(check: &'static str, message: impl Into<String>) -> Finding {
        Finding::new(check, Severity::Ok, message)
    }

    fn info(check: &'static str, message: impl Into<String>) -> Finding {
        Finding::new(check, Severity::Info, message)
    }

    fn warn(check: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            fix: Some(fix.into()),
            ..Finding::new(check, Severity::Warn, message)
        }
    }

    fn fail(check: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            fix: Some(fix.into()),
            ..Finding::new(check, Severity::Fail, message)
        }
    }
}

/// Checks store and database.
pub async fn run(
    args: &Args,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let findings = check_all(&loaded.config).await?;
    let failed = findings
        .iter()
        .any(|finding| finding.level == Severity::Fail);
    if args.json {
        output.write_json(&serde_json::json!({ "ok": !failed, "findings": findings }))?;
    } else {
        for finding in &findings {
            output.write_line(&finding_line(finding, output))?;
        }
    }
    Ok(if failed {
        CommandStatus::Failed
    } else {
        CommandStatus::Succeeded
    })
}

async fn check_all(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let (mut findings, store) = check_store(config).await?;
    findings.extend(database::check_database(config, store.as_ref()).await?);
    Ok(findings)
}

/// Checks the store; also returns the store if it could be opened.
async fn check_store(config: &Config) -> anyhow::Result<(Vec<Finding>, Option<Store>)> {
    let embedded = config.store.url == StoreUrl::Embedded;
    let mut findings = if embedded {
        embedded::check_folder(config)
    } else {
        Vec::new()
    };
    if embedded && !store_reader::has_store(&config.server.data_folder) {
        return Ok((findings, None));
    }
    let store = match store_reader::open_with_server_rights(config).await {
        Ok(store) => store,
        Err(error) => {
            let fix = open_failure::fix_for_open_error(&error, config);
            findings.push(Finding::fail(
                "reachable",
                super::output::error_chain(error.as_ref()),
                fix,
            ));
            return Ok((findings, None));
        }
    };
    if embedded {
        findings.push(embedded::check_store_file(&store).await);
    } else {
        findings.extend(redis_server::check_server(&store, config).await);
    }
    let keyspace = store_reader::keyspace(config)?;
    let cli = server_info::redis_cli_command(config);
    findings.push(key_types::check_key_types(&store, &keyspace, &cli).await);
    findings.extend(session_keys::check_session_keys(&store, &keyspace).await);
    Ok((findings, Some(store)))
}

/// Joins the first items and the number of the others: `a, b, c, d, e, and 3 more`.
fn list_some(items: impl ExactSizeIterator<Item = String>, separator: &str) -> String {
    let more = items.len().saturating_sub(MAX_NAMED_KEYS);
    let named: Vec<String> = items.take(MAX_NAMED_KEYS).collect();
    let more = match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    named.join(separator) + &more
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
    if let Some(fix) = &finding.fix {
        let fix = output.wrap_after_margin(TEXT_COLUMN, &format!("fix: {fix}"));
        line += &format!("\n{:TEXT_COLUMN$}{fix}", "");
    }
    line
}
