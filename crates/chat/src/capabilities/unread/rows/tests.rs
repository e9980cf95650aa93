//! Query plans.

use sqlx::Row as _;

use super::*;
use crate::database::{DatabaseOptions, DatabaseUrl};

#[tokio::test]
async fn marking_many_messages_finds_the_own_ones_of_the_member_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let url = DatabaseUrl::Sqlite(folder.path().join("a.db"));
    let database = Database::open(DatabaseOptions::new(url)).await.unwrap();
    let PerBackend::Sqlite(pool) = database.reader() else {
        unreachable!("the database is SQLite");
    };
    for (statement, expected) in [
        (UPDATE_READ, "COVERING INDEX messages_by_sender"),
        (UPDATE_UNREAD_FAR, "COVERING INDEX messages_by_sender"),
        (UPDATE_UNREAD_NEAR, "PRIMARY KEY"),
    ] {
        let plan = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let plan = sqlx::query(plan).fetch_all(pool).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|step| step.get("detail")).collect();
        let search = format!("SEARCH o USING {expected} (conversation_id=?");
        let is_expected = plan.iter().any(|step| step.starts_with(&search));
        assert!(is_expected, "{statement}: {plan:?}");
    }
    database.close().await;
}
