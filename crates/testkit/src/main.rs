//! Servers for manual use: starts one kind of server, prints its process ids and its URL, and keeps it running until
//! this program ends in any way.
//!
//! `cargo run -p parlor-testkit -- redis|valkey|sentinel|cluster|postgres`

#![expect(
    clippy::panic,
    reason = "a tool for developers: a wrong argument ends it with a message"
)]

use std::future::pending;

use parlor_testkit::{Postgres, Redis, RedisCluster, SentinelSet, Valkey};

#[tokio::main]
async fn main() {
    let server_name = std::env::args().nth(1).unwrap_or_default();
    match server_name.as_str() {
        "redis" => {
            let server = Redis::start().await;
            print_and_wait(&[server.pid()], &server.url()).await;
        }
        "valkey" => {
            let server = Valkey::start().await;
            print_and_wait(&[server.pid()], &server.url()).await;
        }
        "sentinel" => {
            let servers = SentinelSet::start().await;
            print_and_wait(&servers.pids(), &servers.url()).await;
        }
        "cluster" => {
            let servers = RedisCluster::start().await;
            print_and_wait(&servers.pids(), &servers.url()).await;
        }
        "postgres" => {
            let server = Postgres::start().await;
            print_and_wait(&[server.pid()], &server.url()).await;
        }
        _ => panic!("{server_name:?} is not one of redis, valkey, sentinel, cluster, postgres"),
    }
}

async fn print_and_wait(pids: &[u32], url: &str) {
    println!("{pids:?}");
    println!("{url}");
    pending::<()>().await;
}
