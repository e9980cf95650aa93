//! A conversation as the listeners of one node see it.
//!
//! Always true: everything that changes who types goes through here, is told to the listeners under the same lock, and in
//! the same order to all. Who sits down is given the state to which the next change belongs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::ends::TypingEndIndex;
use super::mailbox::ListenerMailbox;
use super::model::{TypingChange, TypingUser};
use crate::background::BackgroundTask;
use crate::context::Timestamp;
use crate::ids::{ConversationId, UserId};

pub(super) struct ConversationTyping {
    pub(super) conversation: ConversationId,
    ends: Arc<TypingEndIndex>,
    /// Nobody is believed to type for longer, whatever a frame says.
    max_duration: Duration,
    state: Mutex<TypingState>,
    /// Follows the conversation's channel, from when the room was first filled.
    pub(super) reader: OnceCell<BackgroundTask>,
}

#[derive(Default)]
struct TypingState {
    typers: BTreeMap<UserId, TypingUser>,
    /// By their address, for they come and go.
    listeners: HashMap<usize, Arc<ListenerMailbox>>,
    /// While the store is asked who types: of whom there was a frame since.
    changed_during_read: Option<HashSet<UserId>>,
}

impl ConversationTyping {
    pub(super) fn new(
        conversation: ConversationId,
        ends: Arc<TypingEndIndex>,
        max_duration: Duration,
    ) -> Self {
        Self {
            conversation,
            ends,
            max_duration,
            state: Mutex::default(),
            reader: OnceCell::new(),
        }
    }

    /// A frame came: somebody types until a moment, which is past if they stopped.
    pub(super) fn apply_frame(&self, typer: TypingUser, now: Timestamp) {
        let mut state = self.state.lock();
        if let Some(newer) = &mut state.changed_during_read {
            newer.insert(typer.user_id.clone());
        }
        self.started(&mut state, typer, now);
    }

    /// The end of somebody's typing may have come.
    pub(super) fn expire_if_over(&self, user: &UserId, now: Timestamp) {
        let mut state = self.state.lock();
        if state.typers.get(user).is_some_and(|it| it.until <= now) {
            self.stopped(&mut state, user);
        }
    }

    /// The store is asked who types.
    pub(super) fn begin_read(&self) {
        self.state.lock().changed_during_read = Some(HashSet::new());
    }

    /// The store did not answer.
    pub(super) fn abort_read(&self) {
        self.state.lock().changed_during_read = None;
    }

    /// The store answered who types.
    pub(super) fn apply_read(&self, typers: Vec<TypingUser>, now: Timestamp) {
        let mut state = self.state.lock();
        let newer = state.changed_during_read.take().unwrap_or_default();
        let typing: HashSet<&UserId> = typers.iter().map(|it| &it.user_id).collect();
        let known = state.typers.keys();
        let gone = known.filter(|user| !typing.contains(user) && !newer.contains(*user));
        for user in gone.cloned().collect::<Vec<_>>() {
            self.stopped(&mut state, &user);
        }
        for typer in typers {
            if !newer.contains(&typer.user_id) {
                self.started(&mut state, typer, now);
            }
        }
    }

    /// Somebody listens from now on; who types.
    pub(super) fn add_listener(
        &self,
        mailbox: &Arc<ListenerMailbox>,
        now: Timestamp,
    ) -> Vec<TypingUser> {
        let mut state = self.state.lock();
        let over = state.typers.values().filter(|it| it.until <= now);
        for user in over.map(|it| it.user_id.clone()).collect::<Vec<_>>() {
            self.stopped(&mut state, &user);
        }
        mailbox.forget(&self.conversation);
        state
            .listeners
            .insert(address(mailbox), Arc::clone(mailbox));
        state.typers.values().cloned().collect()
    }

    /// Somebody listens no longer.
    pub(super) fn remove_listener(&self, mailbox: &Arc<ListenerMailbox>) {
        self.state.lock().listeners.remove(&address(mailbox));
        mailbox.forget(&self.conversation);
    }

    fn started(&self, state: &mut TypingState, mut typer: TypingUser, now: Timestamp) {
        typer.until = typer.until.min(now.saturating_add(self.max_duration));
        if typer.until <= now {
            self.stopped(state, &typer.user_id);
            return;
        }
        // What does not put the end off is known, by an answer of the store or from another node.
        let known = state.typers.get(&typer.user_id);
        if known.is_some_and(|known| typer.until <= known.until) {
            return;
        }
        let change = self.change(&typer, true);
        let before = state.typers.insert(typer.user_id.clone(), typer.clone());
        if let Some(before) = &before {
            self.ends.remove(&self.conversation, before);
        }
        self.ends.add(&self.conversation, &typer);
        state.notify(change, before.is_some());
    }

    fn stopped(&self, state: &mut TypingState, user: &UserId) {
        if let Some(typer) = state.typers.remove(user) {
            self.ends.remove(&self.conversation, &typer);
            state.notify(self.change(&typer, false), true);
        }
    }

    fn change(&self, typer: &TypingUser, typing: bool) -> TypingChange {
        TypingChange {
            conversation_id: self.conversation.clone(),
            user_id: typer.user_id.clone(),
            username: typer.username.clone(),
            typing,
        }
    }
}

impl TypingState {
    /// Tells all listeners; `told` says whether the last they were told of this user was that they type.
    fn notify(&self, change: TypingChange, told: bool) {
        let change = Arc::new(change);
        for mailbox in self.listeners.values() {
            mailbox.post(&change, told);
        }
    }
}

fn address(mailbox: &Arc<ListenerMailbox>) -> usize {
    Arc::as_ptr(mailbox).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(3);
    const NOW: Timestamp = Timestamp(1_000_000);

    struct Fixture {
        room: ConversationTyping,
        mailbox: Arc<ListenerMailbox>,
        ends: Arc<TypingEndIndex>,
    }

    fn fixture() -> Fixture {
        let ends = Arc::<TypingEndIndex>::default();
        let conversation = ConversationId::new("c1").expect("valid");
        let room = ConversationTyping::new(conversation, Arc::clone(&ends), TTL);
        let mailbox = Arc::default();
        room.add_listener(&mailbox, NOW);
        Fixture {
            room,
            mailbox,
            ends,
        }
    }

    fn typer(id: &str, ms: u64) -> TypingUser {
        TypingUser {
            user_id: UserId::new(id).expect("valid"),
            username: None,
            until: Timestamp(ms),
        }
    }

    fn told(mailbox: &ListenerMailbox) -> Vec<String> {
        let changes = std::iter::from_fn(|| mailbox.pop());
        let words = changes.map(|it| format!("{} {}", it.user_id, it.typing));
        words.collect()
    }

    #[test]
    fn a_frame_received_during_a_read_wins_over_the_read() {
        let Fixture { room, mailbox, .. } = fixture();
        let until = NOW.saturating_add(TTL).as_millis();
        for id in ["alice", "bob"] {
            room.apply_frame(typer(id, until), NOW);
        }
        assert_eq!(told(&mailbox), ["alice true", "bob true"]);
        room.begin_read();
        room.apply_frame(typer("alice", 0), NOW);
        room.apply_frame(typer("carol", until), NOW);
        let answer = vec![typer("alice", until), typer("dave", until)];
        room.apply_read(answer.clone(), NOW);
        let expected = ["alice false", "carol true", "bob false", "dave true"];
        assert_eq!(told(&mailbox), expected);
        // With the next question that is over.
        room.begin_read();
        room.apply_read(answer, NOW);
        assert_eq!(told(&mailbox), ["carol false", "alice true"]);
    }

    #[test]
    fn a_question_without_an_answer_changes_nothing() {
        let Fixture { room, mailbox, .. } = fixture();
        let until = NOW.saturating_add(TTL).as_millis();
        room.begin_read();
        room.apply_frame(typer("alice", until), NOW);
        room.abort_read();
        room.begin_read();
        room.apply_read(Vec::new(), NOW);
        // The listener was told neither.
        assert_eq!(told(&mailbox), [] as [&str; 0]);
    }

    #[test]
    fn each_typer_has_one_expiry_timer() {
        let Fixture {
            room,
            mailbox,
            ends,
        } = fixture();
        for ms in [1, 1_000, 2_000] {
            room.apply_frame(typer("alice", NOW.as_millis() + ms), NOW);
            room.apply_frame(typer("bob", NOW.as_millis() + ms), NOW);
        }
        // Late news do not bring the end nearer, too much is not believed.
        room.apply_frame(typer("alice", NOW.as_millis() + 500), NOW);
        room.apply_frame(typer("bob", u64::MAX), NOW);
        room.apply_frame(typer("carol", NOW.as_millis() + 500), NOW);
        room.apply_frame(typer("carol", 0), NOW);
        assert_eq!(ends.take_due(Timestamp(NOW.as_millis() + 1_999)), []);
        let due = ends.take_due(Timestamp(NOW.as_millis() + 2_000));
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].1.as_str(), "alice");
        let due = ends.take_due(NOW.saturating_add(TTL));
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].1.as_str(), "bob");
        room.expire_if_over(
            &due[0].1,
            Timestamp(NOW.saturating_add(TTL).as_millis() - 1),
        );
        assert_eq!(told(&mailbox), ["alice true", "bob true"]);
        room.expire_if_over(&due[0].1, NOW.saturating_add(TTL));
        room.expire_if_over(&due[0].1, NOW.saturating_add(TTL));
        assert_eq!(told(&mailbox), ["bob false"]);
    }
}
