//! The migrations, which are compiled into the program.
//!
//! Invariant: a released migration never changes. A change of the schema is a new migration, with the same number in
//! both folders.

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Number, name, text for SQLite, text for PostgreSQL.
type MigrationTexts = (i64, &'static str, &'static str, &'static str);

const MIGRATIONS: &[MigrationTexts] = &[
    (
        1,
        "chat",
        include_str!("migrations/sqlite/0001_chat.sql"),
        include_str!("migrations/postgres/0001_chat.sql"),
    ),
    (
        2,
        "changes",
        include_str!("migrations/sqlite/0002_changes.sql"),
        include_str!("migrations/postgres/0002_changes.sql"),
    ),
    (
        3,
        "adopted blocks",
        include_str!("migrations/sqlite/0003_adopted_blocks.sql"),
        include_str!("migrations/postgres/0003_adopted_blocks.sql"),
    ),
    (
        4,
        "receipts and versions",
        include_str!("migrations/sqlite/0004_receipts_and_versions.sql"),
        include_str!("migrations/postgres/0004_receipts_and_versions.sql"),
    ),
    (
        5,
        "outbox",
        include_str!("migrations/sqlite/0005_outbox.sql"),
        include_str!("migrations/postgres/0005_outbox.sql"),
    ),
    (
        6,
        "deletions",
        include_str!("migrations/sqlite/0006_deletions.sql"),
        include_str!("migrations/postgres/0006_deletions.sql"),
    ),
];

/// Number of the last migration.
pub(super) const LATEST_MIGRATION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

pub(super) fn sqlite() -> Migrator {
    migrator(|(_, _, text, _)| text)
}

pub(super) fn postgres() -> Migrator {
    migrator(|(_, _, _, text)| text)
}

fn migrator(text: impl Fn(&MigrationTexts) -> &'static str) -> Migrator {
    let migration = |one: &MigrationTexts| {
        let &(version, name, ..) = one;
        let text = SqlStr::from_static(text(one));
        Migration::new(version, name.into(), MigrationType::Simple, text, false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}
