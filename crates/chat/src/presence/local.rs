//! What this node remembers: its sockets, the beats to be written, and what could not be written yet.
//!
//! Always true:
//! 1. Nothing here is locked across a wait.
//! 2. A device that left is in none of the maps, so no late beat brings it back.

use std::collections::{HashMap, HashSet};

use super::ops::Device;
use crate::ids::{DeviceId, SocketId, UserId};

/// A device among those of all users.
pub(super) type DeviceKey = (UserId, DeviceId);

/// A socket of this node.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) device: Device,
    /// When it connected, in ISO 8601; with the node's epoch it tells this connection from later ones of the device.
    pub(super) connected: String,
    /// Whether the store has known it: then it may be restored, else it is new.
    pub(super) announced: bool,
}

/// How a device went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Going {
    /// With a goodbye.
    Left,
    /// Without one.
    Lost,
}

#[derive(Debug, Default)]
pub(super) struct Local {
    users: HashMap<UserId, HashMap<DeviceId, Held>>,
    beats: HashMap<DeviceKey, Device>,
    /// Beats that are being written.
    flying: HashSet<DeviceKey>,
    /// Sockets that have to be registered again before they beat.
    owed: Vec<DeviceKey>,
    /// Those who went while the store was away.
    going: Vec<(Held, Going)>,
    /// The epoch of the store that was last seen.
    epoch: u64,
}

pub(super) fn key(device: &Device) -> DeviceKey {
    (device.user.clone(), device.id.clone())
}

impl Local {
    /// A socket has come; one of the same device before it is forgotten.
    pub(super) fn add(&mut self, held: Held) {
        self.beats.remove(&key(&held.device));
        let devices = self.users.entry(held.device.user.clone()).or_default();
        devices.insert(held.device.id.clone(), held);
    }

    /// A socket has gone. None if another one has taken its device over, or it never was here.
    pub(super) fn remove(&mut self, device: &Device) -> Option<Held> {
        self.get(&device.user, &device.id, device.socket.as_ref())?;
        self.forget_beat(&device.user, &device.id);
        let devices = self.users.get_mut(&device.user)?;
        let held = devices.remove(&device.id);
        if devices.is_empty() {
            self.users.remove(&device.user);
        }
        held
    }

    /// The socket that holds a device; with `socket` only if it is that one.
    pub(super) fn get(
        &self,
        user: &UserId,
        id: &DeviceId,
        socket: Option<&SocketId>,
    ) -> Option<&Held> {
        let held = self.users.get(user)?.get(id)?;
        (socket.is_none() || held.device.socket.as_ref() == socket).then_some(held)
    }

    /// Whether a user has a socket here.
    pub(super) fn has(&self, user: &UserId) -> bool {
        self.users.contains_key(user)
    }

    /// Keeps a beat to be written; that of a socket only if it is one of ours.
    pub(super) fn beat(&mut self, device: &Device) {
        let ours = device.socket.is_some();
        if !ours
            || self
                .get(&device.user, &device.id, device.socket.as_ref())
                .is_some()
        {
            self.beats.insert(key(device), device.clone());
        }
    }

    /// The beat of a device that does not want one any more.
    pub(super) fn forget_beat(&mut self, user: &UserId, id: &DeviceId) {
        let key = (user.clone(), id.clone());
        self.beats.remove(&key);
        self.flying.remove(&key);
    }

    /// The beats to be written now.
    pub(super) fn take_beats(&mut self) -> Vec<Device> {
        self.flying = self.beats.keys().cloned().collect();
        self.beats.drain().map(|(_, device)| device).collect()
    }

    /// Beats that could not be written; a newer one of the same device stays.
    pub(super) fn put_back(&mut self, devices: &[Device]) {
        for device in devices {
            let key = key(device);
            if self.flying.remove(&key) {
                self.beats.entry(key).or_insert_with(|| device.clone());
            }
        }
    }

    /// The beats are written. Of the devices that the store did not know, those to be registered: sockets that are still
    /// here, and others that nobody removed meanwhile.
    pub(super) fn landed(&mut self, unknown: Vec<&Device>, now: &str) -> Vec<Held> {
        let flying = std::mem::take(&mut self.flying);
        let still = unknown.into_iter().filter(|it| flying.contains(&key(it)));
        let anew = still.filter_map(|device| match &device.socket {
            Some(socket) => self.get(&device.user, &device.id, Some(socket)).cloned(),
            None => Some(Held {
                device: device.clone(),
                connected: now.to_owned(),
                announced: false,
            }),
        });
        anew.collect()
    }

    /// The store knows these. Those of them that went meanwhile, whose goodbye may have come too early; where another
    /// socket took the device over, that one is owed instead.
    pub(super) fn registered(&mut self, devices: &[Held]) -> Vec<(Held, Going)> {
        let mut gone = Vec::new();
        for known in devices.iter().filter(|it| it.device.socket.is_some()) {
            let key = key(&known.device);
            let of_user = self.users.get_mut(&key.0);
            match of_user.and_then(|devices| devices.get_mut(&key.1)) {
                Some(held) if held.device.socket == known.device.socket => held.announced = true,
                Some(_) => self.owed.push(key),
                None => gone.push((known.clone(), Going::Left)),
            }
        }
        gone
    }

    /// Whether the store's epoch is another one than when last asked.
    pub(super) fn is_new_epoch(&mut self, epoch: u64) -> bool {
        std::mem::replace(&mut self.epoch, epoch) != epoch
    }

    /// Every socket has to be registered again, in any order: nodes that come back together do not come user by user.
    pub(super) fn owe_all(&mut self) {
        use rand::seq::SliceRandom;
        self.owed = self
            .users
            .iter()
            .flat_map(|(user, devices)| devices.keys().map(|id| (user.clone(), id.clone())))
            .collect();
        self.owed.shuffle(&mut rand::rng());
    }

    pub(super) fn owe(&mut self, devices: impl IntoIterator<Item = DeviceKey>) {
        self.owed.extend(devices);
    }

    /// Some of the sockets to be registered again, those that are still here.
    pub(super) fn take_owed(&mut self, most: usize) -> Vec<Held> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((user, id)) = self.owed.pop()
        {
            self.beats.remove(&(user.clone(), id.clone()));
            taken.extend(self.get(&user, &id, None).cloned());
        }
        taken
    }

    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    pub(super) fn keep_going(&mut self, going: impl IntoIterator<Item = (Held, Going)>) {
        self.going.extend(going);
    }

    pub(super) fn take_going(&mut self) -> Vec<(Held, Going)> {
        std::mem::take(&mut self.going)
    }

    /// Every socket of this node, which has none afterwards.
    pub(super) fn drain(&mut self) -> Vec<Held> {
        self.beats.clear();
        self.owed.clear();
        let users = std::mem::take(&mut self.users);
        users.into_values().flat_map(HashMap::into_values).collect()
    }
}
