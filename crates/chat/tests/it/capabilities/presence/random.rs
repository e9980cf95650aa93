//! Random histories of two nodes, compared with a model that uses no store.

mod model;

use std::collections::HashMap;
use std::time::Duration;

use parlor_chat::ids::{DeviceId, SocketId, UserId};
use parlor_chat::keys::{KeySettings, PresenceLayout, Preset};
use parlor_chat::presence::{Device, PresenceStatus};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::model::Model;
use super::fixture::{GRACE, LEASE, PresenceFixture, PublishedEvents, user};
use crate::support::backend::TestBackend;

/// Number of stores per test, each with its own random seed.
const STORES: u64 = 100;
/// Histories per store, each of its own user. The actions of the nodes and the clock are the same for all of them, the
/// actions of the devices differ. The four layouts run 10,000 histories in total.
const HISTORIES: usize = 25;
const STEPS: usize = 22;
const DEVICES: usize = 3;

#[tokio::test]
async fn devices() {
    histories(PresenceLayout::Devices).await;
}

#[tokio::test]
async fn document() {
    histories(PresenceLayout::Document).await;
}

#[tokio::test]
async fn sockets() {
    histories(PresenceLayout::Sockets).await;
}

#[tokio::test]
async fn status() {
    histories(PresenceLayout::Status).await;
}

async fn histories(layout: PresenceLayout) {
    for seed in 0..STORES {
        println!("{layout} {seed}");
        let mut layouts = Preset::Parlor.layouts();
        layouts.presence = layout;
        let mut settings = KeySettings::from_layouts(Preset::Parlor, layouts);
        settings.beat_registers = true;
        // No other service writes, so nothing may depend on it.
        settings.presence_external = seed % 2 == 1;
        let fixture = PresenceFixture::with_settings(TestBackend::embedded().await, settings).await;
        fixture.run_background_once().await;
        let mut run = Run {
            model: Model::new(&fixture),
            fixture,
            rng: StdRng::seed_from_u64(seed),
            done: Vec::new(),
            sockets: HashMap::new(),
            count: 0,
            users: (0..HISTORIES).map(|it| user(&format!("u{it}"))).collect(),
        };
        for _ in 0..STEPS {
            run.step().await;
        }
        run.ends().await;
    }
}

/// Histories that share a store.
struct Run {
    fixture: PresenceFixture,
    model: Model,
    rng: StdRng,
    /// The actions so far: of the nodes, or of the device of a user.
    done: Vec<(Option<UserId>, String)>,
    /// The open sockets: node, user and device to sockets, such as browser tabs.
    sockets: HashMap<(usize, UserId, DeviceId), Vec<SocketId>>,
    count: usize,
    users: Vec<UserId>,
}

impl Run {
    /// Executes an action of a node, or one action per user.
    async fn step(&mut self) {
        let node = self.rng.random_range(0..2);
        let choice = self.rng.random_range(0..100);
        let mut action = format!("{choice} on {node} at {}", self.fixture.now().as_millis());
        let here = &self.fixture.nodes[node];
        match choice {
            0..12 => {
                here.sweep().await.unwrap();
                self.model.sweep(node);
                here.reap_dead_nodes().await.unwrap();
                self.model.reap(node);
            }
            12..14 => {
                let fresh = self.fixture.start(&self.model.next_node()).await;
                self.fixture.nodes[node] = fresh;
                self.model.crash(node);
                self.sockets.retain(|(at, _, _), _| *at != node);
            }
            14..34 => {
                let far = self.rng.random_range(0..10) == 0;
                let most = if far {
                    self.fixture.ttl()
                } else {
                    LEASE + GRACE
                };
                let most = u64::try_from(most.as_millis()).unwrap();
                let by = Duration::from_millis(self.rng.random_range(1..most));
                action += &format!(" {by:?}");
                self.fixture.pass(by).await;
                self.model.pass(self.fixture.now().as_millis());
            }
            _ => {
                for user in self.users.clone() {
                    self.device(&user).await;
                    self.agrees(&user).await;
                }
                return;
            }
        }
        self.done.push((None, action));
        self.all_agree().await;
    }

    /// Executes an action of a device of a user.
    async fn device(&mut self, user: &UserId) {
        let node = self.rng.random_range(0..2);
        let id = DeviceId::new(format!("d{}", self.rng.random_range(0..DEVICES))).unwrap();
        let place = (node, user.clone(), id.clone());
        let open = self.sockets.get(&place).and_then(|sockets| {
            let at = self.rng.random_range(0..sockets.len().max(1));
            sockets.get(at).cloned()
        });
        let device = |socket| Device {
            id: id.clone(),
            ..Device::with_socket(user.clone(), socket)
        };
        let (here, model) = (&self.fixture.nodes[node], &mut self.model);
        let choice = self.rng.random_range(0..100);
        let mut action = format!("{choice} on {node}: {id}");
        let request = Device::without_socket(user.clone(), id.clone());
        match (choice, open) {
            (0..20, _) => {
                self.count += 1;
                let socket = SocketId::new(format!("{user}-s{}", self.count)).unwrap();
                here.connect(device(socket.clone())).await.unwrap();
                model.connect(node, user, &socket, &id);
                self.sockets.entry(place).or_default().push(socket);
            }
            (20..40, Some(socket)) => {
                here.heartbeat(&device(socket.clone())).unwrap();
                here.flush_heartbeats().await.unwrap();
                model.heartbeat(node, user, &socket);
            }
            (40..48, Some(socket)) => {
                here.disconnect(&device(socket.clone())).await.unwrap();
                model.disconnect(node, user, &socket);
            }
            (48..56, Some(socket)) => {
                here.connection_lost(&device(socket.clone())).await.unwrap();
                model.lose(node, user, &socket);
            }
            (56..66, _) => {
                let wishes = [
                    PresenceStatus::Online,
                    PresenceStatus::Away,
                    PresenceStatus::Busy,
                    PresenceStatus::Offline,
                ];
                let status = wishes[self.rng.random_range(0..4)];
                action += status.name();
                here.set_status(user, status).await.unwrap();
                model.set_status(user, status.name());
            }
            (66..72, _) => {
                here.connect(request).await.unwrap();
                model.request(node, user, &id, false);
            }
            (72..76, _) => {
                here.connect_visible(request).await.unwrap();
                model.request(node, user, &id, true);
            }
            (76..86, _) => {
                here.heartbeat(&request).unwrap();
                here.flush_heartbeats().await.unwrap();
                model.request_beat(node, user, &id);
            }
            (86..92, _) => {
                here.disconnect(&request).await.unwrap();
                model.request_leave(user, &id);
            }
            (92.., _) => {
                here.remove_device(user, &id).await.unwrap();
                model.remove_device(node, user, &id);
            }
            _ => return,
        }
        let model = &self.model;
        for ((node, user, _), sockets) in &mut self.sockets {
            sockets.retain(|socket| model.holds(*node, user, socket));
        }
        self.done.push((Some(user.clone()), action));
    }

    /// The actions that affected a user.
    fn history(&self, user: &UserId) -> Vec<&str> {
        let of_user = self.done.iter();
        let of_user = of_user.filter(|(who, _)| who.as_ref().is_none_or(|who| who == user));
        of_user.map(|(_, action)| action.as_str()).collect()
    }

    /// Asserts that store and model agree about a user: status, devices and documented keys.
    async fn agrees(&self, user: &UserId) {
        let fixture = &self.fixture;
        let seen = fixture.nodes[0].status(user).await.unwrap();
        let devices = fixture.nodes[0].devices(user).await.unwrap();
        let devices = devices.iter().map(|it| it.device_id.to_string()).collect();
        let stored = (seen.status.name(), seen.version, devices);
        let history = || self.history(user);
        assert_eq!(stored, self.model.seen(user), "{user}: {:#?}", history());
        let stored = projected(fixture, user).await;
        let (expected, stored) = self.model.shown(user, fixture, stored);
        assert_eq!(stored, expected, "{user}: {:#?}", history());
    }

    /// Asserts that store and model agree about the statuses of all users.
    async fn all_agree(&self) {
        for seen in self.fixture.nodes[1].statuses(&self.users).await.unwrap() {
            let user = &seen.user_id;
            let (status, version, _) = self.model.seen(user);
            let stored = (seen.status.name(), seen.version);
            assert_eq!(
                stored,
                (status, version),
                "{user}: {:#?}",
                self.history(user)
            );
        }
    }

    /// Asserts that store and model agree, and that the expected events were published in rising versions.
    async fn ends(mut self) {
        // The order in which users are checked is not specified.
        let by_user = |announced: PublishedEvents| {
            let mut by_user: HashMap<String, PublishedEvents> = HashMap::new();
            for (what, version) in announced {
                let who = what.split(' ').next_back().unwrap().to_owned();
                by_user.entry(who).or_default().push((what, version));
            }
            by_user
        };
        let mut announced = by_user(self.fixture.drain_events().await);
        let mut expected = by_user(self.model.take_announced());
        for user in &self.users {
            self.agrees(user).await;
            let announced = announced.remove(user.as_str()).unwrap_or_default();
            let expected = expected.remove(user.as_str()).unwrap_or_default();
            let history = || self.history(user);
            assert_eq!(announced, expected, "{user}: {:#?}", history());
            let rising = announced.windows(2).all(|two| two[0].1 < two[1].1);
            assert!(rising, "{announced:?}");
        }
    }
}

/// Reads the keys of the layout: status, and devices if the layout has them.
async fn projected(fixture: &PresenceFixture, user: &UserId) -> (Option<String>, Vec<String>) {
    let keys = &fixture.keys;
    let (word, ids) = match fixture.layout {
        PresenceLayout::Devices => (None, Some(("HKEYS", keys.presence_devices(user)))),
        PresenceLayout::Document => (Some(keys.presence_document(user)), None),
        PresenceLayout::Sockets => (
            Some(keys.presence_online(user)),
            Some(("SMEMBERS", keys.presence_sockets(user))),
        ),
        PresenceLayout::Status => (Some(keys.presence_status(user)), None),
    };
    let mut store = fixture.store.clone();
    let (mut text, mut members) = (None, Vec::new());
    if let Some(key) = word {
        text = redis::cmd("GET")
            .arg(key)
            .query_async(&mut store)
            .await
            .unwrap();
    }
    if let Some((command, key)) = ids {
        members = redis::cmd(command)
            .arg(key)
            .query_async(&mut store)
            .await
            .unwrap();
    }
    members.sort();
    (text, members)
}
