//! How to fix a store that cannot be opened, by the kind of the error.

use parlor_embedded::EngineOpenError as EmbeddedError;
use parlor_store::StoreOpenError;
use redis::{ErrorKind, ServerErrorKind};

use crate::config::Config;

/// How to fix the error.
pub fn fix_for_open_error(error: &anyhow::Error, config: &Config) -> String {
    match error.downcast_ref::<StoreOpenError>() {
        Some(StoreOpenError::Embedded(error)) => fix_for_embedded(error, config),
        Some(StoreOpenError::Unreachable { .. }) => {
            "start the server, allow this machine in its firewall, or correct store.url".into()
        }
        Some(StoreOpenError::AuthenticationFailed { source, .. })
            if source.kind() == NO_PERMISSION =>
        {
            let prefix = &config.keys.prefix;
            format!(
                "as an administrator: `ACL SETUSER <user> +@all -@dangerous +info ~{prefix}* &{prefix}*`"
            )
        }
        Some(StoreOpenError::AuthenticationFailed { .. }) => {
            "correct user and password in store.url, or store.password or REDIS_PASSWORD".into()
        }
        Some(StoreOpenError::UnreadableFile { .. }) => {
            "correct store.ca_cert, store.client_cert or store.client_key".into()
        }
        Some(StoreOpenError::Misconfigured { .. }) | None => "correct store.url".into(),
    }
}

const NO_PERMISSION: ErrorKind = ErrorKind::Server(ServerErrorKind::NoPerm);

fn fix_for_embedded(error: &EmbeddedError, config: &Config) -> String {
    let data = config.server.data_folder.display();
    match error {
        EmbeddedError::Corrupt { .. } => {
            format!("restore {data} from a backup, or `mv {data} {data}.damaged` to start empty")
        }
        EmbeddedError::NewerFormat { .. } => {
            "use the version of Parlor that wrote it, or a later one".into()
        }
        EmbeddedError::Locked { .. } => "stop the process that uses it".into(),
        EmbeddedError::Io { .. } | EmbeddedError::Sqlite { .. } => {
            format!("run as the user that owns it, or `chown -R $(id -u) {data}`")
        }
    }
}
