//! What callers can ask of unread counts and receipts.
//!
//! Always true: a position is the member's own. A visitor may look at what waits, and marks nothing: they read only.

use serde::Deserialize;
use utoipa::ToSchema;

use super::reads::MAX_RECEIPT_PAGE_SIZE;
use super::{ReadReceiptPage, UnreadCount, UnreadSummary};
use crate::access::Caller;
use crate::chat::Chat;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::operation::{Operation, OperationInfo};

/// Receipts in one answer, unless it is said.
const DEFAULT_RECEIPT_PAGE_SIZE: u32 = 100;

const MARK_CODES: &[Code] = &[
    Code::InvalidId,
    Code::UserRequired,
    Code::ReadOnlySession,
    Code::NotAMember,
];

/// The caller has read a conversation's messages up to one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarkRead {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// The last message that was read; the conversation's last one if it is not said.
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

/// The messages of a conversation from one on wait for the caller again. What others see of what they read stays.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarkUnread {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// The first message that is unread again.
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

/// Messages of a conversation have reached the caller up to one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarkDelivered {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// The last message that reached them; the conversation's last one if it is not said.
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

/// How far the members of a conversation have got and read its messages. For its members.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListReceipts {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// What the part before said as `nextCursor`.
    #[serde(default)]
    pub cursor: Option<String>,
    /// How many; 100 if it is not said.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

impl Operation for ListReceipts {
    const INFO: OperationInfo = OperationInfo {
        name: "unread.receipts",
        summary: "Lists how far members have received and read the messages",
        codes: &[
            Code::InvalidId,
            Code::UserRequired,
            Code::NotAMember,
            Code::TooMany,
        ],
    };
    type Reply = ReadReceiptPage;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<ReadReceiptPage> {
        let conversation = caller
            .authorize_member(&self.conversation_id, chat.members())
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

/// What waits for the caller.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
pub struct GetUnread {}

impl Operation for GetUnread {
    const INFO: OperationInfo = OperationInfo {
        name: "unread.get",
        summary: "Returns the unread counts of a user, in total and by conversation",
        codes: &[Code::InvalidId, Code::UserRequired],
    };
    type Reply = UnreadSummary;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UnreadSummary> {
        chat.unread().get_summary(caller.user()?).await
    }
}

/// Who changes their position, and where. Whether they are a member the row says.
fn require_writer<'c>(
    caller: &'c Caller,
    conversation: &str,
) -> Result<(&'c UserId, ConversationId)> {
    let user = caller.user()?;
    caller.require_write_access()?;
    Ok((user, ConversationId::new(conversation)?))
}
