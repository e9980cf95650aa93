//! A store of each kind, and the macros that run a test body on several of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parlor_store::{Store, StoreOptions};
use parlor_testkit::{Redis, RedisCluster, Valkey};
use tokio::sync::OnceCell;

/// Time after which a step of a test counts as hanging, far longer than any call may take.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// An open store with its own key prefix.
pub struct Fixture {
    pub store: Store,
    tag: String,
    server: Option<Redis>,
}

impl Fixture {
    /// A key. All keys of a fixture share a slot.
    pub fn key(&self, name: &str) -> String {
        format!("{{{}}}:{name}", self.tag)
    }

    /// A key in its own slot.
    pub fn key_in_own_slot(&self, name: impl std::fmt::Display) -> String {
        format!("{}:far:{{{name}}}", self.tag)
    }

    /// Lets time pass, for the store's clock and for its keys.
    pub async fn advance(&self, by: Duration) {
        let primaries = self.server.iter().map(Redis::client).collect::<Vec<_>>();
        parlor_testkit::advance_time(&primaries, by, |by| self.store.clock().advance(by)).await;
    }

    async fn open(options: StoreOptions, server: Option<Redis>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let store = Store::open(options).await.unwrap();
        let tag = format!(
            "t{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Self { store, tag, server }
    }
}

/// Options for a URL of the testkit, with a long timeout: a busy machine must not make tests fail that check only
/// replies.
pub fn options(url: &str) -> StoreOptions {
    StoreOptions {
        request_timeout: TEST_TIMEOUT,
        ..default_timeout_options(url)
    }
}

/// Options with the default timeout, for tests with servers that do not answer.
pub fn default_timeout_options(url: &str) -> StoreOptions {
    StoreOptions::new(url.parse().unwrap())
}

pub async fn embedded() -> Fixture {
    Fixture::open(
        StoreOptions {
            strict: true,
            ..StoreOptions::default()
        },
        None,
    )
    .await
}

pub async fn redis() -> Fixture {
    let server = Redis::start().await;
    Fixture::open(options(&server.url()), Some(server)).await
}

pub async fn valkey() -> Fixture {
    let server = Valkey::start().await;
    Fixture::open(options(&server.url()), Some(server)).await
}

pub async fn cluster() -> Fixture {
    Fixture::open(options(&shared_cluster().await.url()), None).await
}

/// One cluster for all tests that do not change it.
pub async fn shared_cluster() -> &'static RedisCluster {
    static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
    CLUSTER.get_or_init(RedisCluster::start).await
}

/// Runs each body as one test per backend.
macro_rules! contract {
    ($($body:ident on $($engine:ident)+;)+) => { $(
        mod $body {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $engine() {
                    let fixture = crate::fixture::$engine().await;
                    super::$body(&fixture).await;
                }
            )+
        }
    )+ };
}
pub(crate) use contract;

/// Runs the bodies one after the other on one cluster, which takes longer to start than all bodies together.
macro_rules! cluster_contract {
    ($test:ident: $($body:ident;)+) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            $(
                println!("{}", stringify!($body));
                $body(&crate::fixture::cluster().await).await;
            )+
        }
    };
}
pub(crate) use cluster_contract;
