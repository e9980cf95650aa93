//! Checks access to a Redis or Valkey server: password, ACL user, TLS.

use std::slice;

use parlor_store::{Store, StoreTls, StoreUrl};

use super::super::store_reader::query;
use super::{Finding, server_info};
use crate::client_address::is_loopback_host;
use crate::config::Config;

/// Checks password and encryption.
pub async fn check_access(store: &Store, config: &Config) -> Vec<Finding> {
    let (credentials, tls, servers) = match &config.store.url {
        StoreUrl::Embedded => return Vec::new(),
        StoreUrl::Redis {
            credentials,
            tls,
            server,
            ..
        } => (credentials, *tls, slice::from_ref(server)),
        StoreUrl::Sentinel {
            credentials,
            tls,
            sentinels,
            ..
        } => (credentials, *tls, &sentinels[..]),
        StoreUrl::Cluster {
            credentials,
            tls,
            seeds,
        } => (credentials, *tls, &seeds[..]),
    };
    let is_local = servers.iter().all(|server| is_loopback_host(&server.host));
    let user: Option<String> = query(store, redis::cmd("ACL").arg("WHOAMI")).await.ok();
    let user = user.as_deref().or(credentials.user.as_deref());
    let has_password = credentials.password.is_some();
    vec![
        check_password(has_password, user.unwrap_or("default"), is_local, config),
        check_tls(tls, is_local),
    ]
}

fn check_password(has_password: bool, user: &str, is_local: bool, config: &Config) -> Finding {
    const CHECK: &str = "access";
    match (has_password, is_local) {
        (true, _) if user == "default" => Finding::ok(CHECK, "password, as the default user"),
        (true, _) => Finding::ok(CHECK, format!("password, as the ACL user {user}")),
        (false, true) => Finding::info(CHECK, "no password; the server is on this machine"),
        (false, false) => Finding::warn(
            CHECK,
            "no password: anyone who can reach the port can read and write everything",
            format!(
                "`{} CONFIG SET requirepass <password>` (and in redis.conf), then set store.password or REDIS_PASSWORD",
                server_info::redis_cli_command(config)
            ),
        ),
    }
}

fn check_tls(tls: StoreTls, is_local: bool) -> Finding {
    const CHECK: &str = "tls";
    match tls {
        StoreTls::On => Finding::ok(CHECK, "encrypted; the certificate is verified"),
        StoreTls::Insecure => Finding::warn(
            CHECK,
            "encrypted, but any certificate is accepted",
            "remove `#insecure` from store.url and set store.ca_cert",
        ),
        StoreTls::Off if is_local => {
            Finding::info(CHECK, "not encrypted; the server is on this machine")
        }
        StoreTls::Off => Finding::warn(
            CHECK,
            "not encrypted",
            "use rediss:// in store.url unless the network is trusted",
        ),
    }
}
