//! Who types in a conversation that is followed.
//!
//! Always true: everything that changes it goes through here and is told; for each typer there is one entry among the ends.

use std::sync::atomic::Ordering;

use super::news::ConversationEvent;
use super::room::{ConversationFeed, FeedState};
use crate::context::Timestamp;
use crate::ids::UserId;
use crate::typing::{TypingChange, TypingUser};

impl ConversationFeed {
    /// Somebody types until a moment, which is past if they stopped.
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
        // What does not put the end off is known.
        if known.is_some_and(|known| typer.until <= known.until) {
            return;
        }
        let ends = &self.live.typing_deadlines;
        if let Some(before) = known {
            ends.remove(self, before);
        }
        ends.add(self, &typer);
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

    /// The end of somebody's typing may have come.
    pub(super) fn expire_typer(&self, user: &UserId, now: Timestamp) {
        if self.is_closed.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        if state.typers.get(user).is_some_and(|it| it.until <= now) {
            self.stop_typing(&mut state, user);
        }
    }

    /// The store said who types.
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
