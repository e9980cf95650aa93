//! Membership check for other capabilities.

use std::future::Future;
use std::pin::Pin;

use crate::api::error::Result;
use crate::ids::{ConversationId, UserId};

/// Answers whether users are members of conversations.
pub trait Members: Send + Sync {
    /// Whether a user is a member. A conversation that does not exist has no members.
    fn is_member<'a>(
        &'a self,
        conversation: &'a ConversationId,
        user: &'a UserId,
    ) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + 'a>>;
}
