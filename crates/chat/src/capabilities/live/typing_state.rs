//! Typing state of a conversation feed.
//!
//! Invariants:
//! 1. After the feed was opened, `FeedState::typers` changes only here, and every start and stop is delivered.
//! 2. Each typer has exactly one entry in `TypingDeadlines`.

use std::sync::atomic::Ordering;

use super::conversation_feed::{ConversationFeed, FeedState};
use super::model::ConversationEvent;
use crate::clock::Timestamp;
use crate::ids::UserId;
use crate::typing::{TypingChange, TypingUser};

impl ConversationFeed {
    /// Applies a typing update. The deadline of a typer who stopped is in the past.
    pub(super) fn apply_typing(
        &self,
        state: &mut FeedState,
        mut typer: TypingUser,
        now: Timestamp,
    ) {
        typer.until = typer.until.min(now.saturating_add(self.live.typing_ttl()));
        if typer.until <= now {
            self.stop_typing(state, &typer.user_id);
            return;
        }
        let known = state.typers.get(&typer.user_id);
        // Updates that do not extend the deadline change nothing.
        if known.is_some_and(|known| typer.until <= known.until) {
            return;
        }
        let deadlines = &self.live.typing_deadlines;
        if let Some(before) = known {
            deadlines.remove(self, before);
        }
        deadlines.add(self, &typer);
        let change = self.typing_change(&typer, true);
        state.typers.insert(typer.user_id.clone(), typer);
        self.subscriber
            .on_event(&ConversationEvent::TypingChanged(&change));
    }

    fn stop_typing(&self, state: &mut FeedState, user: &UserId) {
        if let Some(typer) = state.typers.remove(user) {
            self.live.typing_deadlines.remove(self, &typer);
            let change = self.typing_change(&typer, false);
            self.subscriber
                .on_event(&ConversationEvent::TypingChanged(&change));
        }
    }

    /// Removes a typer whose deadline has passed.
    pub(super) fn expire_typer(&self, user: &UserId, now: Timestamp) {
        if self.is_closed.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        if state.typers.get(user).is_some_and(|it| it.until <= now) {
            self.stop_typing(&mut state, user);
        }
    }

    /// Replaces the known typers by those of the store, and delivers the differences.
    pub(super) fn replace_typers(
        &self,
        state: &mut FeedState,
        typers: Vec<TypingUser>,
        now: Timestamp,
    ) {
        let known = state.typers.keys();
        let gone = known.filter(|user| !typers.iter().any(|it| it.user_id == **user));
        for user in gone.cloned().collect::<Vec<_>>() {
            self.stop_typing(state, &user);
        }
        for typer in typers {
            self.apply_typing(state, typer, now);
        }
    }

    fn typing_change(&self, typer: &TypingUser, typing: bool) -> TypingChange {
        TypingChange {
            conversation_id: self.conversation.clone(),
            user_id: typer.user_id.clone(),
            username: typer.username.clone(),
            typing,
        }
    }
}
