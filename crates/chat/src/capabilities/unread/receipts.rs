//! Receipts: how far each member has received and read a conversation.
//!
//! Invariants:
//! 1. The row of the member is changed first. The delivery key and the frame follow; both only rise, so a late or
//!    repeated publication has no effect.

use super::rows::{self, ReceiptPosition};
use super::scripts::PUBLISH_RECEIPT;
use super::{ReadReceipt, ReadReceiptPage, ReceiptChange, ReceiptKind, Unread};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::bus::frame::{BusFrameKind, encode_json};
use crate::clock::duration_millis;
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;

/// Maximum page size of receipts.
pub(super) const MAX_RECEIPT_PAGE_SIZE: u32 = 1_000;

impl Unread {
    /// Lists receipts of the members of a conversation, ordered by user id, after a cursor.
    pub async fn receipts(
        &self,
        conversation: &ConversationId,
        cursor: Option<&UserId>,
        limit: u32,
    ) -> Result<ReadReceiptPage> {
        let limit = limit.clamp(1, MAX_RECEIPT_PAGE_SIZE);
        let after = cursor.map_or("", UserId::as_str);
        // One more row shows whether there is a next page.
        let mut rows = rows::receipts(&self.database, conversation, after, limit + 1).await?;
        let has_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last = rows.last().filter(|_| has_more);
        let next_cursor = last.map(|it| it.user_id.to_string());
        let receipts = rows.into_iter().map(|row| ReadReceipt {
            user_id: row.user_id,
            delivered_seq: row.position.delivered_seq,
            read_seq: row.position.read_seq,
        });
        Ok(ReadReceiptPage {
            receipts: receipts.collect(),
            next_cursor,
        })
    }

    /// Raises the delivery key of a member and publishes the receipt to the conversation, if a position has moved.
    pub(super) async fn publish_receipt(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        position: Option<ReceiptPosition>,
        moved: ReceiptKind,
    ) {
        let Some(position) = position else {
            return;
        };
        let change = ReceiptChange {
            conversation_id: conversation.clone(),
            receipt: ReadReceipt {
                user_id: user.clone(),
                delivered_seq: position.delivered_seq,
                read_seq: position.read_seq,
            },
            moved,
        };
        let keys = self.ctx.keys();
        let call = PUBLISH_RECEIPT
            .keys(keys.delivered_seq(conversation, user))
            .arg(position.delivered_seq)
            .arg(duration_millis(keys.ttl(TtlName::Delivery)))
            .arg(self.ctx.store().bus().publish_command())
            .arg(keys.conversation_channel(conversation))
            .arg(encode_json(BusFrameKind::Receipt, &change));
        let published = call.run::<()>(&self.ctx.store().idempotent()).await;
        log_failure("publish a receipt", &published.map_err(Into::into));
    }
}
