//! Checks access to a Redis or Valkey server: password, ACL user, TLS.

use parlor_store::{Store, StoreCredentials, StoreTls, StoreUrl};

use super::super::store_reader::query;
use super::{Finding, server_info};
use crate::client_address::is_loopback_host;
use crate::config::Config;

/// Checks the password and names the user.
pub async fn check_authentication(store: &Store, config: &Config) -> Finding {
    const CHECK: &str = "access";
    let credentials = match &config.store.url {
        StoreUrl::Embedded => &StoreCredentials::default(),
        StoreUrl::Redis { credentials, .. }
        | StoreUrl::Sentinel { credentials, .. }
        | StoreUrl::Cluster { credentials, .. } => credentials,
    };
    let user: Option<String> = query(store, redis::cmd("ACL").arg("WHOAMI")).await.ok();
    let user = user
        .or_else(|| credentials.user.clone())
        .unwrap_or_else(|| "default".into());
    match (&credentials.password, is_local(config)) {
        (Some(_), _) if user == "default" => Finding::ok(CHECK, "password, as the default user"),
        (Some(_), _) => Finding::ok(CHECK, format!("password, as the ACL user {user}")),
        (None, true) => Finding::info(CHECK, "no password; the server is on this machine"),
        (None, false) => Finding::warn(
            CHECK,
            "no password: anyone who can reach the port can read and write everything",
            format!(
                "`{} CONFIG SET requirepass <password>` (and in redis.conf), then set store.password or REDIS_PASSWORD",
                server_info::redis_cli_command(config)
            ),
        ),
    }
}

/// Checks the encryption of the connection.
pub fn check_tls(config: &Config) -> Finding {
    const CHECK: &str = "tls";
    let tls = match &config.store.url {
        StoreUrl::Embedded => StoreTls::Off,
        StoreUrl::Redis { tls, .. }
        | StoreUrl::Sentinel { tls, .. }
        | StoreUrl::Cluster { tls, .. } => *tls,
    };
    match tls {
        StoreTls::On => Finding::ok(CHECK, "encrypted; the certificate is verified"),
        StoreTls::Insecure => Finding::warn(
            CHECK,
            "encrypted, but any certificate is accepted",
            "remove `#insecure` from store.url and set store.ca_cert",
        ),
        StoreTls::Off if is_local(config) => {
            Finding::info(CHECK, "not encrypted; the server is on this machine")
        }
        StoreTls::Off => Finding::warn(
            CHECK,
            "not encrypted",
            "use rediss:// in store.url unless the network is trusted",
        ),
    }
}

/// True if all servers in the URL are on this machine.
fn is_local(config: &Config) -> bool {
    match &config.store.url {
        StoreUrl::Embedded => true,
        StoreUrl::Redis { server, .. } => is_loopback_host(&server.host),
        StoreUrl::Sentinel {
            sentinels: servers, ..
        }
        | StoreUrl::Cluster { seeds: servers, .. } => {
            servers.iter().all(|server| is_loopback_host(&server.host))
        }
    }
}
