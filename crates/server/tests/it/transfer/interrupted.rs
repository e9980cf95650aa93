//! An import that was killed continues.

use std::path::Path;

use parlor_testkit::{Postgres, ServerProcess, eventually};
use serde_json::{Value, json};

use super::{Target, conversation, member, message};
use crate::http::client::node;
use crate::support::PARLOR;

const CONVERSATIONS: usize = 20;
const MESSAGES: usize = 20_000;

/// Messages of many conversations, each with three members.
fn many_messages() -> Vec<Value> {
    let mut lines = Vec::new();
    let id = |nth: usize| format!("c{:02}", nth % CONVERSATIONS);
    for nth in 0..CONVERSATIONS {
        lines.push(conversation(&id(nth), "2024-01-01T00:00:00Z"));
        lines.extend(["alice", "bob", "carol"].map(|user| member(&id(nth), user)));
    }
    for nth in 0..MESSAGES {
        let time = 1_704_067_200_000_u64 + nth as u64;
        let sender = ["alice", "bob", "dave"][nth % 3];
        let mut line = message(&id(nth), &format!("m{nth}"), sender, "");
        line["createdAt"] = json!(time);
        let mentioned = ["bob", "carol"][nth % 2];
        line["metadata"] = json!({ "mentions": [mentioned] });
        lines.push(line);
    }
    lines
}

/// Starts an import and kills it when some pages are written and others are not.
async fn kill_import(target: &Target, file: &Path, written: impl AsyncFn() -> usize) {
    let mut command = ServerProcess::options(PARLOR).arg("import").arg(file);
    command = command
        .arg("--database")
        .arg(&target.database)
        .arg("--data")
        .arg(target.data_folder());
    let mut process = command.spawn();
    let count = eventually("some pages are written", async || {
        Some(written().await).filter(|count| *count > 0)
    })
    .await;
    assert!(
        process.is_running(),
        "{count} messages: {}",
        process.output()
    );
    process.kill9();
}

async fn count_in_file(target: &Target) -> usize {
    let file = target.data_folder().join("parlor.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(file)
        .read_only(true);
    let Ok(pool) = sqlx::SqlitePool::connect_with(options).await else {
        return 0;
    };
    let count: Result<i64, _> = sqlx::query_scalar("SELECT COUNT(*) FROM messages")
        .fetch_one(&pool)
        .await;
    pool.close().await;
    // The table does not exist until the import creates it.
    usize::try_from(count.unwrap_or_default()).unwrap()
}

async fn count_on_server(server: &Postgres, target: &Target) -> usize {
    let exists = "SELECT COUNT(*) FROM pg_tables WHERE tablename = 'messages'";
    match server.query_in(&target.database, exists).await.trim() {
        "0" => 0,
        _ => {
            let count = server
                .query_in(&target.database, "SELECT COUNT(*) FROM messages")
                .await;
            count.trim().parse().unwrap()
        }
    }
}

#[tokio::test]
async fn a_killed_import_blocks_the_server_and_continues_when_it_runs_again() {
    let server = Postgres::start().await;
    let [sqlite, postgres] = Target::both(&server).await;
    let lines = many_messages();
    let undisturbed = Target::sqlite();
    let file = undisturbed.file(&lines);
    kill_import(&sqlite, &file, async || count_in_file(&sqlite).await).await;
    kill_import(&postgres, &file, async || {
        count_on_server(&server, &postgres).await
    })
    .await;
    undisturbed.import(&file).await.ok();
    let expected = undisturbed.export().await;

    for target in [sqlite, postgres] {
        let refused = node()
            .env("PARLOR_DATABASE__URL", &target.database)
            .arg("--data")
            .arg(target.data_folder());
        let mut refused = refused.spawn();
        refused.wait_for_line("an incomplete import").await;
        assert!(!refused.wait_for_exit().await.success());
        let export = target.run(&["export"]).await;
        assert!(
            export.exit_code == 1 && export.stderr.contains("incomplete import"),
            "{export:?}"
        );

        let rest = target
            .run(&["import", file.to_str().unwrap(), "--json"])
            .await;
        assert_eq!(rest.exit_code, 0, "{rest:?}");
        let report = rest.json();
        assert_eq!(report["resumed"], true);
        let [read, written, unchanged] = super::numbers(&report, "message");
        assert_eq!(read as usize, MESSAGES);
        assert!(written > 0 && unchanged > 0, "{report}");
        assert_eq!(target.export().await, expected);
    }
}
