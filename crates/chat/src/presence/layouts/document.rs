//! Layout `document`: one JSON document; no key while the user is offline or invisible.

use super::{Layout, Scripts, scripts};
use crate::ids::UserId;
use crate::keys::{Key, Keyspace};

static SCRIPTS: Scripts = scripts!("document", document);

pub(super) struct Document;

impl Layout for Document {
    fn scripts(&self) -> &'static Scripts {
        &SCRIPTS
    }

    fn keys(&self, keys: &Keyspace, user: &UserId) -> Vec<Key> {
        vec![keys.presence_document(user)]
    }
}
