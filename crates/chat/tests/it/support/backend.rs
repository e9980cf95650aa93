//! The environment of a test: a store with a manual clock, and a database. The embedded store is tested with SQLite,
//! servers with PostgreSQL.

use std::path::Path;
use std::time::Duration;

use parlor_chat::clock::Timestamp;
use parlor_chat::context::ChatContext;
use parlor_chat::database::{self, Database, DatabaseUrl};
use parlor_chat::keys::{KeySettings, Keyspace, TtlName};
use parlor_store::{ManualClock, Store, StoreOptions};
use parlor_testkit::{Postgres, Redis, RedisCluster, Valkey, eventually};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// A long timeout, so that a test of results does not fail on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Keys on a real server expire although the clock of the test stands still. A TTL that is multiplied by this factor
/// does not end during a test.
const TYPING_TTL_FACTOR: u32 = 100;

pub struct TestBackend {
    pub store: Store,
    pub server: Option<Redis>,
    /// Address of the server or cluster; `None` for the embedded store.
    pub url: Option<String>,
    /// Clients of the servers that hold keys; empty for the embedded store.
    pub primaries: Vec<redis::Client>,
    /// True if keys carry hash tags.
    hash_tags: bool,
    /// True if the database is SQLite although the store is a server.
    sqlite: bool,
    rows: OnceCell<DatabaseFixture>,
}

/// The database, and the folder or server that contains it.
struct DatabaseFixture {
    url: DatabaseUrl,
    _folder: TempDir,
    _server: Option<Postgres>,
}

impl TestBackend {
    /// A strict embedded store with hash tags: a script that touches keys of another slot fails.
    pub async fn embedded() -> Self {
        let options = StoreOptions {
            strict: true,
            ..StoreOptions::default()
        };
        Self::open(options, true, Vec::new()).await
    }

    /// An embedded store that keeps its data in a folder and uses this clock.
    pub async fn on_disk(folder: &Path, clock: ManualClock) -> Self {
        let options = StoreOptions {
            data_folder: Some(folder.to_owned()),
            clock: Some(clock),
            ..StoreOptions::default()
        };
        Self::open(options, false, Vec::new()).await
    }

    /// Redis, without hash tags.
    pub async fn redis() -> Self {
        Self::server(Redis::start().await, options_with_long_timeout).await
    }

    /// Valkey.
    pub async fn valkey() -> Self {
        Self::server(Valkey::start().await, options_with_long_timeout).await
    }

    /// Redis with a timeout of 10 s, for tests without a store.
    pub async fn redis_with_short_timeout() -> Self {
        let options = |url: &str| StoreOptions {
            request_timeout: Duration::from_secs(10),
            ..options_with_long_timeout(url)
        };
        Self::server(Redis::start().await, options).await
    }

    async fn server(server: Redis, options: impl FnOnce(&str) -> StoreOptions) -> Self {
        let backend = Self::open(options(&server.url()), false, vec![server.client()]).await;
        Self {
            url: Some(server.url()),
            server: Some(server),
            ..backend
        }
    }

    /// A cluster, which is emptied first.
    pub async fn cluster(cluster: &mut RedisCluster) -> Self {
        let primaries = cluster.primary_clients().await;
        for primary in &primaries {
            let mut connection = parlor_testkit::connect_with_test_timeout(primary)
                .await
                .unwrap();
            let flush = redis::cmd("FLUSHALL");
            flush.exec_async(&mut connection).await.unwrap();
        }
        let url = cluster.url();
        let backend = Self::open(options_with_long_timeout(&url), true, primaries).await;
        Self {
            url: Some(url),
            ..backend
        }
    }

    async fn open(options: StoreOptions, tagged: bool, primaries: Vec<redis::Client>) -> Self {
        let clock = Some(options.clock.clone().unwrap_or_default());
        Self {
            store: Store::open(StoreOptions { clock, ..options })
                .await
                .unwrap(),
            server: None,
            url: None,
            primaries,
            hash_tags: tagged,
            sqlite: false,
            rows: OnceCell::new(),
        }
    }

    /// Uses SQLite although the store is a server.
    pub fn with_sqlite(self) -> Self {
        Self {
            sqlite: true,
            ..self
        }
    }

    /// Opens the database. Each call returns the database of another node.
    pub async fn database(&self) -> Database {
        self.database_with_timeout(TEST_TIMEOUT).await
    }

    /// As [`database`](Self::database), with a timeout.
    pub async fn database_with_timeout(&self, timeout: Duration) -> Database {
        let url = self.rows().await.url.clone();
        let options = database::DatabaseOptions {
            timeout,
            ..database::DatabaseOptions::new(url)
        };
        // Opening the database may take longer than the timeout.
        eventually("the database is opened", async || {
            Database::open(options.clone()).await.map(Some)
        })
        .await
    }

    async fn rows(&self) -> &DatabaseFixture {
        let make = async || {
            let folder = tempfile::tempdir().unwrap();
            let server = match self.primaries.is_empty() || self.sqlite {
                true => None,
                false => Some(Postgres::start().await),
            };
            let text = match &server {
                Some(server) => server.create_database().await,
                None => String::new(),
            };
            DatabaseFixture {
                url: DatabaseUrl::parse(&text, folder.path()).unwrap(),
                _folder: folder,
                _server: server,
            }
        };
        self.rows.get_or_init(make).await
    }

    /// The context of a capability with these settings.
    pub fn context(&self, settings: KeySettings) -> ChatContext {
        ChatContext::new(self.store.clone(), self.keys(settings))
    }

    /// Extends the typing TTL on a real server.
    pub fn extend_typing_ttl(&self, settings: &mut KeySettings) {
        if !self.primaries.is_empty() {
            let longer = settings.ttls.get(TtlName::Typing) * TYPING_TTL_FACTOR;
            settings.ttls.set(TtlName::Typing, longer);
        }
    }

    pub fn keys(&self, settings: KeySettings) -> Keyspace {
        Keyspace::new(settings, self.hash_tags).unwrap()
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.store.clock().now_ms())
    }

    /// Advances the clock of the store and the TTLs of the keys.
    pub async fn advance(&self, by: Duration) {
        parlor_testkit::advance_time(&self.primaries, by, |by| self.store.clock().advance(by))
            .await;
    }
}

/// Store options with a long timeout.
pub fn options_with_long_timeout(url: &str) -> StoreOptions {
    StoreOptions {
        request_timeout: TEST_TIMEOUT,
        ..StoreOptions::new(url.parse().unwrap())
    }
}
