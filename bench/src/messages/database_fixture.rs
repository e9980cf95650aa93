//! Durable database with conversations and members.

use std::fs;
use std::time::Duration;

use parlor_chat::database::{Database, DatabaseOptions, DatabaseUrl};
use parlor_testkit::Postgres;
use tempfile::TempDir;

use super::single_transaction::on_connection;

const CONVERSATIONS: usize = 50;
pub const USERS: usize = 100;

/// Kind of database.
#[derive(Debug, Clone, Copy)]
pub enum DatabaseKind {
    /// SQLite file with `synchronous=FULL`.
    Sqlite,
    /// PostgreSQL server that writes every commit to disk.
    Postgres,
}

impl DatabaseKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

/// Durable database of a benchmark.
pub struct DatabaseFixture {
    pub kind: DatabaseKind,
    pub database: Database,
    server: Option<Postgres>,
    _folder: TempDir,
}

/// Conversation that a user sends to.
pub fn conversation(user: usize) -> String {
    format!("c{}", user % CONVERSATIONS)
}

pub fn user(number: usize) -> String {
    format!("u{number}")
}

impl DatabaseFixture {
    pub async fn open(kind: DatabaseKind) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = match kind {
            DatabaseKind::Sqlite => None,
            DatabaseKind::Postgres => Some(Postgres::start_durable().await),
        };
        let text = match &server {
            Some(server) => server.create_database().await,
            None => String::new(),
        };
        let options = DatabaseOptions {
            // One connection per sender for the strategy with one transaction per message.
            max_connections: 100,
            timeout: Duration::from_secs(30),
            ..DatabaseOptions::new(DatabaseUrl::parse(&text, folder.path())?)
        };
        let database = Database::open(options).await?;
        insert_conversations(&database).await?;
        Ok(Self {
            kind,
            database,
            server,
            _folder: folder,
        })
    }

    /// CPU time that the running processes of the server have used so far.
    pub fn server_cpu(&self) -> anyhow::Result<Duration> {
        let Some(server) = &self.server else {
            return Ok(Duration::ZERO);
        };
        let parent = server.pid().to_string();
        let mut nanos = 0;
        for process in fs::read_dir("/proc")?.flatten() {
            // A process may end before its file is read.
            let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let rest = stat.rsplit(')').next().unwrap_or_default();
            if rest.split_whitespace().nth(1) == Some(&parent) {
                let figures =
                    fs::read_to_string(process.path().join("schedstat")).unwrap_or_default();
                let on_cpu = figures.split_whitespace().next();
                nanos += on_cpu.and_then(|it| it.parse().ok()).unwrap_or(0u64);
            }
        }
        Ok(Duration::from_nanos(nanos))
    }
}

async fn insert_conversations(database: &Database) -> anyhow::Result<()> {
    const CONVERSATION: &str = "
        INSERT INTO conversations (id, kind, created_at, last_at, members_version, member_count)
        VALUES ($1, 'group', 1, 1, 2, 2)";
    const MEMBER: &str = "
        INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version,
                             delivered_seq, read_seq, badge_seq)
        VALUES ($1, $2, 'member', 1, 0, 1, 0, 0, 0)";
    let mut tx = database.begin().await?;
    for at in 0..CONVERSATIONS {
        let id = conversation(at);
        on_connection!(tx.connection(), c => sqlx::query(CONVERSATION).bind(id).execute(c).await.map(drop))?;
    }
    for at in 0..USERS {
        let (id, user) = (conversation(at), user(at));
        on_connection!(tx.connection(), c => sqlx::query(MEMBER).bind(id).bind(user).execute(c).await.map(drop))?;
    }
    tx.commit().await?;
    Ok(())
}
