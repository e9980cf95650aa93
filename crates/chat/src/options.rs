//! Options of the capabilities. Key names and TTLs are in [`KeySettings`](crate::keys::KeySettings).

use std::time::Duration;

use crate::sessions::VisitorTokenIssuer;

/// Options of a chat. The defaults are the documented defaults of the configuration.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// Time that a lost connection has to reconnect (`presence.grace`).
    pub grace_period: Duration,
    /// Options of messages.
    pub messages: MessageOptions,
    /// Maximum number of members for which a message also updates the stored unread counts (`unread.fanout_limit`).
    pub fanout_limit: u64,
    /// Options of sessions.
    pub sessions: SessionOptions,
}

/// Options of messages.
#[derive(Debug, Clone)]
pub struct MessageOptions {
    /// Maximum size of the content in bytes (`messages.max_content`).
    pub max_content_bytes: usize,
    /// Maximum size of the metadata in bytes (`messages.max_metadata`).
    pub max_metadata_bytes: usize,
    /// Time in which the sender may edit or delete a message (`messages.edit_window`).
    pub edit_window: Duration,
    /// Maximum number of messages per user and window (`limits.messages`).
    pub max_messages_per_window: u32,
    /// Accepts messages although the store is unavailable and the rate limit cannot be checked
    /// (`limits.messages_without_store`).
    pub accept_without_store: bool,
}

/// Options of sessions.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// A new session of a user ends the connections of the earlier one (`sessions.single_device`).
    pub single_device: bool,
    /// Visitors without an account may begin a session (`sessions.anonymous`).
    pub allow_visitors: bool,
    /// Signs the tokens of visitors; `None` if another service signs tokens.
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
                max_messages_per_window: 20,
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
