//! The database: whether it answers, its version, its migrations, and whether the store is its own.

use std::cmp::Ordering;

use parlor_chat::database::{self, Examined, LEAST_POSTGRES, OpenError};

use super::super::reader::{self, Reader};
use super::Finding;
use crate::config::Config;

/// Looks at the database and, where the store could be opened, at whether the two belong together.
pub async fn examine(config: &Config, store: Option<&Reader>) -> anyhow::Result<Vec<Finding>> {
    let url = &config.database.url;
    let seen = match database::examine(&config.database).await {
        Ok(Some(seen)) => seen,
        Ok(None) => {
            let finding = format!("{url} is not there yet; the first `parlor serve` makes it");
            return Ok(vec![Finding::info("database", finding)]);
        }
        Err(error) => return Ok(vec![unopened(&error)]),
    };
    let mut findings = vec![keeper(&seen, &url.to_string()), migrations(&seen)];
    if let (Some(store), Some(own)) = (store, &seen.id) {
        findings.extend(together(config, store, own).await?);
    }
    Ok(findings)
}

fn keeper(seen: &Examined, url: &str) -> Finding {
    let finding = format!("{} at {url}", seen.keeper);
    if seen.keeper.starts_with("PostgreSQL") && seen.major < LEAST_POSTGRES {
        let mend = format!("use PostgreSQL {LEAST_POSTGRES} or later");
        return Finding::fail("database", finding, mend);
    }
    Finding::ok("database", finding)
}

fn migrations(seen: &Examined) -> Finding {
    let latest = Examined::LATEST;
    let Some(found) = seen.migration else {
        let finding = "none yet; the first `parlor serve` makes the tables";
        return Finding::info("migrations", finding);
    };
    match found.cmp(&latest) {
        Ordering::Equal => Finding::ok("migrations", format!("{found} of {latest}, up to date")),
        Ordering::Less => Finding::info(
            "migrations",
            format!("{found} of {latest}; the next `parlor serve` brings it up to date"),
        ),
        Ordering::Greater => Finding::fail(
            "migrations",
            format!("{found}, and this program knows those up to {latest}"),
            "use the version of Parlor that changed it, or a later one",
        ),
    }
}

/// The store remembers whose counts and caches it holds.
async fn together(config: &Config, store: &Reader, own: &str) -> anyhow::Result<Option<Finding>> {
    let key = reader::keyspace(config)?.database();
    let found: Option<String> = store.ask(redis::cmd("GET").arg(&key)).await.unwrap_or(None);
    Ok(found.map(|found| {
        if found == own {
            return Finding::ok("together", "the store was filled from this database");
        }
        Finding::fail(
            "together",
            format!("the store was filled from another database ({key} is {found})"),
            "use the database it was filled from, or an empty store",
        )
    }))
}

fn unopened(error: &OpenError) -> Finding {
    let mend = match error {
        OpenError::Away { .. } => {
            "start the server, let this machine through its firewall, or correct database.url"
        }
        OpenError::Folder { .. } => "correct the rights of the folder, or database.url",
        _ => "correct user, password and name in database.url",
    };
    Finding::fail("database", error.to_string(), mend)
}
