//! Who types in a conversation that is followed.
//!
//! Always true: everything that changes it goes through here and is told; for each typer there is one entry among the ends.

use std::sync::atomic::Ordering;

use super::news::ConversationNews;
use super::room::{Room, State};
use crate::context::Moment;
use crate::ids::UserId;
use crate::typing::{Typer, TypingChange};

impl Room {
    /// Somebody types until a moment, which is past if they stopped.
    pub(super) fn types(&self, state: &mut State, mut typer: Typer, now: Moment) {
        typer.until = typer.until.min(now.plus(self.live.longest_typing()));
        if typer.until <= now {
            self.stops(state, &typer.user_id);
            return;
        }
        let known = state.typers.get(&typer.user_id);
        // What does not put the end off is known.
        if known.is_some_and(|known| typer.until <= known.until) {
            return;
        }
        let ends = &self.live.ends;
        if let Some(before) = known {
            ends.remove(self, before);
        }
        ends.add(self, &typer);
        let change = self.typing(&typer, true);
        state.typers.insert(typer.user_id.clone(), typer);
        self.sink.told(&ConversationNews::Typing(&change));
    }

    fn stops(&self, state: &mut State, user: &UserId) {
        if let Some(typer) = state.typers.remove(user) {
            self.live.ends.remove(self, &typer);
            let change = self.typing(&typer, false);
            self.sink.told(&ConversationNews::Typing(&change));
        }
    }

    /// The end of somebody's typing may have come.
    pub(super) fn look(&self, user: &UserId, now: Moment) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        if state.typers.get(user).is_some_and(|it| it.until <= now) {
            self.stops(&mut state, user);
        }
    }

    /// The store said who types.
    pub(super) fn typers(&self, state: &mut State, typers: Vec<Typer>, now: Moment) {
        let known = state.typers.keys();
        let gone = known.filter(|user| !typers.iter().any(|it| it.user_id == **user));
        for user in gone.cloned().collect::<Vec<_>>() {
            self.stops(state, &user);
        }
        for typer in typers {
            self.types(state, typer, now);
        }
    }

    fn typing(&self, typer: &Typer, typing: bool) -> TypingChange {
        TypingChange {
            conversation_id: self.conversation.clone(),
            user_id: typer.user_id.clone(),
            username: typer.username.clone(),
            typing,
        }
    }
}
