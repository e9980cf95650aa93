//! A conversation as the listeners of one node see it.
//!
//! Always true: everything that changes who types goes through here, is told to the listeners under the same lock, and in
//! the same order to all. Who sits down is given the state to which the next change belongs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::ends::Ends;
use super::mailbox::Mailbox;
use super::ops::{Typer, TypingChange};
use crate::context::Moment;
use crate::ids::{ConversationId, UserId};
use crate::ticking::Task;

pub(super) struct Room {
    pub(super) conversation: ConversationId,
    ends: Arc<Ends>,
    /// Nobody is believed to type for longer, whatever a frame says.
    longest: Duration,
    state: Mutex<State>,
    /// Follows the conversation's channel, from when the room was first filled.
    pub(super) reader: OnceCell<Task>,
}

#[derive(Default)]
struct State {
    typers: BTreeMap<UserId, Typer>,
    /// By their address, for they come and go.
    listeners: HashMap<usize, Arc<Mailbox>>,
    /// While the store is asked who types: of whom there was a frame since.
    newer: Option<HashSet<UserId>>,
}

impl Room {
    pub(super) fn new(conversation: ConversationId, ends: Arc<Ends>, longest: Duration) -> Self {
        Self {
            conversation,
            ends,
            longest,
            state: Mutex::default(),
            reader: OnceCell::new(),
        }
    }

    /// A frame came: somebody types until a moment, which is past if they stopped.
    pub(super) fn hear(&self, typer: Typer, now: Moment) {
        let mut state = self.state.lock();
        if let Some(newer) = &mut state.newer {
            newer.insert(typer.user_id.clone());
        }
        self.started(&mut state, typer, now);
    }

    /// The end of somebody's typing may have come.
    pub(super) fn look(&self, user: &UserId, now: Moment) {
        let mut state = self.state.lock();
        if state.typers.get(user).is_some_and(|it| it.until <= now) {
            self.stopped(&mut state, user);
        }
    }

    /// The store is asked who types.
    pub(super) fn ask(&self) {
        self.state.lock().newer = Some(HashSet::new());
    }

    /// The store did not answer.
    pub(super) fn ask_no_more(&self) {
        self.state.lock().newer = None;
    }

    /// The store answered who types.
    pub(super) fn answer(&self, typers: Vec<Typer>, now: Moment) {
        let mut state = self.state.lock();
        let newer = state.newer.take().unwrap_or_default();
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
    pub(super) fn sit(&self, mailbox: &Arc<Mailbox>, now: Moment) -> Vec<Typer> {
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
    pub(super) fn rise(&self, mailbox: &Arc<Mailbox>) {
        self.state.lock().listeners.remove(&address(mailbox));
        mailbox.forget(&self.conversation);
    }

    fn started(&self, state: &mut State, mut typer: Typer, now: Moment) {
        typer.until = typer.until.min(now.plus(self.longest));
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
        state.tell(change, before.is_some());
    }

    fn stopped(&self, state: &mut State, user: &UserId) {
        if let Some(typer) = state.typers.remove(user) {
            self.ends.remove(&self.conversation, &typer);
            state.tell(self.change(&typer, false), true);
        }
    }

    fn change(&self, typer: &Typer, typing: bool) -> TypingChange {
        TypingChange {
            conversation_id: self.conversation.clone(),
            user_id: typer.user_id.clone(),
            username: typer.username.clone(),
            typing,
        }
    }
}

impl State {
    /// Tells all listeners; `told` says whether the last they were told of this user was that they type.
    fn tell(&self, change: TypingChange, told: bool) {
        let change = Arc::new(change);
        for mailbox in self.listeners.values() {
            mailbox.post(&change, told);
        }
    }
}

fn address(mailbox: &Arc<Mailbox>) -> usize {
    Arc::as_ptr(mailbox).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(3);
    const NOW: Moment = Moment(1_000_000);

    struct Fixture {
        room: Room,
        mailbox: Arc<Mailbox>,
        ends: Arc<Ends>,
    }

    fn fixture() -> Fixture {
        let ends = Arc::<Ends>::default();
        let conversation = ConversationId::new("c1").expect("valid");
        let room = Room::new(conversation, Arc::clone(&ends), TTL);
        let mailbox = Arc::default();
        room.sit(&mailbox, NOW);
        Fixture {
            room,
            mailbox,
            ends,
        }
    }

    fn typer(id: &str, ms: u64) -> Typer {
        Typer {
            user_id: UserId::new(id).expect("valid"),
            username: None,
            until: Moment(ms),
        }
    }

    fn told(mailbox: &Mailbox) -> Vec<String> {
        let changes = std::iter::from_fn(|| mailbox.pop());
        let words = changes.map(|it| format!("{} {}", it.user_id, it.typing));
        words.collect()
    }

    #[test]
    fn a_frame_that_came_after_the_question_is_newer_than_the_answer() {
        let Fixture { room, mailbox, .. } = fixture();
        let until = NOW.plus(TTL).ms();
        for id in ["alice", "bob"] {
            room.hear(typer(id, until), NOW);
        }
        assert_eq!(told(&mailbox), ["alice true", "bob true"]);
        room.ask();
        room.hear(typer("alice", 0), NOW);
        room.hear(typer("carol", until), NOW);
        let answer = vec![typer("alice", until), typer("dave", until)];
        room.answer(answer.clone(), NOW);
        let expected = ["alice false", "carol true", "bob false", "dave true"];
        assert_eq!(told(&mailbox), expected);
        // With the next question that is over.
        room.ask();
        room.answer(answer, NOW);
        assert_eq!(told(&mailbox), ["carol false", "alice true"]);
    }

    #[test]
    fn a_question_without_an_answer_changes_nothing() {
        let Fixture { room, mailbox, .. } = fixture();
        let until = NOW.plus(TTL).ms();
        room.ask();
        room.hear(typer("alice", until), NOW);
        room.ask_no_more();
        room.ask();
        room.answer(Vec::new(), NOW);
        // The listener was told neither.
        assert_eq!(told(&mailbox), [] as [&str; 0]);
    }

    #[test]
    fn there_is_one_end_for_each_typer_and_none_for_others() {
        let Fixture {
            room,
            mailbox,
            ends,
        } = fixture();
        for ms in [1, 1_000, 2_000] {
            room.hear(typer("alice", NOW.ms() + ms), NOW);
            room.hear(typer("bob", NOW.ms() + ms), NOW);
        }
        // Late news do not bring the end nearer, too much is not believed.
        room.hear(typer("alice", NOW.ms() + 500), NOW);
        room.hear(typer("bob", u64::MAX), NOW);
        room.hear(typer("carol", NOW.ms() + 500), NOW);
        room.hear(typer("carol", 0), NOW);
        assert_eq!(ends.take_due(Moment(NOW.ms() + 1_999)), []);
        let due = ends.take_due(Moment(NOW.ms() + 2_000));
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].1.as_str(), "alice");
        let due = ends.take_due(NOW.plus(TTL));
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].1.as_str(), "bob");
        room.look(&due[0].1, Moment(NOW.plus(TTL).ms() - 1));
        assert_eq!(told(&mailbox), ["alice true", "bob true"]);
        room.look(&due[0].1, NOW.plus(TTL));
        room.look(&due[0].1, NOW.plus(TTL));
        assert_eq!(told(&mailbox), ["bob false"]);
    }
}
