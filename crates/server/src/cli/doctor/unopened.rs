//! A store that cannot be opened: what to do about it depends on why.

use parlor_embedded::OpenError as EmbeddedError;
use parlor_store::OpenError;
use redis::{ErrorKind, ServerErrorKind};

use crate::config::Config;

/// What mends it.
pub fn mend(error: &anyhow::Error, config: &Config) -> String {
    if let Some(error) = error.downcast_ref::<EmbeddedError>() {
        return embedded(error, config);
    }
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::Embedded(error)) => embedded(error, config),
        Some(OpenError::Away { .. }) => {
            "start the server, let this machine through its firewall, or correct store.url".into()
        }
        Some(OpenError::Login { source, .. }) if source.kind() == NO_PERMISSION => {
            let prefix = &config.keys.prefix;
            format!(
                "as an administrator: `ACL SETUSER <user> +@all -@dangerous +info ~{prefix}* &{prefix}*`"
            )
        }
        Some(OpenError::Login { .. }) => {
            "correct user and password in store.url, or store.password or REDIS_PASSWORD".into()
        }
        Some(OpenError::File { .. }) => {
            "correct store.ca_cert, store.client_cert or store.client_key".into()
        }
        Some(OpenError::Unfit { .. }) | None => "correct store.url".into(),
    }
}

const NO_PERMISSION: ErrorKind = ErrorKind::Server(ServerErrorKind::NoPerm);

fn embedded(error: &EmbeddedError, config: &Config) -> String {
    let data = config.server.data.display();
    match error {
        EmbeddedError::Damaged { .. } => {
            format!("restore {data} from a backup, or `mv {data} {data}.damaged` to start empty")
        }
        EmbeddedError::Newer { .. } => {
            "use the version of Parlor that wrote it, or a later one".into()
        }
        EmbeddedError::Locked { .. } => "end the process that uses it".into(),
        EmbeddedError::Io { .. } | EmbeddedError::Sqlite { .. } => {
            format!("run as the user that owns it, or `chown -R $(id -u) {data}`")
        }
    }
}
