//! `parlor doctor`: are store and database fit, and if not, which command mends it.
//!
//! Always true: checking changes nothing of what it checks; what a server refuses to tell is said, not guessed; each finding stands alone.

mod access;
mod database;
mod embedded;
mod keys;
mod primaries;
mod server;
mod told;
mod unopened;

use serde::Serialize;

use super::reader::Reader;
use super::{Outcome, Output, reader};
use crate::config::{Config, Loaded};
use parlor_store::StoreUrl;

/// What `doctor` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
ok and info need nothing; warn should be looked at; fail must be mended, and the exit code is 1.
Where CONFIG is refused, as by managed Redis, what INFO tells is used and the rest is said to be
unknown.

Examples:
  parlor doctor
  parlor doctor --store redis://:secret@cache:6379/0 --json")]
pub struct Args {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Where findings begin: behind the level and the name of the check.
const MARGIN: usize = 19;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Info,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    finding: String,
    /// The command or change that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Finding {
    fn new(check: &'static str, level: Level, finding: impl Into<String>) -> Finding {
        Finding {
            check,
            level,
            finding: finding.into(),
            mend: None,
        }
    }

    fn ok(check: &'static str, finding: impl Into<String>) -> Finding {
        Finding::new(check, Level::Ok, finding)
    }

    fn info(check: &'static str, finding: impl Into<String>) -> Finding {
        Finding::new(check, Level::Info, finding)
    }

    fn warn(check: &'static str, finding: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding {
            mend: Some(mend.into()),
            ..Finding::new(check, Level::Warn, finding)
        }
    }

    fn fail(check: &'static str, finding: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding {
            mend: Some(mend.into()),
            ..Finding::new(check, Level::Fail, finding)
        }
    }
}

/// Examines store and database.
pub async fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> anyhow::Result<Outcome> {
    let findings = examine(&loaded.config).await?;
    let failed = findings.iter().any(|finding| finding.level == Level::Fail);
    if args.json {
        output.json(&serde_json::json!({ "ok": !failed, "findings": findings }))?;
    } else {
        for finding in &findings {
            output.line(&line(finding, output))?;
        }
    }
    Ok(if failed {
        Outcome::Failed
    } else {
        Outcome::Done
    })
}

async fn examine(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let (mut findings, store) = examine_store(config).await?;
    findings.extend(database::examine(config, store.as_ref()).await?);
    Ok(findings)
}

/// What there is to say about the store, and the store if it could be opened.
async fn examine_store(config: &Config) -> anyhow::Result<(Vec<Finding>, Option<Reader>)> {
    let embedded = config.store.options.url == StoreUrl::Embedded;
    let mut findings = if embedded {
        embedded::folder(config)
    } else {
        Vec::new()
    };
    if embedded && !reader::has_store(&config.server.data) {
        return Ok((findings, None));
    }
    let reader = match Reader::open_as_server(config).await {
        Ok(reader) => reader,
        Err(error) => {
            let mend = unopened::mend(&error, config);
            findings.push(Finding::fail(
                "reachable",
                super::output::chain(error.as_ref()),
                mend,
            ));
            return Ok((findings, None));
        }
    };
    if embedded {
        findings.push(embedded::file(&reader).await);
    } else {
        findings.extend(server::examine(&reader, config).await);
    }
    findings.push(keys::foreign(&reader, &reader::keyspace(config)?, &told::cli(config)).await);
    Ok((findings, Some(reader)))
}

fn line(finding: &Finding, output: &Output) -> String {
    let (word, color) = match finding.level {
        Level::Ok => ("ok  ", 32),
        Level::Info => ("info", 36),
        Level::Warn => ("warn", 33),
        Level::Fail => ("fail", 31),
    };
    let mut line = format!(
        "{}  {:11}  {}",
        output.paint(color, word),
        finding.check,
        output.hanging(MARGIN, &finding.finding)
    );
    if let Some(mend) = &finding.mend {
        let mend = output.hanging(MARGIN, &format!("mend: {mend}"));
        line += &format!("\n{:MARGIN$}{mend}", "");
    }
    line
}
