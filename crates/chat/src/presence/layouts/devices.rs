//! Layout `devices`: a hash with one field for each live device; no key while the user is offline or invisible.

use super::{Layout, Scripts, scripts};
use crate::ids::UserId;
use crate::keys::{Key, Keyspace};

static SCRIPTS: Scripts = scripts!("devices", devices);

pub(super) struct Devices;

impl Layout for Devices {
    fn scripts(&self) -> &'static Scripts {
        &SCRIPTS
    }

    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key> {
        vec![keys.presence_devices(user)]
    }
}
