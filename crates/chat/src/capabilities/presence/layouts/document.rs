//! Layout `document`: one JSON document; no key while the user is offline or invisible.

use super::{Layout, PresenceScripts, layout_scripts};
use crate::ids::UserId;
use crate::keys::{Key, Keyspace};

static SCRIPTS: PresenceScripts = layout_scripts!("document", document);

pub(super) struct Document;

impl Layout for Document {
    fn scripts(&self) -> &'static PresenceScripts {
        &SCRIPTS
    }

    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key> {
        vec![keys.presence_document(user)]
    }
}
