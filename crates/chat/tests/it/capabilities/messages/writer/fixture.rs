//! A database with a writer, and conversations that are inserted directly.

use std::time::Duration;

use parlor_chat::api::caller::Role;
use parlor_chat::api::error::Result;
use parlor_chat::clock::Timestamp;
use parlor_chat::database::{Database, DatabaseOptions, DatabaseUrl, PerBackend, WriteTransaction};
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::messages::writer::{MessageDraft, MessageWriter, WrittenMessage};
use parlor_testkit::Postgres;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow};
use tempfile::TempDir;
use tokio::task::JoinHandle;

macro_rules! for_backend {
    ($either:expr, $it:ident => $body:expr) => {
        match $either {
            PerBackend::Sqlite($it) => $body,
            PerBackend::Postgres($it) => $body,
        }
    };
}

pub struct World {
    pub database: Database,
    pub writer: std::sync::Arc<MessageWriter>,
    pub server: Option<Postgres>,
    options: DatabaseOptions,
    _folder: TempDir,
}

impl World {
    pub async fn sqlite() -> Self {
        Self::open(None, Duration::from_secs(30)).await
    }

    pub async fn postgres() -> Self {
        Self::open(Some(Postgres::start().await), Duration::from_secs(30)).await
    }

    /// PostgreSQL that keeps commits after a kill, with a short timeout that detects the outage.
    pub async fn durable_postgres() -> Self {
        Self::open(
            Some(Postgres::start_durable().await),
            Duration::from_secs(5),
        )
        .await
    }

    async fn open(server: Option<Postgres>, timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = match &server {
            Some(server) => server.create_database().await,
            None => String::new(),
        };
        let options = DatabaseOptions {
            timeout,
            ..DatabaseOptions::new(DatabaseUrl::parse(&text, folder.path()).unwrap())
        };
        let database = Database::open(options.clone()).await.unwrap();
        Self {
            writer: MessageWriter::start(database.clone()).into(),
            database,
            server,
            options,
            _folder: folder,
        }
    }

    /// Opens the database as another node.
    pub async fn open_second_database(&self) -> Database {
        Database::open(self.options.clone()).await.unwrap()
    }

    /// Opens the database through another port.
    pub async fn database_via_port(&self, port: u16) -> Database {
        let DatabaseUrl::Postgres(address) = &self.options.url else {
            panic!("a SQLite file has no port");
        };
        let url = DatabaseUrl::Postgres(Box::new((**address).clone().port(port)));
        let options = DatabaseOptions {
            url,
            ..self.options.clone()
        };
        Database::open(options).await.unwrap()
    }

    pub async fn execute(&self, statement: &str) {
        let mut tx = self.database.begin().await.unwrap();
        run(&mut tx, statement).await;
        tx.commit().await.unwrap();
    }

    /// Inserts a conversation with these members; the nth joins with version n.
    pub async fn conversation(&self, id: &str, members: &[&str]) {
        let count = members.len();
        let mut tx = self.database.begin().await.unwrap();
        let statement = format!(
            "INSERT INTO conversations (id, kind, created_at, last_at, members_version, member_count)
             VALUES ('{id}', 'group', 1, 1, {count}, {count})"
        );
        run(&mut tx, &statement).await;
        for (at, user) in members.iter().enumerate() {
            let statement = format!(
                "INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version,
                                      delivered_seq, read_seq, badge_seq)
                 VALUES ('{id}', '{user}', 'member', 1, 0, {}, 0, 0, 0)",
                at + 1
            );
            run(&mut tx, &statement).await;
        }
        tx.commit().await.unwrap();
    }

    pub async fn all<T>(&self, statement: &str) -> Vec<T>
    where
        T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let statement = AssertSqlSafe(statement.to_owned());
        for_backend!(self.database.reader(), pool => sqlx::query_as(statement).fetch_all(pool).await.unwrap())
    }

    pub async fn one<T>(&self, statement: &str) -> T
    where
        T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let mut rows = self.all(statement).await;
        assert_eq!(rows.len(), 1, "{statement}");
        rows.remove(0)
    }

    /// Queues drafts while the write lock is held, then returns their results.
    pub async fn write_in_one_commit(
        &self,
        drafts: Vec<MessageDraft>,
    ) -> Vec<Result<WrittenMessage>> {
        let sends = self.queue_while_locked(drafts).await;
        answers(sends).await
    }

    /// Queues drafts; all but the first of each queue are in one commit.
    pub async fn queue_while_locked(
        &self,
        drafts: Vec<MessageDraft>,
    ) -> Vec<JoinHandle<Result<WrittenMessage>>> {
        let mut hold = self.database.begin().await.unwrap();
        run(&mut hold, "UPDATE conversations SET last_at = last_at").await;
        let sends: Vec<_> = drafts.into_iter().map(|draft| self.spawn(draft)).collect();
        // The runtime has one thread: each task runs until it waits.
        for _ in 0..=sends.len() {
            tokio::task::yield_now().await;
        }
        drop(hold);
        sends
    }

    pub fn spawn(&self, draft: MessageDraft) -> JoinHandle<Result<WrittenMessage>> {
        let writer = self.writer.clone();
        tokio::spawn(async move { writer.send(draft).await })
    }

    pub async fn send(&self, draft: MessageDraft) -> WrittenMessage {
        self.writer.send(draft).await.unwrap()
    }

    /// Asserts that messages are numbered without gaps and that times do not decrease.
    pub async fn check(&self) {
        let heads: Vec<(String, i64, i64, i64)> = self
            .all("SELECT id, last_seq, rev, last_at FROM conversations ORDER BY id")
            .await;
        for (id, last, rev, last_at) in heads {
            let rows: Vec<(i64, i64, i64)> = self
                .all(&format!(
                    "SELECT seq, rev, created_at FROM messages WHERE conversation_id = '{id}' ORDER BY seq"
                ))
                .await;
            let expected: Vec<_> = (1..=last).collect();
            assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), expected);
            assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), expected);
            assert!(rows.is_sorted_by_key(|row| row.2), "{id}: {rows:?}");
            assert_eq!(rev, last);
            assert_eq!(last_at, rows.last().map_or(1, |row| row.2));
        }
    }
}

pub async fn answers(
    sends: Vec<JoinHandle<Result<WrittenMessage>>>,
) -> Vec<Result<WrittenMessage>> {
    let mut answers = Vec::new();
    for send in sends {
        answers.push(send.await.unwrap());
    }
    answers
}

pub async fn run(tx: &mut WriteTransaction, statement: &str) {
    let statement = AssertSqlSafe(statement.to_owned());
    for_backend!(tx.connection(), c => drop(sqlx::query(statement).execute(c).await.unwrap()));
}

pub fn draft(conversation: &str, sender: &str, content: &str) -> MessageDraft {
    let at = Timestamp(1_000);
    MessageDraft {
        id: at.new_uuid_v7(),
        conversation: ConversationId::new(conversation).unwrap(),
        sender: UserId::new(sender).unwrap(),
        sender_role: Role::User,
        content: content.to_owned(),
        metadata: None,
        client_id: None,
        mentions: Vec::new(),
        at,
    }
}

/// A draft with a client id.
pub fn draft_with_client_id(conversation: &str, sender: &str, name: &str) -> MessageDraft {
    MessageDraft {
        client_id: Some(name.to_owned()),
        ..draft(conversation, sender, name)
    }
}
