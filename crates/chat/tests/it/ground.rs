//! What the worlds of the tests stand on: a store whose time is moved by hand, and a database beside it: SQLite beside the
//! embedded engine, PostgreSQL beside servers.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

use std::path::Path;
use std::time::Duration;

use parlor_chat::context::{ChatContext, Timestamp};
use parlor_chat::database::{self, Database, DatabaseUrl};
use parlor_chat::keys::{KeySettings, Keyspace, TtlName};
use parlor_store::{ManualClock, Store, StoreOptions};
use parlor_testkit::{Cluster, Postgres, Redis, Valkey, eventually};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// A busy machine must not turn a test about answers into one about time.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A server's keys age while the clock of the test stands still. They are given so much more time that it does not matter.
const TYPING_TTL_FACTOR: u32 = 100;

pub struct TestBackend {
    pub store: Store,
    pub server: Option<Redis>,
    /// The servers that hold keys; none of the embedded engine.
    pub primaries: Vec<redis::Client>,
    /// Whether keys have hash tags.
    hash_tags: bool,
    rows: OnceCell<DatabaseFixture>,
}

/// What the database is made of, and where it is.
struct DatabaseFixture {
    url: DatabaseUrl,
    _folder: TempDir,
    _server: Option<Postgres>,
}

impl TestBackend {
    /// The strict engine, with hash tags: a step that leaves its slot fails.
    pub async fn embedded() -> Self {
        let options = StoreOptions {
            strict: true,
            ..StoreOptions::default()
        };
        Self::open(options, true, Vec::new()).await
    }

    /// An engine that keeps its data in a folder, at the time of this clock.
    pub async fn on_disk(folder: &Path, clock: ManualClock) -> Self {
        let options = StoreOptions {
            data_folder: Some(folder.to_owned()),
            clock: Some(clock),
            ..StoreOptions::default()
        };
        Self::open(options, false, Vec::new()).await
    }

    /// Redis, with the documents' names.
    pub async fn redis() -> Self {
        Self::server(Redis::start().await, options_with_long_timeout).await
    }

    /// Valkey.
    pub async fn valkey() -> Self {
        Self::server(Valkey::start().await, options_with_long_timeout).await
    }

    /// Redis, whose absence is noticed after some seconds.
    pub async fn redis_with_short_timeout() -> Self {
        let impatient = |url: &str| StoreOptions {
            timeout: Duration::from_secs(10),
            ..options_with_long_timeout(url)
        };
        Self::server(Redis::start().await, impatient).await
    }

    async fn server(server: Redis, options: impl FnOnce(&str) -> StoreOptions) -> Self {
        let ground = Self::open(options(&server.url()), false, vec![server.client()]).await;
        Self {
            server: Some(server),
            ..ground
        }
    }

    /// A cluster, from which everything is removed.
    pub async fn cluster(cluster: &mut Cluster) -> Self {
        let primaries = cluster.primary_clients().await;
        for primary in &primaries {
            let mut connection = parlor_testkit::connect(primary).await.unwrap();
            let flush = redis::cmd("FLUSHALL");
            flush.exec_async(&mut connection).await.unwrap();
        }
        Self::open(options_with_long_timeout(&cluster.url()), true, primaries).await
    }

    async fn open(options: StoreOptions, tagged: bool, primaries: Vec<redis::Client>) -> Self {
        let clock = Some(options.clock.clone().unwrap_or_default());
        Self {
            store: Store::open(StoreOptions { clock, ..options })
                .await
                .unwrap(),
            server: None,
            primaries,
            hash_tags: tagged,
            rows: OnceCell::new(),
        }
    }

    /// The database, opened once more: each is that of another node.
    pub async fn database(&self) -> Database {
        self.database_with_timeout(TEST_TIMEOUT).await
    }

    /// As [`database`](Self::database), one that waits for nothing longer than this.
    pub async fn database_with_timeout(&self, timeout: Duration) -> Database {
        let url = self.rows().await.url.clone();
        let options = database::DatabaseOptions {
            timeout,
            ..database::DatabaseOptions::new(url)
        };
        // To open it may take longer.
        eventually("the database is opened", async || {
            Database::open(options.clone()).await.map(Some)
        })
        .await
    }

    async fn rows(&self) -> &DatabaseFixture {
        let make = async || {
            let folder = tempfile::tempdir().unwrap();
            let server = match self.primaries.is_empty() {
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

    /// The surroundings of a capability with these settings.
    pub fn context(&self, settings: KeySettings) -> ChatContext {
        ChatContext::new(self.store.clone(), self.keys(settings))
    }

    /// Lets who types do so for longer on a server.
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

    /// Moves time, for the store's clock and for its keys.
    pub async fn advance(&self, by: Duration) {
        parlor_testkit::advance(&self.primaries, by, |by| self.store.clock().advance(by)).await;
    }
}

/// How a store is opened that is given its time.
pub fn options_with_long_timeout(url: &str) -> StoreOptions {
    StoreOptions {
        timeout: TEST_TIMEOUT,
        ..StoreOptions::new(url.parse().unwrap())
    }
}
