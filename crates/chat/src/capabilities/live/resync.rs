//! Resync: reads from the database what a conversation feed has missed.
//!
//! Invariants:
//! 1. Events are delivered in this order: members who left, the conversation if it has changed, changes by `rev`,
//!    messages by `seq`, then the held frames. The row of the conversation is read first. A message with a revision
//!    above that of the row was changed meanwhile; then the resync starts again, because other changes may be missing
//!    from what was read.
//! 2. The resync repeats until nothing is missing or the subscription is dropped. If the database is unavailable, it
//!    retries with increasing delays.
//! 3. If frames were lost, all receipts of a conversation with up to `MAX_MEMBERS_FOR_RECEIPT_RESYNC` members are
//!    delivered again; a repeated receipt is harmless. In larger conversations clients load receipts themselves.
//! 4. At most `MAX_CONCURRENT_RESYNCS` feeds of a node resync at a time, so a lost bus connection does not overload the
//!    database.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use super::conversation_feed::{ConversationFeed, FeedState};
use super::revision_cursor::RevisionCursor;
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::conversations::{Conversation, ConversationRow, MemberChange};
use crate::unread::{ReadReceipt, ReceiptChange, ReceiptKind};

/// Maximum number of feeds of a node that resync at the same time.
pub(super) const MAX_CONCURRENT_RESYNCS: usize = 16;
/// Maximum number of members of a conversation whose receipts are delivered again after frames were lost.
const MAX_MEMBERS_FOR_RECEIPT_RESYNC: u32 = 32;
/// First and longest delay between two attempts of a resync. The delay doubles with each attempt that makes no
/// progress.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Spawns the resync task of a feed that has started to hold its frames.
pub(super) fn spawn_resync(feed: &ConversationFeed) {
    if let Some(feed) = feed.weak_self.upgrade() {
        tokio::spawn(async move {
            tokio::select! {
                () = run_resync(&feed) => {}
                () = feed.close_signal.notified() => {}
            }
        });
    }
}

async fn run_resync(feed: &ConversationFeed) {
    let mut delay = MIN_RETRY_DELAY;
    loop {
        let before = feed.state.lock().delivered_through;
        let result = feed.resync_once().await;
        log_failure("resync a conversation feed", &result);
        match result {
            Ok(true) => return,
            Ok(false) if feed.state.lock().delivered_through > before => delay = MIN_RETRY_DELAY,
            // The frame can name a message that the database does not contain, or not yet.
            Ok(false) | Err(_) => {
                sleep(delay).await;
                delay = (delay * 2).min(MAX_RETRY_DELAY);
            }
        }
    }
}

impl ConversationFeed {
    /// Initializes the feed, which holds its frames since it subscribed to the bus, and delivers the held frames.
    /// Earlier events are not delivered: clients load the conversation after this call.
    pub(super) async fn open(&self) -> Result<()> {
        let messages = &self.live.messages;
        // Read before the head: a later message is delivered when its frame arrives, or by a resync if the frame is
        // lost.
        let applied_seq = messages.applied_seq(&self.conversation).await?;
        let row = self.read_conversation().await?;
        let row = row.ok_or_else(|| Error::NotAMember(self.conversation.clone()))?;
        let typers = self.live.typing.typing_users(&self.conversation).await?;
        let now = self.live.ctx.now();
        let mut state = self.state.lock();
        state.delivered_through = applied_seq.unwrap_or(row.last_seq);
        state.last_seq_at_open = row.last_seq;
        state.revisions = RevisionCursor::new(row.rev);
        state.members_version = row.members_version;
        state.announced_members_version = row.members_version;
        state.conversation_version = row.version;
        for mut typer in typers {
            // Clients load the current typers themselves, so the feed only delivers when these typers stop.
            typer.until = typer.until.min(now.saturating_add(self.live.typing_ttl()));
            self.live.typing_deadlines.add(self, &typer);
            state.typers.insert(typer.user_id.clone(), typer);
        }
        if !self.drain_held(&mut state) {
            spawn_resync(self);
        }
        Ok(())
    }

    async fn read_conversation(&self) -> Result<Option<ConversationRow>> {
        let conversations = &self.live.conversations;
        conversations.find_conversation(&self.conversation).await
    }

    /// Runs one resync attempt: delivers the missing events and the held frames. False if events are still missing.
    async fn resync_once(&self) -> Result<bool> {
        let _permit = self.live.resync_permits.acquire().await;
        if let Some(held) = &mut self.state.lock().held_frames {
            held.resync_again = false;
        }
        let Some(row) = self.read_conversation().await? else {
            let mut state = self.state.lock();
            if self.is_active(&state) {
                self.deliver_deleted(&mut state);
            }
            state.held_frames = None;
            return Ok(true);
        };
        let announced = self.state.lock().announced_members_version;
        self.resync_members(&row).await?;
        self.resync_conversation(&row, announced);
        self.resync_changes(&row).await?;
        if !self.resync_messages(&row).await? {
            return Ok(false);
        }
        self.resync_receipts(&row).await?;
        let typers = match self.live.typing.typing_users(&self.conversation).await {
            // The known indicators expire by themselves, and the resync after the outage reads them again.
            Err(error) if error.is_store_outage() => None,
            typers => Some(typers?),
        };
        let mut state = self.state.lock();
        if !self.is_active(&state) {
            state.held_frames = None;
            return Ok(true);
        }
        if let Some(typers) = typers {
            self.replace_typers(&mut state, typers, self.live.ctx.now());
        }
        Ok(self.drain_held(&mut state))
    }

    /// Delivers which of the users that this node shows the conversation to have left it.
    async fn resync_members(&self, row: &ConversationRow) -> Result<()> {
        let users = {
            let state = self.state.lock();
            if state.members_version == row.members_version || !self.is_active(&state) {
                return Ok(());
            }
            self.subscriber.users()
        };
        let conversations = &self.live.conversations;
        let left = conversations
            .filter_non_members(&self.conversation, &users)
            .await?;
        let mut state = self.state.lock();
        if self.is_active(&state) {
            state.members_version = row.members_version;
            let left: Vec<_> = left.into_iter().map(MemberChange::left).collect();
            self.deliver_members_changed(&mut state, row.members_version, &left);
        }
        Ok(())
    }

    /// Delivers the conversation if it has changed, or if members have changed and the changes are not known.
    fn resync_conversation(&self, row: &ConversationRow, announced_members_version: u64) {
        let mut state = self.state.lock();
        let is_changed = row.version > state.conversation_version
            || row.members_version > announced_members_version;
        if is_changed && self.is_active(&state) {
            let conversation = Conversation::from(row.clone());
            let json = to_json(&conversation);
            self.deliver_conversation_updated(&mut state, row.version, row.members_version, &json);
        }
    }

    /// Delivers the changes since the last delivered revision, including changes of messages that are not delivered
    /// yet.
    async fn resync_changes(&self, row: &ConversationRow) -> Result<()> {
        let mut rev = self.state.lock().revisions.delivered_rev();
        while rev < row.rev {
            let messages = &self.live.messages;
            let page = messages.changed_messages_through(&self.conversation, rev, row.last_seq);
            let page = page.await?;
            let Some(last) = page.last() else { break };
            rev = last.rev;
            let mut state = self.state.lock();
            for message in page.iter().filter(|it| it.rev <= row.rev) {
                if !self.is_active(&state) {
                    return Ok(());
                }
                let (json, deleted) = (to_json(message), message.deleted_at.is_some());
                match message.seq > state.delivered_through {
                    true => {
                        self.deliver_undelivered_change(message.seq, message.rev, deleted, &json);
                    }
                    false => {
                        self.deliver_change(&mut state, message.seq, message.rev, deleted, &json);
                    }
                }
            }
        }
        self.state.lock().revisions.advance_after_resync(row.rev);
        Ok(())
    }

    /// Delivers the messages after the last delivered one; false if one of them was changed meanwhile.
    async fn resync_messages(&self, row: &ConversationRow) -> Result<bool> {
        loop {
            let cursor = self.state.lock().delivered_through;
            if cursor >= row.last_seq {
                return Ok(true);
            }
            let page = self
                .live
                .messages
                .messages_after(&self.conversation, cursor)
                .await?;
            let mut state = self.state.lock();
            for message in &page {
                if !self.is_active(&state) {
                    return Ok(true);
                }
                if message.rev > row.rev {
                    return Ok(message.seq > row.last_seq);
                }
                self.deliver_message(&mut state, message.seq, message.rev, &to_json(message));
            }
            if state.delivered_through == cursor {
                // The rows were deleted together with the conversation. A frame reports the deletion.
                return Ok(true);
            }
        }
    }

    /// Delivers the receipts of all members if receipts may have been lost and the conversation is small.
    async fn resync_receipts(&self, row: &ConversationRow) -> Result<()> {
        let receipts_lost = |state: &FeedState| {
            state
                .held_frames
                .as_ref()
                .is_some_and(|held| held.receipts_lost)
        };
        if !receipts_lost(&self.state.lock())
            || row.member_count > u64::from(MAX_MEMBERS_FOR_RECEIPT_RESYNC)
        {
            return Ok(());
        }
        let unread = &self.live.unread;
        let page = unread.receipts(&self.conversation, None, MAX_MEMBERS_FOR_RECEIPT_RESYNC);
        let page = page.await?;
        let mut state = self.state.lock();
        if !self.is_active(&state) {
            return Ok(());
        }
        for receipt in page.receipts {
            self.deliver_member_receipt(receipt);
        }
        if let Some(held) = &mut state.held_frames {
            // Receipts that were lost during this read are delivered by the next attempt.
            held.receipts_lost = held.resync_again;
        }
        Ok(())
    }

    fn deliver_member_receipt(&self, receipt: ReadReceipt) {
        let (delivered_seq, read_seq) = (receipt.delivered_seq, receipt.read_seq);
        let mut change = ReceiptChange {
            conversation_id: self.conversation.clone(),
            receipt,
            moved: ReceiptKind::Read,
        };
        // A read message is also delivered, so a separate `Delivered` receipt is needed only above `read_seq`.
        if read_seq > 0 {
            self.deliver_receipt(&change);
        }
        if delivered_seq > read_seq {
            change.moved = ReceiptKind::Delivered;
            self.deliver_receipt(&change);
        }
    }

    fn is_active(&self, state: &FeedState) -> bool {
        !state.is_deleted && !self.is_closed.load(Ordering::Acquire)
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("messages and conversations can be serialized as JSON")
}
