//! What can be set about the capabilities, beyond keys and times.

use std::time::Duration;

use crate::sessions::VisitorTokenIssuer;

/// The settings of a chat. The defaults are those of the documents.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// What lost connections have to come back (`presence.grace`).
    pub grace_period: Duration,
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
    pub max_content_bytes: usize,
    /// Most bytes of metadata (`messages.max_metadata`).
    pub max_metadata_bytes: usize,
    /// How long a sender may edit or delete (`messages.edit_window`).
    pub edit_window: Duration,
    /// Messages a user may send within the window (`limits.messages`).
    pub rate: u32,
    /// Whether messages are taken while the store cannot count them (`limits.messages_without_store`).
    pub accept_without_store: bool,
}

/// What can be set about sessions.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// A new session of a user ends the former one (`sessions.single_device`).
    pub single_device: bool,
    /// Visitors without an account may come in (`sessions.anonymous`).
    pub allow_visitors: bool,
    /// Who signs their tokens; nobody where that happens elsewhere.
    pub visitor_token_issuer: Option<VisitorTokenIssuer>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            grace_period: Duration::from_secs(5),
            messages: MessageOptions {
                max_content_bytes: 8 * 1024,
                max_metadata_bytes: 4 * 1024,
                edit_window: Duration::from_secs(300),
                rate: 20,
                accept_without_store: true,
            },
            fanout_limit: 32,
            sessions: SessionOptions {
                single_device: false,
                allow_visitors: false,
                visitor_token_issuer: None,
            },
        }
    }
}
