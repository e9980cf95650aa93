//! Random histories of two nodes, held against a model that knows no store.

mod model;

use std::collections::HashMap;
use std::time::Duration;

use parlor_chat::ids::{DeviceId, SocketId, UserId};
use parlor_chat::keys::PresenceLayout;
use parlor_chat::presence::{Device, Status};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::model::Model;
use super::world::{Announced, GRACE, LEASE, World, user};

const HISTORIES: u64 = 150;
const STEPS: usize = 40;
const USERS: usize = 2;
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
    let mut world = World::embedded(layout).await;
    world.tick().await;
    let mut model = Model::new(&world);
    for seed in 0..HISTORIES {
        let mut history = History {
            rng: StdRng::seed_from_u64(seed),
            done: Vec::new(),
            sockets: HashMap::new(),
            count: 0,
            users: (0..USERS)
                .map(|it| user(&format!("u{seed}-{it}")))
                .collect(),
        };
        for _ in 0..STEPS {
            history.step(&mut world, &mut model).await;
            history.agrees(&world, &model).await;
        }
        // In which order users are looked at is nobody's business.
        let by_user = |mut announced: Announced| {
            announced
                .sort_by(|(a, _), (b, _)| a.split(' ').next_back().cmp(&b.split(' ').next_back()));
            announced
        };
        let announced = by_user(world.announced().await);
        let expected = by_user(model.take_announced());
        assert_eq!(announced, expected, "{layout} {seed}: {:#?}", history.done);
        for user in &history.users {
            let of_user = announced
                .iter()
                .filter(|(what, _)| what.ends_with(user.as_str()));
            let versions: Vec<u64> = of_user.map(|(_, version)| *version).collect();
            assert!(
                versions.windows(2).all(|two| two[0] < two[1]),
                "{versions:?}"
            );
        }
    }
}

struct History {
    rng: StdRng,
    done: Vec<String>,
    /// The sockets that are open: node, user and device to socket.
    sockets: HashMap<(usize, UserId, DeviceId), SocketId>,
    count: usize,
    users: Vec<UserId>,
}

impl History {
    async fn step(&mut self, world: &mut World, model: &mut Model) {
        let node = self.rng.random_range(0..2);
        let user = self.users[self.rng.random_range(0..USERS)].clone();
        let id = DeviceId::new(format!("d{}", self.rng.random_range(0..DEVICES))).unwrap();
        let place = (node, user.clone(), id.clone());
        let open = self.sockets.get(&place).cloned();
        let device = |socket| Device {
            user: user.clone(),
            id: id.clone(),
            socket: Some(socket),
            info: None,
        };
        let here = &world.nodes[node];
        let choice = self.rng.random_range(0..100);
        let mut told = format!("{choice} on {node}: {user} {id} at {}", world.now().ms());
        match (choice, open) {
            (0..20, _) => {
                self.count += 1;
                let socket = SocketId::new(format!("{user}-s{}", self.count)).unwrap();
                self.sockets.insert(place, socket.clone());
                here.connect(device(socket)).await.unwrap();
                model.connect(node, &user, &id);
            }
            (20..40, Some(socket)) => {
                here.beat(&device(socket));
                here.flush_beats().await.unwrap();
                model.beat(node, &user, &id);
            }
            (40..48, Some(socket)) => {
                self.sockets.remove(&place);
                here.leave(&device(socket)).await.unwrap();
                model.leave(node, &user, &id);
            }
            (48..56, Some(socket)) => {
                self.sockets.remove(&place);
                here.lose(&device(socket)).await.unwrap();
                model.lose(node, &user, &id);
            }
            (56..66, _) => {
                let wishes = [Status::Online, Status::Away, Status::Busy, Status::Offline];
                let status = wishes[self.rng.random_range(0..4)];
                told += status.name();
                here.set(&user, status).await.unwrap();
                model.set(&user, status.name());
            }
            (66..78, _) => {
                here.sweep().await.unwrap();
                model.sweep(node);
                here.reap().await.unwrap();
                model.reap(node);
            }
            (78..80, _) => {
                world.nodes[node] = world.start(&model.next_node()).await;
                model.crash(node);
                self.sockets.retain(|(at, _, _), _| *at != node);
            }
            (80.., _) => {
                let far = self.rng.random_range(0..10) == 0;
                let most = if far { world.ttl() } else { LEASE + GRACE };
                let most = u64::try_from(most.as_millis()).unwrap();
                let by = Duration::from_millis(self.rng.random_range(1..most));
                told += &format!(" {by:?}");
                world.pass(by).await;
                model.pass(world.now().ms());
            }
            _ => return,
        }
        self.done.push(told);
    }

    async fn agrees(&self, world: &World, model: &Model) {
        for user in &self.users {
            let seen = world.nodes[0].status(user).await.unwrap();
            let devices = world.nodes[0].devices(user).await.unwrap();
            let devices = devices.iter().map(|it| it.device_id.to_string()).collect();
            let stored = (seen.status.name(), seen.version, devices);
            assert_eq!(stored, model.seen(user), "{user}: {:#?}", self.done);
            let (expected, stored) = model.shown(user, world, projected(world, user).await);
            assert_eq!(stored, expected, "{user}: {:#?}", self.done);
        }
    }
}

/// What the layout's keys say: a word, and the devices where they are shown.
async fn projected(world: &World, user: &UserId) -> (Option<String>, Vec<String>) {
    let keys = &world.keys;
    let (word, ids) = match world.layout {
        PresenceLayout::Devices => (None, Some(("HKEYS", keys.presence_devices(user)))),
        PresenceLayout::Document => (Some(keys.presence_document(user)), None),
        PresenceLayout::Sockets => (
            Some(keys.presence_online(user)),
            Some(("SMEMBERS", keys.presence_sockets(user))),
        ),
        PresenceLayout::Status => (Some(keys.presence_status(user)), None),
    };
    let mut store = world.store.clone();
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
