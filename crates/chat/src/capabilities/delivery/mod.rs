//! Delivery positions: how far the messages of a conversation were delivered to a member.

pub mod keys;

use parlor_store::{LuaScript, script};

use crate::api::error::Result;
use crate::bus::frame::{self, BusFrameKind};
use crate::clock::duration_millis;
use crate::context::ChatContext;
use crate::ids::ConversationId;
use crate::keys::TtlName;
use crate::unread::{ReadReceipt, ReceiptChange, ReceiptKind};

static PUBLISH_RECEIPT: LuaScript = script!("scripts/publish_receipt.lua");

/// Raises the delivery key of a member after the row has changed, and publishes the receipt to the conversation.
pub(crate) async fn rise(
    ctx: &ChatContext,
    conversation: &ConversationId,
    receipt: ReadReceipt,
    moved: ReceiptKind,
) -> Result<()> {
    let key = ctx.keys().delivered_seq(conversation, &receipt.user_id);
    let seq = receipt.delivered_seq;
    let change = ReceiptChange {
        conversation_id: conversation.clone(),
        receipt,
        moved,
    };
    let mut told = frame::start_frame(BusFrameKind::Receipt, 128);
    told.extend(serde_json::to_vec(&change).expect("a receipt can be serialized as JSON"));
    let call = PUBLISH_RECEIPT
        .keys(key)
        .arg(seq)
        .arg(duration_millis(ctx.keys().ttl(TtlName::Delivery)))
        .arg(ctx.store().bus().publish_command())
        .arg(ctx.keys().conversation_channel(conversation))
        .arg(told);
    Ok(call.run(&ctx.store().idempotent()).await?)
}
