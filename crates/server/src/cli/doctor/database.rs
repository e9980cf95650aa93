//! Checks the database: reachable, version, migrations, and whether the store was filled from it.

use std::cmp::Ordering;

use parlor_chat::database::{self, DatabaseInspection, DatabaseOpenError, MIN_POSTGRES_VERSION};
use parlor_store::Store;

use super::super::store_reader::{keyspace, query};
use super::Finding;
use crate::config::Config;

/// Checks the database and, if the store could be opened, whether both belong together.
pub async fn check_database(
    config: &Config,
    store: Option<&Store>,
) -> anyhow::Result<Vec<Finding>> {
    let url = &config.database.url;
    let seen = match database::inspect(&config.database).await {
        Ok(Some(seen)) => seen,
        Ok(None) => {
            let finding = format!("{url} does not exist yet; the first `parlor serve` creates it");
            return Ok(vec![Finding::info("database", finding)]);
        }
        Err(error) => return Ok(vec![open_failure(&error)]),
    };
    let mut findings = vec![
        check_version(&seen, &url.to_string()),
        check_migrations(&seen),
    ];
    if let (Some(store), Some(own)) = (store, &seen.id) {
        findings.extend(check_store_belongs(config, store, own).await?);
    }
    Ok(findings)
}

fn check_version(seen: &DatabaseInspection, url: &str) -> Finding {
    let finding = format!("{} at {url}", seen.server_version);
    if seen.server_version.starts_with("PostgreSQL") && seen.major_version < MIN_POSTGRES_VERSION {
        let fix = format!("use PostgreSQL {MIN_POSTGRES_VERSION} or later");
        return Finding::fail("database", finding, fix);
    }
    Finding::ok("database", finding)
}

fn check_migrations(seen: &DatabaseInspection) -> Finding {
    let latest = DatabaseInspection::LATEST_MIGRATION;
    let Some(found) = seen.last_migration else {
        let finding = "none yet; the first `parlor serve` creates the tables";
        return Finding::info("migrations", finding);
    };
    match found.cmp(&latest) {
        Ordering::Equal => Finding::ok("migrations", format!("{found} of {latest}, up to date")),
        Ordering::Less => Finding::info(
            "migrations",
            format!("{found} of {latest}; the next `parlor serve` applies the others"),
        ),
        Ordering::Greater => Finding::fail(
            "migrations",
            format!("{found}, but this version of Parlor knows only those up to {latest}"),
            "use the version of Parlor that applied it, or a later one",
        ),
    }
}

/// Compares the id of the database with the one in the store, which belongs to its counters and caches.
async fn check_store_belongs(
    config: &Config,
    store: &Store,
    own: &str,
) -> anyhow::Result<Option<Finding>> {
    let key = keyspace(config)?.database_id();
    let found: Option<String> = query(store, redis::cmd("GET").arg(&key))
        .await
        .unwrap_or(None);
    Ok(found.map(|found| {
        if found == own {
            return Finding::ok("together", "the store was filled from this database");
        }
        Finding::fail(
            "together",
            format!("the store was filled from another database ({key} is {found})"),
            "use the database that the store was filled from, or an empty store",
        )
    }))
}

fn open_failure(error: &DatabaseOpenError) -> Finding {
    let fix = match error {
        DatabaseOpenError::Unavailable { .. } => {
            "start the server, allow this machine in its firewall, or correct database.url"
        }
        DatabaseOpenError::CreateFolder { .. } => {
            "correct the permissions of the folder, or database.url"
        }
        _ => "correct user, password and name in database.url",
    };
    Finding::fail("database", error.to_string(), fix)
}
