//! Operations on unread counts and receipts.
//!
//! Invariant: callers change only their own position. A visitor has read-only access: it can read the counts and mark
//! nothing.

use serde::Deserialize;
use utoipa::ToSchema;

use super::receipts::MAX_RECEIPT_PAGE_SIZE;
use super::{ReadReceiptPage, UnreadCount, UnreadSummary};
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::api::error_code::ErrorCode;
use crate::api::operation::{Operation, OperationInfo};
use crate::chat::Chat;
use crate::ids::{ConversationId, UserId};

/// Page size of receipts if the request has no `limit`.
const DEFAULT_RECEIPT_PAGE_SIZE: u32 = 100;

const MARK_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidId,
    ErrorCode::UserRequired,
    ErrorCode::ReadOnlySession,
    ErrorCode::NotAMember,
];

/// Marks the messages of a conversation as read by the caller, up to a message.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarkRead {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `seq` of the last message that was read. Default: the last message of the conversation.
    #[serde(default)]
    pub seq: Option<u64>,
}

impl Operation for MarkRead {
    const INFO: OperationInfo = OperationInfo {
        name: "unread.read",
        summary: "Marks messages as read up to a message",
        codes: MARK_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = UnreadCount;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UnreadCount> {
        let (user, conversation) = require_writer(caller, &self.conversation_id)?;
        chat.unread().read(user, &conversation, self.seq).await
    }
}

/// Marks the messages of a conversation as unread for the caller, from a message on. Read receipts do not change.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarkUnread {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `seq` of the first message that becomes unread.
    #[schema(minimum = 1)]
    pub seq: u64,
}

impl Operation for MarkUnread {
    const INFO: OperationInfo = OperationInfo {
        name: "unread.mark",
        summary: "Marks messages as unread from a message on",
        codes: MARK_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = UnreadCount;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UnreadCount> {
        let (user, conversation) = require_writer(caller, &self.conversation_id)?;
        if self.seq == 0 {
            let text = "`seq` must be 1 or more";
            return Err(Error::InvalidRequest(text.into()));
        }
        let unread = chat.unread();
        unread.mark_unread(user, &conversation, self.seq).await
    }
}

/// Marks the messages of a conversation as delivered to the caller, up to a message.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarkDelivered {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `seq` of the last message that was delivered. Default: the last message of the conversation.
    #[serde(default)]
    pub seq: Option<u64>,
}

impl Operation for MarkDelivered {
    const INFO: OperationInfo = OperationInfo {
        name: "unread.delivered",
        summary: "Marks messages as delivered up to a message",
        codes: MARK_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = UnreadCount;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UnreadCount> {
        let (user, conversation) = require_writer(caller, &self.conversation_id)?;
        let unread = chat.unread();
        unread.delivered(user, &conversation, self.seq).await
    }
}

/// Lists how far the members of a conversation have received and read its messages. For members and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListReceipts {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `nextCursor` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Maximum number of receipts in the page. Default: 100.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

impl Operation for ListReceipts {
    const INFO: OperationInfo = OperationInfo {
        name: "unread.receipts",
        summary: "Lists how far members have received and read the messages",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::NotAMember,
            ErrorCode::TooMany,
        ],
    };
    type Reply = ReadReceiptPage;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<ReadReceiptPage> {
        let conversation = chat
            .conversations()
            .require_member(caller, &self.conversation_id)
            .await?;
        let limit = match self.limit {
            Some(0) => return Err(Error::InvalidRequest("`limit` must be 1 or more".into())),
            Some(limit) if limit > MAX_RECEIPT_PAGE_SIZE => {
                return Err(Error::TooMany {
                    items: "receipts",
                    given: limit as usize,
                    max: MAX_RECEIPT_PAGE_SIZE as usize,
                });
            }
            limit => limit.unwrap_or(DEFAULT_RECEIPT_PAGE_SIZE),
        };
        let cursor = self.cursor.map(UserId::new).transpose()?;
        let unread = chat.unread();
        unread.receipts(&conversation, cursor.as_ref(), limit).await
    }
}

/// Returns the unread counts of the caller.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
pub struct GetUnread {}

impl Operation for GetUnread {
    const INFO: OperationInfo = OperationInfo {
        name: "unread.get",
        summary: "Returns the unread counts of a user, in total and by conversation",
        codes: &[ErrorCode::InvalidId, ErrorCode::UserRequired],
    };
    type Reply = UnreadSummary;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UnreadSummary> {
        chat.unread().get_summary(caller.require_user()?).await
    }
}

/// Returns the user and the conversation of a mark operation. The row update checks the membership.
fn require_writer<'c>(
    caller: &'c Caller,
    conversation: &str,
) -> Result<(&'c UserId, ConversationId)> {
    let user = caller.require_user()?;
    caller.require_write_access()?;
    Ok((user, ConversationId::new(conversation)?))
}
