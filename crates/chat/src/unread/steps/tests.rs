//! Steps in any order, half of them twice, leave what the rows say.

use parlor_store::{Options, Store};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::keys::{Keyspace, Settings};

const HISTORIES: u64 = 1_000;

/// The rows of one user in one conversation.
#[derive(Clone, Copy, Default)]
struct Row {
    member: bool,
    version: u64,
    joined: u64,
    joined_seq: u64,
    position: u64,
    last: u64,
    badge: u64,
    own: u64,
    muted_until: u64,
}

impl Row {
    fn placed(&self) -> Step {
        Step::Placed {
            joined_version: self.joined,
            position_version: self.position,
            top: self.last,
            badge: self.badge,
            own: self.own,
            muted_until: self.muted_until,
        }
    }

    /// Something happens; the step that follows it.
    fn change(&mut self, rng: &mut StdRng) -> Option<Step> {
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
            return Some(self.placed());
        }
        match rng.random_range(0..10) {
            0..4 => {
                self.last += 1;
                Some(Step::Sent {
                    members_version: self.version,
                    seq: self.last,
                })
            }
            4 => {
                self.last += 1;
                (self.badge, self.own) = (self.last, 0);
                self.position += 1;
                Some(Step::Wrote {
                    joined_version: self.joined,
                    position_version: self.position,
                    seq: self.last,
                })
            }
            5..7 => {
                (self.badge, self.own) = (rng.random_range(self.badge..=self.last), 0);
                self.position += 1;
                Some(self.placed())
            }
            7 => {
                self.badge = rng.random_range(self.joined_seq..=self.badge);
                self.own = rng.random_range(0..=self.last - self.badge);
                self.position += 1;
                Some(self.placed())
            }
            8 => {
                self.muted_until = if rng.random_bool(0.5) {
                    u64::MAX >> 12
                } else {
                    0
                };
                self.position += 1;
                Some(self.placed())
            }
            _ => {
                self.version += 1;
                self.member = false;
                Some(Step::Left {
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

    fn share(&self) -> u64 {
        if self.muted_until > 0 {
            0
        } else {
            self.count()
        }
    }
}

#[tokio::test]
async fn the_order_of_steps_does_not_matter() {
    let store = Store::open(Options {
        strict: true,
        ..Options::default()
    });
    let store = store.await.expect("an engine in memory");
    let keys = Keyspace::new(Settings::default(), true).expect("the defaults are valid");
    let ctx = Context::new(store.clone(), keys.clone());
    let conversations = ["c1", "c2"].map(|id| ConversationId::new(id).expect("an id"));
    for seed in 0..HISTORIES {
        let mut rng = StdRng::seed_from_u64(seed);
        let user = UserId::new(format!("u{seed}")).expect("an id");
        let mut rows = [Row::default(); 2];
        let mut steps = Vec::new();
        for _ in 0..30 {
            let at = rng.random_range(0..2);
            let step = rows[at].change(&mut rng);
            let twice = if rng.random_bool(0.5) { 2 } else { 1 };
            steps.extend(step.into_iter().flat_map(|step| vec![(at, step); twice]));
        }
        steps.shuffle(&mut rng);
        let state = keys.unread_state(&user);
        let warm = redis::cmd("HSET")
            .arg(&state)
            .arg(":epoch")
            .arg(*store.epoch().borrow())
            .arg(":total")
            .arg(0)
            .take();
        warm.exec_async(&mut store.clone()).await.expect("written");
        for (at, step) in steps {
            let cold = run(&ctx, &conversations[at], &[(&user, step)]).await;
            if !cold.expect("a step").is_empty() {
                // What the rows say is said instead.
                let row = &rows[at];
                let step = match row.member {
                    true => row.placed(),
                    false => Step::Left {
                        members_version: row.version,
                    },
                };
                let cold = run(&ctx, &conversations[at], &[(&user, step)]).await;
                assert_eq!(cold.expect("a step"), [] as [&UserId; 0], "{seed}");
            }
        }
        let mut names = conversations
            .each_ref()
            .map(|id| keys.unread(&user, id))
            .to_vec();
        names.push(keys.unread_total(&user));
        let shown = redis::cmd("MGET").arg(names).take();
        let shown: Vec<Option<u64>> = shown
            .query_async(&mut store.clone())
            .await
            .expect("numbers");
        let counts = [
            rows[0].count(),
            rows[1].count(),
            rows[0].share() + rows[1].share(),
        ];
        assert_eq!(
            shown,
            counts.map(|count| (count > 0).then_some(count)),
            "{seed}"
        );
    }
}
