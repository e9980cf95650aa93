//! Tests of `parlor import` and `parlor export`.

mod foreign_file;
mod interrupted;
mod rejected;
mod round_trip;
mod running_system;

use std::path::{Path, PathBuf};

use parlor_testkit::Postgres;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{CommandOutput, run_in};

/// A data folder with an embedded store, and a database that is a file in it or on PostgreSQL.
struct Target {
    folder: TempDir,
    /// Address of the database.
    database: String,
}

impl Target {
    fn sqlite() -> Self {
        Self::at("sqlite:".to_owned())
    }

    async fn postgres(server: &Postgres) -> Self {
        Self::at(server.create_database().await)
    }

    /// An empty target on SQLite, and one on PostgreSQL.
    async fn both(server: &Postgres) -> [Self; 2] {
        [Self::sqlite(), Self::postgres(server).await]
    }

    fn at(database: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, database }
    }

    fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Writes a file with these lines.
    fn file(&self, lines: &[Value]) -> PathBuf {
        let path = self.folder.path().join("lines.jsonl");
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        path
    }

    /// Runs a command on this data folder and database.
    async fn run(&self, args: &[&str]) -> CommandOutput {
        run_on(&self.data_folder(), &self.database, args).await
    }

    async fn import(&self, file: &Path) -> CommandOutput {
        self.run(&["import", file.to_str().unwrap()]).await
    }

    /// Imports lines and returns the report.
    async fn import_lines(&self, lines: &[Value]) -> Value {
        let file = self.file(lines);
        let imported = self
            .run(&["import", file.to_str().unwrap(), "--json"])
            .await;
        assert_eq!(imported.exit_code, 0, "{imported:?}");
        imported.json()
    }

    /// The whole export.
    async fn export(&self) -> String {
        self.run(&["export"]).await.ok()
    }

    /// The exported records of a type.
    async fn records(&self, record_type: &str) -> Vec<Value> {
        let text = self.export().await;
        let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
        records
            .filter(|record: &Value| record["type"] == record_type)
            .collect()
    }
}

/// Runs a command on a data folder and a database.
async fn run_on(data: &Path, database: &str, args: &[&str]) -> CommandOutput {
    let flags = ["--data", data.to_str().unwrap(), "--database", database];
    run_in(data.parent().unwrap(), &[args, &flags].concat(), &[]).await
}

/// Number of records of a type in a report: read, written, unchanged.
fn numbers(report: &Value, record_type: &str) -> [u64; 3] {
    let counts = &report["types"][record_type];
    ["read", "written", "unchanged"].map(|name| counts[name].as_u64().unwrap_or_default())
}

fn conversation(id: &str, created_at: &str) -> Value {
    json!({ "type": "conversation", "id": id, "kind": "group", "createdAt": created_at })
}

fn member(conversation: &str, user: &str) -> Value {
    json!({ "type": "member", "conversationId": conversation, "userId": user })
}

fn message(conversation: &str, id: &str, sender: &str, created_at: &str) -> Value {
    json!({
        "type": "message", "conversationId": conversation, "id": id, "senderId": sender,
        "content": format!("text of {id}"), "createdAt": created_at,
    })
}
