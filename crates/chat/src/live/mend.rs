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

use super::revs::Revs;
use super::room::{Room, State};
use crate::error::{Error, Result};
use crate::messages::{Head, Message};
use crate::ticking::told;
use crate::unread::{Moved, Receipt, ReceiptChange};

/// Rooms that are mended at one time.
pub(super) const MOST_MENDED: usize = 16;
/// Members of a conversation whose receipts are told after frames were lost.
const MOST_READERS: u32 = 32;
/// Before what could not be read is read again: this, and twice as long each time, up to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Has a room mended that holds its frames from now on.
pub(super) fn begin(room: &Room) {
    if let Some(room) = room.me.upgrade() {
        tokio::spawn(async move {
            tokio::select! {
                () = mend(&room) => {}
                () = room.ending.notified() => {}
            }
        });
    }
}

async fn mend(room: &Room) {
    let mut pause = FIRST_PAUSE;
    loop {
        let before = room.state.lock().cursor;
        let read = room.read_missed().await;
        told("read what a room has missed", &read);
        match read {
            Ok(true) => return,
            Ok(false) if room.state.lock().cursor > before => pause = FIRST_PAUSE,
            // A frame may name what the rows do not have, or not yet.
            Ok(false) | Err(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

impl Room {
    /// Fills a room that holds its frames since it listens, and tells what came since. What was published before is for
    /// those to read who are shown the conversation now.
    pub(super) async fn open(&self) -> Result<()> {
        let messages = &self.live.messages;
        // Before the rows: what is above it is told when it is published, or read when it was lost.
        let published = messages.published(&self.conversation).await?;
        let head = messages.head(&self.conversation).await?;
        let head = head.ok_or_else(|| Error::NotAMember(self.conversation.clone()))?;
        let typers = self.live.typing.typers(&self.conversation).await?;
        let now = self.live.ctx.now();
        let mut state = self.state.lock();
        state.cursor = published.unwrap_or(head.last_seq);
        state.written = head.last_seq;
        state.revs = Revs::new(head.rev);
        state.members_version = head.members_version;
        for mut typer in typers {
            // Whoever is shown the conversation asks who types: only the ends are told.
            typer.until = typer.until.min(now.plus(self.live.longest_typing()));
            self.live.ends.add(self, &typer);
            state.typers.insert(typer.user_id.clone(), typer);
        }
        if !self.release(&mut state) {
            begin(self);
        }
        Ok(())
    }

    /// Reads and tells what is missing, and what was held; false if there is more.
    async fn read_missed(&self) -> Result<bool> {
        let _place = self.live.places.acquire().await;
        if let Some(held) = &mut self.state.lock().held {
            held.again = false;
        }
        let Some(head) = self.live.messages.head(&self.conversation).await? else {
            let mut state = self.state.lock();
            if self.is_told(&state) {
                self.deleted(&mut state);
            }
            state.held = None;
            return Ok(true);
        };
        self.read_members(&head).await?;
        self.read_changes(&head).await?;
        if !self.read_messages(&head).await? {
            return Ok(false);
        }
        self.read_receipts(&head).await?;
        let typers = self.live.typing.typers(&self.conversation).await?;
        let mut state = self.state.lock();
        if !self.is_told(&state) {
            state.held = None;
            return Ok(true);
        }
        self.typers(&mut state, typers, self.live.ctx.now());
        Ok(self.release(&mut state))
    }

    /// Tells which of those who are shown the conversation are no members any more.
    async fn read_members(&self, head: &Head) -> Result<()> {
        let users = {
            let state = self.state.lock();
            if state.members_version == head.members_version || !self.is_told(&state) {
                return Ok(());
            }
            self.sink.users()
        };
        let conversations = &self.live.conversations;
        let gone = conversations.gone(&self.conversation, &users).await?;
        let mut state = self.state.lock();
        if self.is_told(&state) {
            state.members_version = head.members_version;
            self.came_and_went(head.members_version, &[], &gone);
        }
        Ok(())
    }

    /// Tells the changes of messages, of those that were told and those that are yet to be.
    async fn read_changes(&self, head: &Head) -> Result<()> {
        let mut rev = self.state.lock().revs.told();
        while rev < head.rev {
            let messages = &self.live.messages;
            let page = messages.changed_up_to(&self.conversation, rev, head.last_seq);
            let page = page.await?;
            let Some(last) = page.last() else { break };
            rev = last.rev;
            let mut state = self.state.lock();
            for message in page.iter().filter(|it| it.rev <= head.rev) {
                if !self.is_told(&state) {
                    return Ok(());
                }
                let (json, deleted) = (json(message), message.deleted_at.is_some());
                match message.seq > state.cursor {
                    true => self.ahead(message.seq, message.rev, deleted, &json),
                    false => self.change(&mut state, message.seq, message.rev, deleted, &json),
                }
            }
        }
        self.state.lock().revs.raise(head.rev);
        Ok(())
    }

    /// Tells the messages after the cursor; false if one of them was changed meanwhile.
    async fn read_messages(&self, head: &Head) -> Result<bool> {
        loop {
            let cursor = self.state.lock().cursor;
            if cursor >= head.last_seq {
                return Ok(true);
            }
            let page = self.live.messages.after(&self.conversation, cursor).await?;
            let mut state = self.state.lock();
            for message in &page {
                if !self.is_told(&state) {
                    return Ok(true);
                }
                if message.rev > head.rev {
                    return Ok(message.seq > head.last_seq);
                }
                self.message(&mut state, message.seq, message.rev, &json(message));
            }
            if state.cursor == cursor {
                // Deleted with all that belongs to it, as a frame will tell.
                return Ok(true);
            }
        }
    }

    /// Tells how far the members have come, if receipts may have been lost and there are few.
    async fn read_receipts(&self, head: &Head) -> Result<()> {
        let unheard = |state: &State| state.held.as_ref().is_some_and(|held| held.unheard);
        if !unheard(&self.state.lock()) || head.member_count > u64::from(MOST_READERS) {
            return Ok(());
        }
        let unread = &self.live.unread;
        let page = unread.receipts(&self.conversation, None, MOST_READERS);
        let page = page.await?;
        let mut state = self.state.lock();
        if !self.is_told(&state) {
            return Ok(());
        }
        for receipt in page.receipts {
            self.receipts(receipt);
        }
        if let Some(held) = &mut state.held {
            // What was lost meanwhile is read with the rest.
            held.unheard = held.again;
        }
        Ok(())
    }

    fn receipts(&self, receipt: Receipt) {
        let (delivered, read) = (receipt.delivered_seq, receipt.read_seq);
        let mut change = ReceiptChange {
            conversation_id: self.conversation.clone(),
            receipt,
            moved: Moved::Read,
        };
        // Whoever has read it has got it.
        if read > 0 {
            self.reached(&change);
        }
        if delivered > read {
            change.moved = Moved::Delivered;
            self.reached(&change);
        }
    }

    fn is_told(&self, state: &State) -> bool {
        !state.over && !self.ended.load(Ordering::Acquire)
    }
}

fn json(message: &Message) -> Vec<u8> {
    serde_json::to_vec(message).expect("texts and numbers are JSON")
}
