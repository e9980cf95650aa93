//! What callers can ask of unread counts and receipts.
//!
//! Always true: a position is the member's own. A visitor may look at what waits, and marks nothing: they read only.

use serde::Deserialize;
use utoipa::ToSchema;

use super::reads::MOST_RECEIPTS;
use super::{Badge, Counts, ReceiptPage};
use crate::access::Caller;
use crate::chat::Chat;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::operation::{Info, Operation};

/// Receipts in one answer, unless it is said.
const RECEIPTS: u32 = 100;

const CHANGE: &[Code] = &[
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
    const INFO: Info = Info {
        name: "unread.read",
        summary: "Says that a user has read up to a message",
        codes: CHANGE,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = Badge;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Badge> {
        let (user, conversation) = changes(caller, &self.conversation_id)?;
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
    const INFO: Info = Info {
        name: "unread.mark",
        summary: "Marks messages as unread from one on",
        codes: CHANGE,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = Badge;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Badge> {
        let (user, conversation) = changes(caller, &self.conversation_id)?;
        if self.seq == 0 {
            let text = "`seq` is the number of a message, which is 1 or more";
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
    const INFO: Info = Info {
        name: "unread.delivered",
        summary: "Says that messages have reached a user up to one",
        codes: CHANGE,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = Badge;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Badge> {
        let (user, conversation) = changes(caller, &self.conversation_id)?;
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
    const INFO: Info = Info {
        name: "unread.receipts",
        summary: "How far members have got and read the messages",
        codes: &[
            Code::InvalidId,
            Code::UserRequired,
            Code::NotAMember,
            Code::TooMany,
        ],
    };
    type Reply = ReceiptPage;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<ReceiptPage> {
        let conversation = caller
            .member_of(&self.conversation_id, chat.members())
            .await?;
        let limit = match self.limit {
            Some(0) => return Err(Error::InvalidRequest("`limit` is 1 or more".into())),
            Some(limit) if limit > MOST_RECEIPTS => {
                return Err(Error::TooMany {
                    what: "receipts",
                    given: limit as usize,
                    most: MOST_RECEIPTS as usize,
                });
            }
            limit => limit.unwrap_or(RECEIPTS),
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
    const INFO: Info = Info {
        name: "unread.get",
        summary: "How many messages wait for a user, in all and by conversation",
        codes: &[Code::InvalidId, Code::UserRequired],
    };
    type Reply = Counts;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Counts> {
        chat.unread().counts(caller.user()?).await
    }
}

/// Who changes their position, and where. Whether they are a member the row says.
fn changes<'c>(caller: &'c Caller, conversation: &str) -> Result<(&'c UserId, ConversationId)> {
    let user = caller.user()?;
    caller.may_write()?;
    Ok((user, ConversationId::new(conversation)?))
}
