//! Layout `devices`: a hash with one field per live device; no key while the user is offline or invisible.

use super::{Layout, PresenceScripts, layout_scripts};
use crate::ids::UserId;
use crate::keys::{Key, Keyspace};

static SCRIPTS: PresenceScripts = layout_scripts!("devices", devices);

pub(super) struct Devices;

impl Layout for Devices {
    fn scripts(&self) -> &'static PresenceScripts {
        &SCRIPTS
    }

    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key> {
        vec![keys.presence_devices(user)]
    }
}
