//! Layout `status`: one string with a TTL; `offline` only if a connected user set it.

use super::{Layout, PresenceScripts, layout_scripts};
use crate::ids::UserId;
use crate::keys::{Key, Keyspace};

static SCRIPTS: PresenceScripts = layout_scripts!("status", status);

pub(super) struct Status;

impl Layout for Status {
    fn scripts(&self) -> &'static PresenceScripts {
        &SCRIPTS
    }

    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key> {
        vec![keys.presence_status(user)]
    }
}
