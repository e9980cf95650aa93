//! Who may reach a Redis or Valkey server: password, ACL user, TLS.

use parlor_store::{Login, StoreUrl, Tls};

use super::super::reader::Reader;
use super::{Finding, told};
use crate::config::Config;

/// Who we are to the server.
pub async fn login(reader: &Reader, config: &Config) -> Finding {
    const CHECK: &str = "access";
    let login = match &config.store.options.url {
        StoreUrl::Embedded => &Login::default(),
        StoreUrl::Redis { login, .. }
        | StoreUrl::Sentinel { login, .. }
        | StoreUrl::Cluster { login, .. } => login,
    };
    let user: Option<String> = reader.ask(redis::cmd("ACL").arg("WHOAMI")).await.ok();
    let user = user
        .or_else(|| login.user.clone())
        .unwrap_or_else(|| "default".into());
    match (&login.password, local(config)) {
        (Some(_), _) if user == "default" => Finding::ok(CHECK, "by password, as the user default"),
        (Some(_), _) => Finding::ok(CHECK, format!("by password, as the ACL user {user}")),
        (None, true) => Finding::info(CHECK, "no password; the server is on this machine"),
        (None, false) => Finding::warn(
            CHECK,
            "no password: whoever reaches the port reads and writes everything",
            format!(
                "`{} CONFIG SET requirepass <password>` (and in redis.conf), then store.password or REDIS_PASSWORD",
                told::cli(config)
            ),
        ),
    }
}

/// How the connection is protected.
pub fn tls(config: &Config) -> Finding {
    const CHECK: &str = "tls";
    let tls = match &config.store.options.url {
        StoreUrl::Embedded => Tls::Off,
        StoreUrl::Redis { tls, .. }
        | StoreUrl::Sentinel { tls, .. }
        | StoreUrl::Cluster { tls, .. } => *tls,
    };
    match tls {
        Tls::On => Finding::ok(CHECK, "encrypted, the certificate is checked"),
        Tls::Insecure => Finding::warn(
            CHECK,
            "encrypted, but any certificate is accepted",
            "drop `#insecure` from store.url and set store.ca_cert",
        ),
        Tls::Off if local(config) => {
            Finding::info(CHECK, "not encrypted; the server is on this machine")
        }
        Tls::Off => Finding::warn(
            CHECK,
            "not encrypted",
            "use rediss:// in store.url where the network is not your own",
        ),
    }
}

/// True if every server named in the URL is on this machine.
fn local(config: &Config) -> bool {
    let loopback = |host: &str| {
        host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    };
    match &config.store.options.url {
        StoreUrl::Embedded => true,
        StoreUrl::Redis { server, .. } => loopback(&server.host),
        StoreUrl::Sentinel {
            sentinels: servers, ..
        }
        | StoreUrl::Cluster { seeds: servers, .. } => {
            servers.iter().all(|server| loopback(&server.host))
        }
    }
}
