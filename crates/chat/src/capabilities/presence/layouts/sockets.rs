//! Layout `sockets`: a flag and a set of sockets, both without TTL; the sweep removes expired sockets.

use super::{Layout, PresenceScripts, layout_scripts};
use crate::ids::UserId;
use crate::keys::{Key, Keyspace};

static SCRIPTS: PresenceScripts = layout_scripts!("sockets");

pub(super) struct Sockets;

impl Layout for Sockets {
    fn scripts(&self) -> &'static PresenceScripts {
        &SCRIPTS
    }

    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key> {
        vec![keys.presence_online(user), keys.presence_sockets(user)]
    }
}
