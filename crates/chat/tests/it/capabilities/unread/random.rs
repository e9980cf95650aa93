//! Random histories, compared with a model that counts messages one by one. The counter updates after a commit run
//! late, twice, in any order, or only after the next read of the counts; conversations grow and shrink across the
//! fan-out limit.

use std::collections::BTreeMap;
use std::time::Duration;

use parlor_chat::database::PerBackend;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::fixture::{FANOUT_LIMIT, MemberChangeInRows, MessageInRows, World, conversation, user};

const USERS: [&str; 6] = ["u1", "u2", "u3", "u4", "u5", "u6"];
const STEPS: usize = 80;

#[tokio::test]
async fn embedded() {
    histories(World::embedded().await, 25).await;
}

#[tokio::test]
async fn redis() {
    histories(World::redis().await, 6).await;
}

/// A membership in the model.
#[derive(Debug, Clone, Copy)]
struct Membership {
    joined: usize,
    badge: usize,
    muted_until: u64,
}

#[derive(Default)]
struct Room {
    /// Senders of the messages, in order.
    messages: Vec<&'static str>,
    members: BTreeMap<&'static str, Membership>,
    /// The conversation never had more members than the fan-out limit.
    never_exceeded_fanout: bool,
}

impl Room {
    fn count(&self, who: &str) -> u64 {
        let badge = self.members[who].badge;
        let waiting = self.messages[badge..].iter();
        waiting.filter(|sender| **sender != who).count() as u64
    }
}

/// A counter update that must follow a commit.
#[derive(Clone)]
enum DelayedUpdate {
    Sent(MessageInRows),
    Joined(usize, &'static str, MemberChangeInRows),
    Left(usize, &'static str, MemberChangeInRows),
}

struct RandomHistory {
    rng: StdRng,
    names: Vec<String>,
    rooms: Vec<Room>,
    pending_steps: Vec<DelayedUpdate>,
    done: Vec<String>,
}

async fn histories(world: World, count: u64) {
    for seed in 0..count {
        let names: Vec<String> = (0..3).map(|it| format!("s{seed}-{it}")).collect();
        let mut history = RandomHistory {
            rng: StdRng::seed_from_u64(seed),
            rooms: names
                .iter()
                .map(|_| Room {
                    never_exceeded_fanout: true,
                    ..Room::default()
                })
                .collect(),
            names,
            pending_steps: Vec::new(),
            done: vec![format!("seed {seed}")],
        };
        for name in &history.names {
            world.insert_conversation(name).await;
        }
        for _ in 0..STEPS {
            history.step(&world).await;
            if history.rng.random_bool(0.3) {
                history.answers_are_right(&world).await;
            }
        }
        history.run_delayed(&world, 1.0).await;
        history.keys_of_small_rooms_are_right(&world).await;
        history.answers_are_right(&world).await;
        history.all_keys_are_right(&world).await;
        history.leave_all(&world).await;
    }
}

impl RandomHistory {
    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        Some(from[self.rng.random_range(0..from.len())])
    }

    async fn step(&mut self, world: &World) {
        let at = self.rng.random_range(0..self.rooms.len());
        let members: Vec<&'static str> = self.rooms[at].members.keys().copied().collect();
        let others: Vec<&'static str> = USERS
            .into_iter()
            .filter(|who| !members.contains(who))
            .collect();
        match self.rng.random_range(0..20) {
            0..3 => {
                if let Some(who) = self.pick(&others) {
                    self.join(world, at, who).await;
                }
            }
            3..5 => {
                if let Some(who) = self.pick(&members) {
                    self.leave(world, at, who).await;
                }
            }
            5..11 => {
                if let Some(who) = self.pick(&members) {
                    self.send(world, at, who).await;
                }
            }
            11..17 => {
                if let Some(who) = self.pick(&members) {
                    self.mark_randomly(world, at, who).await;
                }
            }
            17 => {
                self.done.push("a minute passes".into());
                world.advance(Duration::from_secs(60)).await;
                if self.rng.random_bool(0.5) {
                    world.node().expire_mutes().await.unwrap();
                }
            }
            18 => self.delete(world, at).await,
            _ => self.run_delayed(world, 0.5).await,
        }
    }

    async fn join(&mut self, world: &World, at: usize, who: &'static str) {
        self.done.push(format!("{who} joins {at}"));
        let changed = world.insert_member(&self.names[at], who).await;
        let room = &mut self.rooms[at];
        let end = room.messages.len();
        let membership = Membership {
            joined: end,
            badge: end,
            muted_until: 0,
        };
        room.members.insert(who, membership);
        room.never_exceeded_fanout &= room.members.len() as u64 <= FANOUT_LIMIT;
        self.pending_steps
            .push(DelayedUpdate::Joined(at, who, changed));
    }

    async fn leave(&mut self, world: &World, at: usize, who: &'static str) {
        self.done.push(format!("{who} leaves {at}"));
        let changed = world.delete_member(&self.names[at], who).await;
        self.rooms[at].members.remove(who);
        self.pending_steps
            .push(DelayedUpdate::Left(at, who, changed));
    }

    async fn send(&mut self, world: &World, at: usize, who: &'static str) {
        self.done.push(format!("{who} sends in {at}"));
        let written = world.insert_message(&self.names[at], who, &[]).await;
        let room = &mut self.rooms[at];
        room.messages.push(who);
        let end = room.messages.len();
        room.members.get_mut(who).unwrap().badge = end;
        self.pending_steps.push(DelayedUpdate::Sent(written));
    }

    async fn mark_randomly(&mut self, world: &World, at: usize, who: &'static str) {
        let (id, conv) = (user(who), conversation(&self.names[at]));
        let end = self.rooms[at].messages.len();
        let seq = self.rng.random_range(1..end + 3);
        let node = &world.nodes[self.rng.random_range(0..2)];
        let what = self.rng.random_range(0..4);
        let now = world.now();
        let badge = match what {
            0 => node.read(&id, &conv, Some(seq as u64)).await,
            1 => node.read(&id, &conv, None).await,
            2 => node.mark_unread(&id, &conv, seq as u64).await,
            _ => {
                let until = now.saturating_add(Duration::from_secs(90));
                let until = self.rng.random_bool(0.7).then_some(until);
                let member = self.rooms[at].members.get_mut(who).unwrap();
                member.muted_until = until.map_or(0, parlor_chat::clock::Timestamp::as_millis);
                node.mute(&id, &conv, until).await
            }
        };
        let member = self.rooms[at].members.get_mut(who).unwrap();
        match what {
            0 => member.badge = member.badge.max(seq.min(end)),
            1 => member.badge = end,
            2 => member.badge = member.joined.max(member.badge.min(seq - 1)),
            _ => {}
        }
        self.done.push(format!("{who} places {what} {seq} in {at}"));
        let expected = (self.rooms[at].count(who), self.total(who, now.as_millis()));
        let badge = badge.unwrap();
        assert_eq!((badge.unread, badge.total), expected, "{:#?}", self.done);
    }

    /// Deletes a message. A deleted message keeps its `seq` and counts until it is read.
    async fn delete(&mut self, world: &World, at: usize) {
        let delete = "UPDATE messages SET deleted_at = 1 WHERE conversation_id = $1 AND seq = 1";
        let mut tx = world.database.begin().await.unwrap();
        match tx.connection() {
            PerBackend::Sqlite(c) => drop(
                sqlx::query(delete)
                    .bind(&self.names[at])
                    .execute(c)
                    .await
                    .unwrap(),
            ),
            PerBackend::Postgres(c) => drop(
                sqlx::query(delete)
                    .bind(&self.names[at])
                    .execute(c)
                    .await
                    .unwrap(),
            ),
        }
        tx.commit().await.unwrap();
    }

    /// Runs some of the delayed updates in random order, half of them twice.
    async fn run_delayed(&mut self, world: &World, part: f64) {
        let mut kept = Vec::new();
        let mut todo = Vec::new();
        for late in std::mem::take(&mut self.pending_steps) {
            if self.rng.random_bool(part) {
                todo.push(late.clone());
                if self.rng.random_bool(0.5) {
                    todo.push(late);
                }
            } else {
                kept.push(late);
            }
        }
        self.pending_steps = kept;
        while !todo.is_empty() {
            let late = todo.swap_remove(self.rng.random_range(0..todo.len()));
            let node = self.rng.random_range(0..2);
            match late {
                DelayedUpdate::Sent(written) => {
                    self.done
                        .push(format!("step {} of {}", written.seq, written.conversation));
                    world.count_message(node, &written).await;
                }
                DelayedUpdate::Joined(at, who, changed) => {
                    self.done.push(format!("step of the join of {who} to {at}"));
                    let conv = conversation(&self.names[at]);
                    let (version, last) = (changed.members_version, changed.last_seq);
                    let added = world.nodes[node]
                        .add_members(&conv, &[user(who)], version, last)
                        .await;
                    added.unwrap();
                }
                DelayedUpdate::Left(at, who, changed) => {
                    self.done
                        .push(format!("step of the leave of {who} from {at}"));
                    let conv = conversation(&self.names[at]);
                    let removed = world.nodes[node]
                        .remove_members(&conv, &[user(who)], changed.members_version)
                        .await;
                    removed.unwrap();
                }
            }
        }
    }

    fn total(&self, who: &str, now: u64) -> u64 {
        let rooms = self.rooms.iter();
        let loud = rooms.filter(|room| {
            let member = room.members.get(who);
            member.is_some_and(|member| member.muted_until <= now)
        });
        loud.map(|room| room.count(who)).sum()
    }

    fn expected(&self, who: &str, now: u64) -> BTreeMap<String, u64> {
        let rooms = self.rooms.iter().zip(&self.names);
        let counts = rooms
            .filter(|(room, _)| room.members.contains_key(who))
            .map(|(room, name)| (name.clone(), room.count(who)));
        let total = ("total".to_owned(), self.total(who, now));
        counts
            .chain([total])
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    async fn answers_are_right(&self, world: &World) {
        for who in USERS {
            let expected = self.expected(who, world.now().as_millis());
            assert_eq!(
                world.api_counts(who).await,
                expected,
                "{who} {:#?}",
                self.done
            );
        }
    }

    async fn all_keys_are_right(&self, world: &World) {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        for who in USERS {
            let expected = self.expected(who, world.now().as_millis());
            assert_eq!(
                world.stored_counts(who, &names).await,
                expected,
                "{who} {:#?}",
                self.done
            );
        }
    }

    /// Checks keys that only counter updates have written, before the counts are read.
    async fn keys_of_small_rooms_are_right(&self, world: &World) {
        for (room, name) in self
            .rooms
            .iter()
            .zip(&self.names)
            .filter(|(room, _)| room.never_exceeded_fanout)
        {
            for who in USERS {
                let stored = world
                    .stored_counts(who, &[name])
                    .await
                    .get(name.as_str())
                    .copied();
                let count = room.members.contains_key(who).then(|| room.count(who));
                let expected = count.filter(|count| *count > 0);
                assert_eq!(stored, expected, "{who} in {name}: {:#?}", self.done);
            }
        }
    }

    /// Removes all members, so that the next history starts with empty state.
    async fn leave_all(&mut self, world: &World) {
        for at in 0..self.rooms.len() {
            let members: Vec<_> = self.rooms[at].members.keys().copied().collect();
            for who in members {
                self.leave(world, at, who).await;
            }
        }
        self.run_delayed(world, 1.0).await;
        for who in USERS {
            assert_eq!(world.api_counts(who).await, BTreeMap::new());
        }
    }
}
