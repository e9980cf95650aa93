//! Reading what a room has missed.
//!
//! Always true:
//! 1. What is read is told in this order: who is no member any more, changes by their revision, messages. Then
//!    come the frames that were held meanwhile. A message that was changed since the reading began is read again: what
//!    changed before it may not have been among what was read.
//! 2. It goes on until nothing is missing or nobody follows; a database that is away is waited for.
//! 3. Where frames were lost, a small conversation is told all its receipts: which of them moved nobody knows, and one that
//!    is told again changes nothing. Of a larger one whoever shows them asks.
//! 4. A node mends so many rooms at a time: a bus that was lost does not become a storm on the database.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::revs::RevisionCursor;
use super::room::{ConversationFeed, FeedState};
use crate::error::{Error, Result};
use crate::messages::{ConversationHead, Message};
use crate::ticking::log_failure;
use crate::unread::{ReadReceipt, ReceiptChange, ReceiptKind};

/// Rooms that are mended at one time.
pub(super) const MAX_CONCURRENT_RESYNCS: usize = 16;
/// Members of a conversation whose receipts are told after frames were lost.
const MAX_MEMBERS_FOR_RECEIPT_RESYNC: u32 = 32;
/// Before what could not be read is read again: this, and twice as long each time, up to the second.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Has a room mended that holds its frames from now on.
pub(super) fn spawn_resync(room: &ConversationFeed) {
    if let Some(room) = room.weak_self.upgrade() {
        tokio::spawn(async move {
            tokio::select! {
                () = run_resync(&room) => {}
                () = room.close_signal.notified() => {}
            }
        });
    }
}

async fn run_resync(room: &ConversationFeed) {
    let mut pause = MIN_RETRY_DELAY;
    loop {
        let before = room.state.lock().delivered_through;
        let read = room.resync_once().await;
        log_failure("resync a conversation feed", &read);
        match read {
            Ok(true) => return,
            Ok(false) if room.state.lock().delivered_through > before => pause = MIN_RETRY_DELAY,
            // A frame may name what the rows do not have, or not yet.
            Ok(false) | Err(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_RETRY_DELAY);
            }
        }
    }
}

impl ConversationFeed {
    /// Fills a room that holds its frames since it listens, and tells what came since. What was published before is for
    /// those to read who are shown the conversation now.
    pub(super) async fn open(&self) -> Result<()> {
        let messages = &self.live.messages;
        // Before the rows: what is above it is told when it is published, or read when it was lost.
        let published = messages.applied_seq(&self.conversation).await?;
        let head = messages.head(&self.conversation).await?;
        let head = head.ok_or_else(|| Error::NotAMember(self.conversation.clone()))?;
        let typers = self.live.typing.typers(&self.conversation).await?;
        let now = self.live.ctx.now();
        let mut state = self.state.lock();
        state.delivered_through = published.unwrap_or(head.last_seq);
        state.last_seq_at_open = head.last_seq;
        state.revisions = RevisionCursor::new(head.rev);
        state.members_version = head.members_version;
        for mut typer in typers {
            // Whoever is shown the conversation asks who types: only the ends are told.
            typer.until = typer.until.min(now.saturating_add(self.live.typing_ttl()));
            self.live.typing_deadlines.add(self, &typer);
            state.typers.insert(typer.user_id.clone(), typer);
        }
        if !self.drain_held(&mut state) {
            spawn_resync(self);
        }
        Ok(())
    }

    /// Reads and tells what is missing, and what was held; false if there is more.
    async fn resync_once(&self) -> Result<bool> {
        let _place = self.live.resync_permits.acquire().await;
        if let Some(held) = &mut self.state.lock().held_frames {
            held.resync_again = false;
        }
        let Some(head) = self.live.messages.head(&self.conversation).await? else {
            let mut state = self.state.lock();
            if self.is_active(&state) {
                self.deliver_deleted(&mut state);
            }
            state.held_frames = None;
            return Ok(true);
        };
        self.resync_members(&head).await?;
        self.resync_changes(&head).await?;
        if !self.resync_messages(&head).await? {
            return Ok(false);
        }
        self.resync_receipts(&head).await?;
        let typers = self.live.typing.typers(&self.conversation).await?;
        let mut state = self.state.lock();
        if !self.is_active(&state) {
            state.held_frames = None;
            return Ok(true);
        }
        self.replace_typers(&mut state, typers, self.live.ctx.now());
        Ok(self.drain_held(&mut state))
    }

    /// Tells which of those who are shown the conversation are no members any more.
    async fn resync_members(&self, head: &ConversationHead) -> Result<()> {
        let users = {
            let state = self.state.lock();
            if state.members_version == head.members_version || !self.is_active(&state) {
                return Ok(());
            }
            self.subscriber.users()
        };
        let conversations = &self.live.conversations;
        let gone = conversations
            .filter_non_members(&self.conversation, &users)
            .await?;
        let mut state = self.state.lock();
        if self.is_active(&state) {
            state.members_version = head.members_version;
            self.deliver_members_changed(head.members_version, &[], &gone);
        }
        Ok(())
    }

    /// Tells the changes of messages, of those that were told and those that are yet to be.
    async fn resync_changes(&self, head: &ConversationHead) -> Result<()> {
        let mut rev = self.state.lock().revisions.told();
        while rev < head.rev {
            let messages = &self.live.messages;
            let page = messages.changed_messages_through(&self.conversation, rev, head.last_seq);
            let page = page.await?;
            let Some(last) = page.last() else { break };
            rev = last.rev;
            let mut state = self.state.lock();
            for message in page.iter().filter(|it| it.rev <= head.rev) {
                if !self.is_active(&state) {
                    return Ok(());
                }
                let (json, deleted) = (json(message), message.deleted_at.is_some());
                match message.seq > state.delivered_through {
                    true => {
                        self.deliver_undelivered_change(message.seq, message.rev, deleted, &json)
                    }
                    false => {
                        self.deliver_change(&mut state, message.seq, message.rev, deleted, &json)
                    }
                }
            }
        }
        self.state.lock().revisions.advance_after_resync(head.rev);
        Ok(())
    }

    /// Tells the messages after the cursor; false if one of them was changed meanwhile.
    async fn resync_messages(&self, head: &ConversationHead) -> Result<bool> {
        loop {
            let cursor = self.state.lock().delivered_through;
            if cursor >= head.last_seq {
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
                if message.rev > head.rev {
                    return Ok(message.seq > head.last_seq);
                }
                self.deliver_message(&mut state, message.seq, message.rev, &json(message));
            }
            if state.delivered_through == cursor {
                // Deleted with all that belongs to it, as a frame will tell.
                return Ok(true);
            }
        }
    }

    /// Tells how far the members have come, if receipts may have been lost and there are few.
    async fn resync_receipts(&self, head: &ConversationHead) -> Result<()> {
        let unheard = |state: &FeedState| {
            state
                .held_frames
                .as_ref()
                .is_some_and(|held| held.receipts_lost)
        };
        if !unheard(&self.state.lock())
            || head.member_count > u64::from(MAX_MEMBERS_FOR_RECEIPT_RESYNC)
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
            // What was lost meanwhile is read with the rest.
            held.receipts_lost = held.resync_again;
        }
        Ok(())
    }

    fn deliver_member_receipt(&self, receipt: ReadReceipt) {
        let (delivered, read) = (receipt.delivered_seq, receipt.read_seq);
        let mut change = ReceiptChange {
            conversation_id: self.conversation.clone(),
            receipt,
            moved: ReceiptKind::Read,
        };
        // Whoever has read it has got it.
        if read > 0 {
            self.deliver_receipt(&change);
        }
        if delivered > read {
            change.moved = ReceiptKind::Delivered;
            self.deliver_receipt(&change);
        }
    }

    fn is_active(&self, state: &FeedState) -> bool {
        !state.is_deleted && !self.is_closed.load(Ordering::Acquire)
    }
}

fn json(message: &Message) -> Vec<u8> {
    serde_json::to_vec(message).expect("a message can be serialized as JSON")
}
