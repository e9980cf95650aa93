//! Delivery: how far messages reached a user.

pub mod keys;

use parlor_store::{Script, script};

use crate::bus::frame::{self, Kind};
use crate::context::{Context, millis};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::keys::TtlName;
use crate::unread::{Moved, Receipt, ReceiptChange};

static RISE: Script = script!("rise.lua");

/// Shows how far a conversation's messages reached a member, after the row says so, and tells the conversation.
pub(crate) async fn rise(
    ctx: &Context,
    conversation: &ConversationId,
    receipt: Receipt,
    moved: Moved,
) -> Result<()> {
    let key = ctx.keys().delivery(conversation, &receipt.user_id);
    let seq = receipt.delivered_seq;
    let change = ReceiptChange {
        conversation_id: conversation.clone(),
        receipt,
        moved,
    };
    let mut told = frame::head(Kind::Receipt, 128);
    told.extend(serde_json::to_vec(&change).expect("texts and numbers are JSON"));
    let call = RISE
        .keys(key)
        .arg(seq)
        .arg(millis(ctx.keys().ttl(TtlName::Delivery)))
        .arg(ctx.store().bus().publish_command())
        .arg(ctx.keys().conversation_bus(conversation))
        .arg(told);
    Ok(call.run(&ctx.store().repeatable()).await?)
}
