//! Updates in any order, half of them twice, leave what the rows contain.

use parlor_store::{ManualClock, Store, StoreOptions};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::UPDATE_COUNTERS;
use crate::context::ChatContext;
use crate::ids::{ConversationId, UserId};
use crate::keys::{KeySettings, Keyspace};
use crate::script_parity::ScriptParity;
use crate::unread::update::{CounterUpdate, run_updates, update_call};

const HISTORIES: u64 = 1_000;

/// The rows of one user in one conversation.
#[derive(Clone, Copy, Default)]
struct Row {
    member: bool,
    version: u64,
    joined: u64,
    joined_seq: u64,
    position_version: u64,
    last: u64,
    badge: u64,
    own: u64,
    muted_until: u64,
}

impl Row {
    fn position(&self) -> CounterUpdate {
        CounterUpdate::Position {
            joined_version: self.joined,
            position_version: self.position_version,
            last_seq: self.last,
            badge_seq: self.badge,
            own_after: self.own,
            muted_until: self.muted_until,
        }
    }

    /// Changes the rows at random; returns the counter update that follows the change.
    fn change(&mut self, rng: &mut StdRng) -> Option<CounterUpdate> {
        if !self.member {
            self.version += 1;
            *self = Self {
                member: true,
                joined: self.version,
                joined_seq: self.last,
                badge: self.last,
                version: self.version,
                last: self.last,
                ..Self::default()
            };
            return Some(self.position());
        }
        match rng.random_range(0..10) {
            0..4 => {
                self.last += 1;
                Some(CounterUpdate::MessageByOther {
                    members_version: self.version,
                    seq: self.last,
                })
            }
            4 => {
                self.last += 1;
                (self.badge, self.own) = (self.last, 0);
                self.position_version += 1;
                Some(CounterUpdate::MessageByUser {
                    joined_version: self.joined,
                    position_version: self.position_version,
                    seq: self.last,
                    last_seq: self.last,
                })
            }
            5..7 => {
                (self.badge, self.own) = (rng.random_range(self.badge..=self.last), 0);
                self.position_version += 1;
                Some(self.position())
            }
            7 => {
                self.badge = rng.random_range(self.joined_seq..=self.badge);
                self.own = rng.random_range(0..=self.last - self.badge);
                self.position_version += 1;
                Some(self.position())
            }
            8 => {
                self.muted_until = if rng.random_bool(0.5) {
                    u64::MAX >> 12
                } else {
                    0
                };
                self.position_version += 1;
                Some(self.position())
            }
            _ => {
                self.version += 1;
                self.member = false;
                Some(CounterUpdate::Left {
                    members_version: self.version,
                })
            }
        }
    }

    fn count(&self) -> u64 {
        if self.member {
            crate::unread::count(self.last, self.badge, self.own)
        } else {
            0
        }
    }

    fn total_share(&self) -> u64 {
        if self.muted_until > 0 {
            0
        } else {
            self.count()
        }
    }
}

#[tokio::test]
async fn the_order_of_updates_does_not_matter() {
    let store = Store::open(StoreOptions {
        strict: true,
        ..StoreOptions::default()
    });
    let store = store.await.expect("an engine in memory");
    let keys = Keyspace::new(KeySettings::default(), true).expect("the defaults are valid");
    let ctx = ChatContext::new(store.clone(), keys.clone());
    let conversations = ["c1", "c2"].map(|id| ConversationId::new(id).expect("an id"));
    for seed in 0..HISTORIES {
        let mut rng = StdRng::seed_from_u64(seed);
        let user = UserId::new(format!("u{seed}")).expect("an id");
        let mut rows = [Row::default(); 2];
        let mut updates = Vec::new();
        for _ in 0..30 {
            let at = rng.random_range(0..2);
            let update = rows[at].change(&mut rng);
            let twice = if rng.random_bool(0.5) { 2 } else { 1 };
            updates.extend(
                update
                    .into_iter()
                    .flat_map(|update| vec![(at, update); twice]),
            );
        }
        updates.shuffle(&mut rng);
        let state = keys.unread_state(&user);
        let warm = redis::cmd("HSET")
            .arg(&state)
            .arg(":epoch")
            .arg(*store.epoch().borrow())
            .arg(":total")
            .arg(0)
            .take();
        warm.exec_async(&mut store.clone()).await.expect("written");
        for (at, update) in updates {
            let cold = run_updates(&ctx, &conversations[at], &[(&user, update)]).await;
            if !cold.expect("an update").is_empty() {
                // The state cannot take the update, so the position of the row is applied instead.
                let row = &rows[at];
                let update = match row.member {
                    true => row.position(),
                    false => CounterUpdate::Left {
                        members_version: row.version,
                    },
                };
                let cold = run_updates(&ctx, &conversations[at], &[(&user, update)]).await;
                assert_eq!(cold.expect("an update"), [] as [&UserId; 0], "{seed}");
            }
        }
        let mut names = conversations
            .each_ref()
            .map(|id| keys.unread(&user, id))
            .to_vec();
        names.push(keys.unread_total(&user));
        let counters = redis::cmd("MGET").arg(names).take();
        let counters: Vec<Option<u64>> = counters
            .query_async(&mut store.clone())
            .await
            .expect("numbers");
        let counts = [
            rows[0].count(),
            rows[1].count(),
            rows[0].total_share() + rows[1].total_share(),
        ];
        assert_eq!(
            counters,
            counts.map(|count| (count > 0).then_some(count)),
            "{seed}"
        );
    }
}

/// A field that a script can find in the store.
fn some_field(rng: &mut StdRng, now: u64) -> Option<String> {
    let mut n = || rng.random_range(0..6);
    let numbers = format!("{}|{}|{}|{}|{}", n(), n(), n() + n(), n(), n() / 2);
    let left = format!("1|left|{}|{now}|{}", n(), n());
    match rng.random_range(0..10) {
        0 => None,
        1..3 => Some(left),
        3 => Some("1|2|garbage".to_owned()),
        4 => Some(format!("1|{numbers}|{}|3|0", now + 5)),
        5 => Some(format!("1|{numbers}|{now}|1|1")),
        _ => Some(format!("1|{numbers}|0|0|1")),
    }
}

fn some_update(rng: &mut StdRng, now: u64) -> CounterUpdate {
    let mut n = || rng.random_range(0..8);
    let (joined_version, position_version, last_seq, badge_seq, own_after) =
        (n(), n(), n(), n(), n() / 2);
    match rng.random_range(0..6) {
        0..2 => CounterUpdate::MessageByOther {
            members_version: joined_version,
            seq: last_seq,
        },
        2 => CounterUpdate::MessageByUser {
            joined_version,
            position_version,
            seq: badge_seq,
            last_seq,
        },
        3..5 => CounterUpdate::Position {
            joined_version,
            position_version,
            last_seq,
            badge_seq,
            own_after,
            muted_until: [0, now, now + 9][rng.random_range(0..3)],
        },
        _ => CounterUpdate::Left {
            members_version: joined_version,
        },
    }
}

#[tokio::test]
async fn the_native_script_does_what_the_lua_script_does() {
    let clock = ManualClock::default();
    let mut stores = ScriptParity::open(&clock).await;
    let keys = Keyspace::new(KeySettings::default(), false).expect("the defaults are valid");
    let ctx = ChatContext::new(stores.store().clone(), keys.clone());
    let epoch = *stores.store().epoch().borrow();
    let conversation = ConversationId::new("c").expect("an id");
    for seed in 0..500 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let now = ctx.now().as_millis();
        let users: Vec<_> = (0..rng.random_range(1..4))
            .map(|at| UserId::new(format!("u{seed}-{at}")).expect("an id"))
            .collect();
        for user in &users {
            let state = keys.unread_state(user);
            if rng.random_bool(0.05) {
                stores
                    .run_on_both(redis::cmd("SET").arg(&state).arg("x"))
                    .await;
                continue;
            }
            let epoch_texts = [epoch.to_string(), (epoch + 1).to_string(), "x".to_owned()];
            let epoch_text =
                &epoch_texts[rng.random_range(0..12).min(2) % 3 * usize::from(seed % 3 == 0)];
            let mut set = redis::cmd("HSET");
            set.arg(&state).arg(":epoch").arg(epoch_text);
            if rng.random_bool(0.9) {
                set.arg(":total")
                    .arg(["0", "3", "-2", "x", "12"][rng.random_range(0..5)]);
            }
            if let Some(field) = some_field(rng, now) {
                set.arg(&conversation).arg(field);
            }
            stores.run_on_both(&set).await;
            for key in [keys.unread(user, &conversation), keys.unread_total(user)] {
                if let Some(value) = ["2", "40", "x", "-1"].get(rng.random_range(0..8)) {
                    stores
                        .run_on_both(redis::cmd("SET").arg(&key).arg(value))
                        .await;
                } else if rng.random_bool(0.05) {
                    stores
                        .run_on_both(redis::cmd("RPUSH").arg(&key).arg("x"))
                        .await;
                }
            }
        }
        for _ in 0..4 {
            let updates: Vec<_> = users
                .iter()
                .map(|user| (user, some_update(rng, now)))
                .collect();
            let call = update_call(&ctx, &conversation, &updates);
            let what = format!("seed {seed}: {updates:?}");
            stores.assert_same(&UPDATE_COUNTERS, call, &what).await;
        }
        stores.run_on_both(&redis::cmd("FLUSHALL")).await;
        clock.advance(std::time::Duration::from_millis(3));
    }
}
