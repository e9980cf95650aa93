//! What can be set about the capabilities, beyond keys and times.

use std::time::Duration;

use crate::sessions::Issuer;

/// The settings of a chat. The defaults are those of the documents.
#[derive(Debug, Clone)]
pub struct Options {
    /// What lost connections have to come back (`presence.grace`).
    pub grace: Duration,
    /// Messages.
    pub messages: MessageOptions,
    /// Up to how many members each member's unread counter is written with a message (`unread.fanout_limit`).
    pub fanout_limit: u64,
    /// Sessions.
    pub sessions: SessionOptions,
}

/// What can be set about messages.
#[derive(Debug, Clone)]
pub struct MessageOptions {
    /// Most bytes of a text (`messages.max_content`).
    pub max_content: usize,
    /// Most bytes of metadata (`messages.max_metadata`).
    pub max_metadata: usize,
    /// How long a sender may edit or delete (`messages.edit_window`).
    pub edit_window: Duration,
    /// Messages a user may send within the window (`limits.messages`).
    pub rate: u32,
    /// Whether messages are taken while the store cannot count them (`limits.messages_without_store`).
    pub without_store: bool,
}

/// What can be set about sessions.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// A new session of a user ends the former one (`sessions.single_device`).
    pub single_device: bool,
    /// Visitors without an account may come in (`sessions.anonymous`).
    pub anonymous: bool,
    /// Who signs their tokens; nobody where that happens elsewhere.
    pub issuer: Option<Issuer>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(5),
            messages: MessageOptions {
                max_content: 8 * 1024,
                max_metadata: 4 * 1024,
                edit_window: Duration::from_secs(300),
                rate: 20,
                without_store: true,
            },
            fanout_limit: 32,
            sessions: SessionOptions {
                single_device: false,
                anonymous: false,
                issuer: None,
            },
        }
    }
}
