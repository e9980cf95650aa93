//! What the worlds of the tests stand on: a store whose time is moved by hand, and a database beside it: SQLite beside the
//! embedded engine, PostgreSQL beside servers.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

use std::path::Path;
use std::time::Duration;

use parlor_chat::context::{Context, Moment};
use parlor_chat::database::{self, Database, DatabaseUrl};
use parlor_chat::keys::{Keyspace, Settings, TtlName};
use parlor_store::{ManualClock, Options, Store};
use parlor_testkit::{Cluster, Postgres, Redis, Valkey, eventually};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// A busy machine must not turn a test about answers into one about time.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server's keys age while the clock of the test stands still. They are given so much more time that it does not matter.
const LONGER: u32 = 100;

pub struct Ground {
    pub store: Store,
    pub server: Option<Redis>,
    /// The servers that hold keys; none of the embedded engine.
    pub primaries: Vec<redis::Client>,
    /// Whether keys have hash tags.
    tagged: bool,
    rows: OnceCell<Rows>,
}

/// What the database is made of, and where it is.
struct Rows {
    url: DatabaseUrl,
    _folder: TempDir,
    _server: Option<Postgres>,
}

impl Ground {
    /// The strict engine, with hash tags: a step that leaves its slot fails.
    pub async fn embedded() -> Self {
        let options = Options {
            strict: true,
            ..Options::default()
        };
        Self::open(options, true, Vec::new()).await
    }

    /// An engine that keeps its data in a folder, at the time of this clock.
    pub async fn on_disk(folder: &Path, clock: ManualClock) -> Self {
        let options = Options {
            data: Some(folder.to_owned()),
            clock: Some(clock),
            ..Options::default()
        };
        Self::open(options, false, Vec::new()).await
    }

    /// Redis, with the documents' names.
    pub async fn redis() -> Self {
        Self::server(Redis::start().await, patient).await
    }

    /// Valkey.
    pub async fn valkey() -> Self {
        Self::server(Valkey::start().await, patient).await
    }

    /// Redis, whose absence is noticed after some seconds.
    pub async fn impatient() -> Self {
        let impatient = |url: &str| Options {
            timeout: Duration::from_secs(10),
            ..patient(url)
        };
        Self::server(Redis::start().await, impatient).await
    }

    async fn server(server: Redis, options: impl FnOnce(&str) -> Options) -> Self {
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
        Self::open(patient(&cluster.url()), true, primaries).await
    }

    async fn open(options: Options, tagged: bool, primaries: Vec<redis::Client>) -> Self {
        let clock = Some(options.clock.clone().unwrap_or_default());
        Self {
            store: Store::open(Options { clock, ..options }).await.unwrap(),
            server: None,
            primaries,
            tagged,
            rows: OnceCell::new(),
        }
    }

    /// The database, opened once more: each is that of another node.
    pub async fn database(&self) -> Database {
        self.hasty_database(PATIENCE).await
    }

    /// As [`database`](Self::database), one that waits for nothing longer than this.
    pub async fn hasty_database(&self, timeout: Duration) -> Database {
        let url = self.rows().await.url.clone();
        let options = database::Options {
            timeout,
            ..database::Options::new(url)
        };
        // To open it may take longer.
        eventually("the database is opened", async || {
            Database::open(options.clone()).await.map(Some)
        })
        .await
    }

    async fn rows(&self) -> &Rows {
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
            Rows {
                url: DatabaseUrl::parse(&text, folder.path()).unwrap(),
                _folder: folder,
                _server: server,
            }
        };
        self.rows.get_or_init(make).await
    }

    /// The surroundings of a capability with these settings.
    pub fn context(&self, settings: Settings) -> Context {
        Context::new(self.store.clone(), self.keys(settings))
    }

    /// Lets who types do so for longer on a server.
    pub fn lengthen_typing(&self, settings: &mut Settings) {
        if !self.primaries.is_empty() {
            let longer = settings.ttls.get(TtlName::Typing) * LONGER;
            settings.ttls.set(TtlName::Typing, longer);
        }
    }

    pub fn keys(&self, settings: Settings) -> Keyspace {
        Keyspace::new(settings, self.tagged).unwrap()
    }

    pub fn now(&self) -> Moment {
        Moment(self.store.clock().now_ms())
    }

    /// Moves time, for the store's clock and for its keys.
    pub async fn advance(&self, by: Duration) {
        parlor_testkit::advance(&self.primaries, by, |by| self.store.clock().advance(by)).await;
    }
}

/// How a store is opened that is given its time.
pub fn patient(url: &str) -> Options {
    Options {
        timeout: PATIENCE,
        ..Options::new(url.parse().unwrap())
    }
}
