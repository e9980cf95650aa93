//! Whether somebody belongs to a conversation, for the capabilities that ask.

use std::future::Future;
use std::pin::Pin;

use crate::error::Result;
use crate::ids::{ConversationId, UserId};

/// Knows who belongs to which conversation.
pub trait Members: Send + Sync {
    /// Whether a user belongs to a conversation. One that does not exist has no members.
    fn is_member<'a>(
        &'a self,
        conversation: &'a ConversationId,
        user: &'a UserId,
    ) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + 'a>>;
}
