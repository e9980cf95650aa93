//! Layout `sockets`: a flag and a set of sockets without a time to live; the sweeper ends what nobody beats for.

use super::{Layout, Scripts, scripts};
use crate::ids::UserId;
use crate::keys::{Key, Keyspace};

static SCRIPTS: Scripts = scripts!("sockets");

pub(super) struct Sockets;

impl Layout for Sockets {
    fn scripts(&self) -> &'static Scripts {
        &SCRIPTS
    }

    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key> {
        vec![keys.presence_online(user), keys.presence_sockets(user)]
    }
}
